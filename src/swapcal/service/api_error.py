"""`ApiError`: a rejected request, for HTTP, logs and tests alike."""

from typing import Any, NamedTuple


class ApiErrorKind(NamedTuple):
    """One kind of error: its HTTP status code and the standard title of that status."""

    status: int
    title: str


KINDS = {
    "malformed": ApiErrorKind(400, "Bad Request"),
    "unauthorized": ApiErrorKind(401, "Unauthorized"),
    "forbidden": ApiErrorKind(403, "Forbidden"),
    "unknown": ApiErrorKind(404, "Not Found"),
    "method": ApiErrorKind(405, "Method Not Allowed"),
    "slow": ApiErrorKind(408, "Request Timeout"),
    "conflict": ApiErrorKind(409, "Conflict"),
    "expired": ApiErrorKind(410, "Gone"),
    "large": ApiErrorKind(413, "Content Too Large"),
    "media": ApiErrorKind(415, "Unsupported Media Type"),
    "host": ApiErrorKind(421, "Misdirected Request"),
    "invalid": ApiErrorKind(422, "Unprocessable Content"),
    "many": ApiErrorKind(429, "Too Many Requests"),
    "internal": ApiErrorKind(500, "Internal Server Error"),
    "unavailable": ApiErrorKind(503, "Service Unavailable"),
}


class ApiError(Exception):
    """A request that was rejected; the state has not changed.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    detail : str
        The given and the expected value.
    retry : float, optional
        Seconds after which to retry, if a retry can succeed.
    more
        Further facts, such as both values of a conflict.

    Examples
    --------
    >>> error = ApiError("conflict", "y: given 0, expected 1 as before", given=0, known=1)
    >>> error.status, error.more
    (409, {'given': 0, 'known': 1})
    """

    def __init__(self, kind: str, detail: str, *, retry: float | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.retry = retry
        self.more = more

    @property
    def status(self) -> int:
        """The status code."""
        return KINDS[self.kind].status

    @property
    def title(self) -> str:
        """The standard title of the status."""
        return KINDS[self.kind].title

    def problem(self) -> dict[str, Any]:
        """Return the problem details of RFC 9457."""
        about = {"type": f"urn:swapcal:{self.kind}", "title": self.title, "status": self.status}
        return {**about, "detail": self.detail, **self.more}


def unavailable(why: str, retry: float = 1.0) -> ApiError:
    """Return the error of a request that may succeed later."""
    return ApiError("unavailable", why, retry=retry)
