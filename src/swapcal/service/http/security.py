"""Security: who may do what."""

import ipaddress
import time

from starlette.concurrency import run_in_threadpool

from swapcal.service.http.incoming import Headers
from swapcal.service.refusal import Refusal
from swapcal.service.store import Store
from swapcal.service.stored import TokenRow
from swapcal.service.tokens import scopes_of

FRESH = 2.0
"""Seconds for which tokens are remembered: a token that is revoked is refused after that."""
NEVER = -1e9


class Gate:
    """Lets a request in if its token has the scope it needs; without tokens, if it was sent to this very machine.

    Parameters
    ----------
    store : Store
        Where tokens are.
    required : bool
        Whether tokens are needed.
    hosts : set of str
        Names by which the service may be called when tokens are not needed: a page of another site that had its name
        point here could otherwise use a browser to get in.
    """

    def __init__(self, store: Store, *, required: bool, hosts: "set[str] | frozenset[str]" = frozenset()) -> None:
        self.required = required
        self._store = store
        self._hosts = {"localhost", "127.0.0.1", "::1", *hosts}
        self._rows: list[TokenRow] = []
        self._read = NEVER

    async def admit(self, headers: Headers, needed: str) -> None:
        """Refuse who may not do this."""
        if not self.required:
            self._check_host(headers.get(b"host", b"localhost").decode("latin-1"))
            return
        kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Refusal("unauthorized", "authorization: given none, expected: Bearer and a token")
        scopes = scopes_of(token.strip(), await self._tokens())
        if scopes is None:
            raise Refusal("unauthorized", "authorization: given a token that is unknown or revoked, expected another")
        if needed not in scopes:
            raise Refusal("forbidden", f"scope: given {', '.join(sorted(scopes))}, expected {needed}")

    async def _tokens(self) -> list[TokenRow]:
        if time.monotonic() - self._read > FRESH:
            self._rows = await run_in_threadpool(self._store.tokens)
            self._read = time.monotonic()
        return self._rows

    def _check_host(self, given: str) -> None:
        name = given[1:].partition("]")[0] if given.startswith("[") else given.partition(":")[0]
        if name.lower() not in self._hosts:
            raise Refusal("host", f"host: given {name[:80]!r}, expected the name of this machine's loopback")


def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached from this machine only.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
