"""Traces of requests: ids of `traceparent` headers for the log, and spans through OpenTelemetry where it is enabled.

OpenTelemetry is imported by `Tracing` alone, so a service without it does not load it.
"""

import os
import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from swapcal.version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

# `RequestTrace`: one traced request, from its headers to its batch.

WAIT, LEARN, COMMIT = "wait", "learn", "commit"
"""Spans of a write: on the queue, being applied by the learner, being committed; the last two are its batch's."""

_IDS = rb"-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})"
_PARENT = re.compile(
    rb"(?!ff)(?:00(?=.{53}\Z)|(?!00)[0-9a-f]{2})" + _IDS + rb"(?:-|\Z)"
)  # later versions may add parts


class RequestTrace:
    """Id of a trace, and begin and end of the spans of one request, in nanoseconds since 1970."""

    __slots__ = ("id", "queued", "span", "times")

    def __init__(self, id: str, span: "Span | None" = None) -> None:
        self.id = id
        self.span = span
        self.queued = 0
        self.times: dict[str, tuple[int, int]] = {}


class Traced(Protocol):
    """A job that may belong to a traced request."""

    @property
    def trace(self) -> RequestTrace | None:
        """Its trace."""


def stamp(jobs: Iterable[Traced], name: str, began: int | None = None) -> None:
    """Note for each traced job that a span ends now; it began then, or when the job was put on the queue."""
    now = time.time_ns()
    for job in jobs:
        if job.trace is not None:
            job.trace.times[name] = (job.trace.queued if began is None else began, now)


def parent_of(headers: Mapping[bytes, bytes]) -> tuple[str, str, int] | None:
    """Return trace id, span id and flags of a `traceparent` header (W3C Trace Context); None without a valid one.

    Examples
    --------
    >>> parent_of({b"traceparent": b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
    ('4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7', 1)
    """
    given = headers.get(b"traceparent")
    match = None if given is None else _PARENT.match(given)
    if match is None:
        return None
    trace, span, flags = (part.decode() for part in match.groups())
    return trace, span, int(flags, 16)


def untraced(headers: Mapping[bytes, bytes]) -> RequestTrace | None:
    """Return a trace without spans, for the log; None if the request has no valid `traceparent`."""
    parent = parent_of(headers)
    return None if parent is None else RequestTrace(parent[0])


# `Tracing`: spans through OpenTelemetry.

EXPORTERS = ("otlp", "console")


class Tracing:
    """Makes a span of each request, with spans inside it for `WAIT`, `LEARN` and `COMMIT`.

    Parameters
    ----------
    provider : TracerProvider, optional
        Of OpenTelemetry; the global one by default.
    """

    def __init__(self, provider: "TracerProvider | None" = None) -> None:
        from opentelemetry import trace

        self._api = trace
        self._provider: Any = provider or trace.get_tracer_provider()
        self._tracer = trace.get_tracer("swapcal", __version__, tracer_provider=self._provider)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Send what is left."""
        getattr(self._provider, "shutdown", lambda: None)()

    def begin(self, headers: Mapping[bytes, bytes], name: str, **attributes: str) -> RequestTrace:
        """Return the trace of a request, with a span that begins now; inside the span of its headers, if any."""
        span = self._tracer.start_span(
            name, context=self._parent(headers), kind=self._api.SpanKind.SERVER, attributes=attributes
        )
        return RequestTrace(self._api.format_trace_id(span.get_span_context().trace_id), span)

    def end(self, trace: RequestTrace, status: int | None) -> None:
        """End the spans of a request that was answered with this status, or not at all."""
        span = trace.span
        if span is None:
            return
        if span.is_recording():
            inside = self._api.set_span_in_context(span)
            for name, (began, ended) in trace.times.items():
                self._tracer.start_span(name, context=inside, start_time=began).end(ended)
            if status is not None:
                span.set_attribute("http.response.status_code", status)
            if status is None or status >= 500:
                span.set_status(self._api.StatusCode.ERROR)
        span.end()

    def _parent(self, headers: Mapping[bytes, bytes]) -> "Context":
        from opentelemetry.context import Context

        parent, api = parent_of(headers), self._api
        if parent is None:
            return Context()
        trace, span, flags = parent
        state = api.TraceState.from_header([headers.get(b"tracestate", b"").decode("latin-1")])
        known = api.SpanContext(int(trace, 16), int(span, 16), True, api.TraceFlags(flags), state)
        inside: Context = api.set_span_in_context(api.NonRecordingSpan(known), Context())
        return inside


def tracing_to(exporter: str) -> Tracing:
    """Return tracing that sends spans by OTLP over HTTP or prints them; settings are the variables OTEL_… ."""
    if exporter not in EXPORTERS:
        raise ValueError(f"--traces: given {exporter!r}, expected one of {', '.join(EXPORTERS)}")
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    target: SpanExporter
    if exporter == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        target = OTLPSpanExporter()
    else:
        target = ConsoleSpanExporter()
    name = os.environ.get("OTEL_SERVICE_NAME", "swapcal")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(target))
    return Tracing(provider)
