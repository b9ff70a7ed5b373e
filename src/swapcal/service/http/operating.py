"""Operating: is it alive, is it ready, what does it count, what does it offer."""

import asyncio
from functools import cache

import msgspec
from starlette.concurrency import run_in_threadpool

from swapcal.service.http.endpoint import Call
from swapcal.service.http.metrics import exposition
from swapcal.service.http.openapi import document
from swapcal.service.http.reading import json_response
from swapcal.service.http.reply import Reply
from swapcal.service.refusal import Refusal, unavailable
from swapcal.service.status import Status, describe
from swapcal.service.stored import StoreError

TEXT = "text/plain; version=0.0.4; charset=utf-8"
LONGEST = 2.0
"""Seconds the metrics wait for the learner before they tell what was known last."""


async def healthz(call: Call) -> Reply:
    """Answer if the process does."""
    return json_response({"status": "ok"})


async def readyz(call: Call) -> Reply:
    """Answer 200 if forecasts and outcomes would be taken now."""
    desk = call.office.desk
    if desk.standing_by:
        raise unavailable(f"Standing by: forecasters {', '.join(desk.standing_by)} are not this process's now.")
    if not desk.ready:
        raise unavailable("The service is starting or stopping.")
    try:
        await run_in_threadpool(desk.store.ping)
    except StoreError:
        raise unavailable("The store cannot be reached.") from None
    return json_response({"status": "ready"})


async def metrics(call: Call) -> Reply:
    """Return all counts as Prometheus reads them."""
    office = call.office
    for name in [*office.desk.wards]:
        try:
            async with asyncio.timeout(LONGEST):
                found: Status = await office.ask(name, describe)
                office.last[name] = found
        except (Refusal, TimeoutError):
            continue
    return Reply(exposition(office.desk, office.last), media=TEXT)


async def openapi(call: Call) -> Reply:
    """Return the OpenAPI document."""
    return Reply(_document())


@cache
def _document() -> bytes:
    return msgspec.json.encode(document())
