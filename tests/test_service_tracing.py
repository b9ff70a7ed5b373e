"""Traces: ids of `traceparent` in the log, and spans of requests where OpenTelemetry is enabled."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
from swapcal.service.settings import JsonLog
from swapcal.service.tracing import Tracing, parent_of, tracing_to
from tests.service_server import served

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
ROWS = json.dumps({"forecasts": [{"id": str(k), "record": {"x": k}} for k in range(3)]}).encode()
STATUS = "http.response.status_code"
FORECASTS = "/v1/forecasters/shop/forecasts"


@pytest.mark.parametrize(
    ("given", "valid"),
    [
        (PARENT, True),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", True),
        (f"cc-{TRACE}-{SPAN}-01.what", False),
        (f"00-{TRACE}-{SPAN}-01-more", False),
        (f"00-{TRACE}-{SPAN}-0", False),
        (f"ff-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{SPAN}-01", False),
        ("", False),
    ],
)
def test_traceparent_is_read_as_the_w3c_defines_it(given: str, valid: bool) -> None:
    assert parent_of({b"traceparent": given.encode()}) == ((TRACE, SPAN, 1) if valid else None)
    propagation = pytest.importorskip("opentelemetry.trace.propagation.tracecontext")
    from opentelemetry import trace

    context = propagation.TraceContextTextMapPropagator().extract({"traceparent": given})
    assert (trace.get_current_span(context).get_span_context().trace_id == int(TRACE, 16)) is valid


def lines(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_log_lines_have_the_trace_id_without_opentelemetry(tmp_path: Path) -> None:
    log = JsonLog("all", stream := io.BytesIO())
    with served(tmp_path, log=log) as service:
        service.post("/v1/forecasters", {"name": "shop"})
        service.send("POST", FORECASTS, ROWS, content_type="application/json", traceparent=PARENT)
        service.send("POST", FORECASTS, ROWS.replace(b'"0"', b'"new"'), content_type="application/json")
        service.send("GET", "/v1/forecasters/none/status", traceparent=PARENT)
    written = [line for line in lines(stream) if line.get("path") == FORECASTS]
    assert [line.get("trace") for line in written] == [TRACE, None]
    commits = [line for line in lines(stream) if line["event"] == "commit" and line["forecaster"] == "shop"]
    assert [line.get("traces") for line in commits] == [None, [TRACE], None]
    assert {line["trace"] for line in lines(stream) if line.get("path") == "/v1/forecasters/none/status"} == {TRACE}


def test_spans_of_a_write_are_wait_learn_and_commit_inside_the_callers_span(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    log = JsonLog("all", stream := io.BytesIO())
    with served(tmp_path, log=log, tracing=Tracing(provider)) as service:
        service.post("/v1/forecasters", {"name": "shop"})
        exporter.clear()
        headers = {"content_type": "application/json", "traceparent": PARENT, "tracestate": "vendor=a"}
        assert service.send("POST", FORECASTS, ROWS, **headers).status == 200
        service.get("/healthz")
        unsampled = f"00-{TRACE}-{SPAN}-00"
        service.send("POST", FORECASTS, ROWS, content_type="application/json", traceparent=unsampled)
        assert service.send("POST", FORECASTS, b"{", content_type="application/json").status == 400
    spans = {span.name: span for span in exporter.get_finished_spans()}
    by_trace = [span for span in exporter.get_finished_spans() if span.context.trace_id == int(TRACE, 16)]
    assert [span.name for span in by_trace] == ["wait", "learn", "commit", "POST forecasts"]
    wait, learn, commit, request = by_trace
    assert request.parent is not None
    assert request.parent.span_id == int(SPAN, 16)
    assert request.context.trace_state["vendor"] == "a"
    assert request.attributes == {"url.path": FORECASTS, STATUS: 200}
    assert request.start_time <= wait.start_time <= wait.end_time <= learn.start_time <= learn.end_time
    assert learn.end_time <= commit.start_time <= commit.end_time <= request.end_time
    assert {part.parent.span_id for part in by_trace[:3]} == {request.context.span_id}
    health = spans["GET healthz"]
    assert health.parent is None
    known = {line["trace"] for line in lines(stream) if line["event"] == "request"}
    assert {f"{health.context.trace_id:032x}", TRACE} <= known
    refused = [span for span in exporter.get_finished_spans() if (span.attributes or {}).get(STATUS) == 400]
    assert [span.name for span in refused] == ["POST forecasts"]


def test_otlp_sends_spans_when_the_service_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from tests.test_service_client import scripted

    with scripted((200, b"", {"Content-Type": "application/x-protobuf"})) as (collector, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with tracing_to("otlp") as tracing, served(tmp_path, tracing=tracing) as service:
            service.get("/healthz")
    (method, path, body, _) = received[0]
    assert (method, path) == ("POST", "/v1/traces")
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "swapcal"
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["GET healthz"]
    with pytest.raises(ValueError, match="--traces: given 'jaeger'"):
        tracing_to("jaeger")


def test_a_service_without_tracing_does_not_load_opentelemetry() -> None:
    code = (
        "import sys, swapcal.cli.serve, swapcal.service.tracing as t; assert t.untraced({}) is None;"
        "print(*(name for name in sys.modules if name.split('.')[0] == 'opentelemetry'))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []
