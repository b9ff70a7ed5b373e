"""Signing in and out."""

from urllib.parse import parse_qs

from swapcal.service.http.endpoint import Call
from swapcal.service.http.incoming import read_body
from swapcal.service.http.offers import READ
from swapcal.service.http.reply import Reply
from swapcal.service.pages.page import moved, page
from swapcal.service.pages.session import cookie, here, is_own, is_token
from swapcal.service.refusal import Refusal


async def ask(call: Call) -> Reply:
    """Show where a token can be given."""
    if not call.office.gate.required:
        return moved("/")
    return page("sign_in.html", next=here(call.request.query_params.get("next", "/")), trouble="")


async def sign_in(call: Call) -> Reply:
    """Keep a token that may read in a cookie."""
    given = await _form(call)
    token, path = given.get("token", "").strip(), here(given.get("next", "/"))
    try:
        if not is_token(token):
            raise Refusal("unauthorized", "token: given something else, expected what swapcal token create printed")
        await call.office.gate.admit({b"authorization": f"Bearer {token}".encode(), **_host(call)}, READ)
    except Refusal as refusal:
        call.office.log("refused", path="/sign-in", why=refusal.detail)
        return page("sign_in.html", refusal.status, next=path, trouble=refusal.detail)
    return moved(path, **{"set-cookie": cookie(token, call.scope["scheme"])})


async def sign_out(call: Call) -> Reply:
    """Forget the token."""
    await _form(call)
    return moved("/sign-in", **{"set-cookie": cookie("", call.scope["scheme"])})


async def _form(call: Call) -> dict[str, str]:
    if not is_own(call.scope, call.headers):
        raise Refusal("forbidden", "origin: given another site, expected a page of this service")
    body = await read_body(call.headers, call.receive, call.office.limits)
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace"), max_num_fields=10).items()}


def _host(call: Call) -> dict[bytes, bytes]:
    return {b"host": call.headers[b"host"]} if b"host" in call.headers else {}
