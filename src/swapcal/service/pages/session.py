"""Session: the token in a cookie, because browsers send no bearer header of their own; for pages alone."""

import hmac
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.types import Scope

COOKIE = "swapcal_token"
LONGEST = 512
"""Bytes of a token that is looked at."""

Headers = Mapping[bytes, bytes]


def with_token(headers: Headers) -> dict[bytes, bytes]:
    """Return headers with the cookie's token as if it had been sent as a bearer's, unless one was.

    Examples
    --------
    >>> with_token({b"cookie": b"a=b; swapcal_token=t"})[b"authorization"]
    b'Bearer t'
    """
    token = _token(headers.get(b"cookie", b"").decode("latin-1"))
    if token is None or b"authorization" in headers:
        return {**headers}
    return {**headers, b"authorization": b"Bearer " + token.encode("latin-1")}


def _token(cookies: str) -> str | None:
    try:
        found = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return None
    return found.value if found is not None and 0 < len(found.value) <= LONGEST else None


def cookie(token: str, scheme: str) -> str:
    """Return the header that keeps a token until the browser is closed; an empty one ends the session.

    Examples
    --------
    >>> cookie("t", "https")
    'swapcal_token=t; Path=/; HttpOnly; SameSite=Strict; Secure'
    """
    end = "" if token else "; Max-Age=0"
    return f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if scheme == 'https' else ''}{end}"


def is_own(scope: Scope, headers: Headers) -> bool:
    """Tell whether a form was sent from a page of this service: others could sign a browser in as somebody else."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    if origin is None:
        return True  # no browser: nothing to be misled
    return hmac.compare_digest(urlsplit(origin.decode("latin-1")).netloc.encode(), headers.get(b"host", b""))


def is_token(text: str) -> bool:
    """Tell whether a text may be put into a cookie.

    Examples
    --------
    >>> is_token("swapcal_Ab-_9"), is_token("a; b"), is_token("")
    (True, False, False)
    """
    return 0 < len(text) <= LONGEST and all(c.isascii() and (c.isalnum() or c in "-_.~") for c in text)


def here(path: str) -> str:
    """Return a path of this service to go on to; anything else leads to the overview.

    Examples
    --------
    >>> here("/forecasters/shop?id=a"), here("//evil.example"), here("https://evil.example"), here("")
    ('/forecasters/shop?id=a', '/', '/', '/')
    """
    parts = urlsplit(path)
    plain = path.startswith("/") and path[1:2] not in ("/", "\\") and not parts.scheme and not parts.netloc
    return path if plain and path.isprintable() and path.isascii() else "/"
