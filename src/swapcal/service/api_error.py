"""`ApiError`: why a request is not done, in a form that HTTP, logs and tests all understand."""

from typing import Any, NamedTuple


class ApiErrorKind(NamedTuple):
    """One kind of refusal: its status code and its title."""

    status: int
    title: str


KINDS = {
    "malformed": ApiErrorKind(400, "The request cannot be read"),
    "unauthorized": ApiErrorKind(401, "A token is needed"),
    "forbidden": ApiErrorKind(403, "The token does not allow this"),
    "unknown": ApiErrorKind(404, "There is no such thing"),
    "method": ApiErrorKind(405, "This cannot be done here"),
    "slow": ApiErrorKind(408, "The request took too long to arrive"),
    "conflict": ApiErrorKind(409, "Something else is known already"),
    "expired": ApiErrorKind(410, "The forecast has expired"),
    "large": ApiErrorKind(413, "The request is too large"),
    "media": ApiErrorKind(415, "The request is in another format"),
    "host": ApiErrorKind(421, "The request is for another host"),
    "invalid": ApiErrorKind(422, "The request does not make sense"),
    "many": ApiErrorKind(429, "Too many wait already"),
    "internal": ApiErrorKind(500, "A fault of the service"),
    "unavailable": ApiErrorKind(503, "Not now"),
}


class ApiError(Exception):
    """A request that was refused; nothing has changed.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    detail : str
        What was given and what was expected.
    retry : float, optional
        Seconds after which to try again, where that helps.
    more
        Further facts, such as both values of a conflict.

    Examples
    --------
    >>> refusal = ApiError("conflict", "y: given 0, expected 1 as before", given=0, known=1)
    >>> refusal.status, refusal.more
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
        """What kind of refusal it is, in words."""
        return KINDS[self.kind].title

    def problem(self) -> dict[str, Any]:
        """Return the problem details of RFC 9457."""
        about = {"type": f"urn:swapcal:{self.kind}", "title": self.title, "status": self.status}
        return {**about, "detail": self.detail, **self.more}


def unavailable(why: str, retry: float = 1.0) -> ApiError:
    """Return the refusal of what may work later."""
    return ApiError("unavailable", why, retry=retry)
