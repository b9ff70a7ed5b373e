"""Tokens: who may call the service, and for what. A token is shown once; only its digest is kept."""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Iterable, Sequence

from swapcal.service.store import Store
from swapcal.service.stored import Conflict, TokenRow

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

    It is compared with all there are, each in constant time: how long that takes tells nothing about any of them.
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
