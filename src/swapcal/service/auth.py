"""Tokens and who may do what. A token is shown once; only its digest is kept."""

import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Iterable, Sequence

from starlette.concurrency import run_in_threadpool

from swapcal.service.api_error import ApiError
from swapcal.service.http import Headers
from swapcal.service.sql import Conflict, TokenRow
from swapcal.service.store import Store

# Tokens: who may call the service, and for what. A token is shown once; only its digest is kept.

SCOPES = ("forecast", "outcome", "read", "admin")
PREFIX = "swapcal_"
"""So that a token in the wrong place is recognised, by people and by scanners."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def create_token(store: Store, scopes: Sequence[str], name: str | None = None) -> tuple[str, str]:
    """Return the name of a new token and the token itself, which cannot be had a second time.

    Parameters
    ----------
    store : Store
        Where its digest is kept.
    scopes : sequence of str
        What it is for: forecast, outcome, read, admin.
    name : str, optional
        What it is called in lists and to revoke it; made up by default.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from swapcal.service.store import open_store
    >>> with TemporaryDirectory() as folder:
    ...     store = open_store(f"{folder}/forecasts.db", create=True)
    ...     name, token = create_token(store, ["read", "forecast"], "shop")
    ...     print(name, sorted(scopes_of(token, store.tokens())), scopes_of("guessed", store.tokens()))
    ...     store.close()
    shop ['forecast', 'read'] None
    """
    wanted = checked_scopes(scopes)
    name = secrets.token_hex(4) if name is None else name
    if not NAME.fullmatch(name):
        raise ValueError(f"name: given {name!r}, expected up to 64 letters, digits and . _ -")
    # 256 random bits: nothing to stretch, a plain digest cannot be reversed.
    token = PREFIX + secrets.token_urlsafe(32)
    try:
        store.keep_token(TokenRow(name, _digest(token), ",".join(wanted), time.time(), None))
    except Conflict:
        raise ValueError(f"name: given {name!r}, which there is already, expected a new one") from None
    return name, token


def revoke_token(store: Store, name: str) -> None:
    """Revoke a token for ever; its name stays taken."""
    if store.revoke_token(name, time.time()):
        return
    known = {token.name for token in store.tokens()}
    state = "revoked already" if name in known else "unknown"
    raise ValueError(f"token: given {name!r}, which is {state}, expected one that is in force")


def scopes_of(token: str, rows: Iterable[TokenRow]) -> frozenset[str] | None:
    """Return what a token is for; None if it is unknown or revoked.

    It is compared with all there are, each in constant time: the time taken reveals nothing about any of them.
    """
    digest = _digest(token)
    found: frozenset[str] | None = None
    for row in rows:
        if hmac.compare_digest(row.digest, digest) and row.revoked is None:
            found = frozenset(row.scopes.split(","))
    return found


def checked_scopes(scopes: Sequence[str]) -> list[str]:
    """Return scopes once each, in their usual order.

    Examples
    --------
    >>> checked_scopes(["read", "forecast", "read"])
    ['forecast', 'read']
    """
    strange = [scope for scope in scopes if scope not in SCOPES]
    if strange or not scopes:
        raise ValueError(f"scope: given {', '.join(strange) or 'none'}, expected some of {', '.join(SCOPES)}")
    return [scope for scope in SCOPES if scope in scopes]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


# Security: who may do what.

FRESH = 2.0
"""Seconds for which tokens are remembered: a token that is revoked is refused after that."""
NEVER = -1e9


class Auth:
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
            raise ApiError("unauthorized", "authorization: given none, expected: Bearer and a token")
        scopes = scopes_of(token.strip(), await self._tokens())
        if scopes is None:
            raise ApiError("unauthorized", "authorization: given a token that is unknown or revoked, expected another")
        if needed not in scopes:
            raise ApiError("forbidden", f"scope: given {', '.join(sorted(scopes))}, expected {needed}")

    async def _tokens(self) -> list[TokenRow]:
        if time.monotonic() - self._read > FRESH:
            self._rows = await run_in_threadpool(self._store.tokens)
            self._read = time.monotonic()
        return self._rows

    def _check_host(self, given: str) -> None:
        name = given[1:].partition("]")[0] if given.startswith("[") else given.partition(":")[0]
        if name.lower() not in self._hosts:
            raise ApiError("host", f"host: given {name[:80]!r}, expected the name of this machine's loopback")


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
