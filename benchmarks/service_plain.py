"""The same stack without learning: Starlette, msgspec, uvicorn and the same store with group commit.

Run by benchmarks/service.py as ``python benchmarks/service_plain.py STORE``; prints the port it listens on.
"""

import asyncio
import queue
import sys
import threading
import time
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swapcal.service.events import Event
from swapcal.service.queue import LONGEST, MANY, SHARE
from swapcal.service.server import TURNS, _bound
from swapcal.service.store import open_store

NAME, BATCH = "plain", 4096


class Asked(msgspec.Struct):
    id: str
    record: dict[str, Any]


class Told(msgspec.Struct):
    y: float


class Several(msgspec.Struct):
    forecasts: list[Asked]


asked, told, many = msgspec.json.Decoder(Asked), msgspec.json.Decoder(Told), msgspec.json.Decoder(Several)
encode = msgspec.json.Encoder().encode
waiting: "queue.SimpleQueue[tuple[asyncio.Future[int], list[tuple[str, str, bytes]]]]" = queue.SimpleQueue()


def keep(path: str, loop: asyncio.AbstractEventLoop) -> None:
    store = open_store(path, learner=True, create=True)
    store.claim(NAME)
    store.append([Event(NAME, 1, "made", "", 0.0, b"{}")])
    seq, recent, took = 1, 0, 0.0
    while True:
        jobs = [waiting.get()]
        if recent >= MANY:  # as our own worker: those who were answered together come back together
            time.sleep(min(LONGEST, SHARE * took))
        while len(jobs) < BATCH and not waiting.empty():
            jobs.append(waiting.get())
        events, answers = [], []
        store.about(NAME, [id for _, rows in jobs for _, id, _ in rows])
        for promise, rows in jobs:
            for kind, id, body in rows:
                seq += 1
                events.append(Event(NAME, seq, kind, id, 0.0, body))
            answers.append((promise, seq))
        began = time.perf_counter()
        store.append(events)
        recent, took = len(jobs), time.perf_counter() - began
        loop.call_soon_threadsafe(fulfil, answers)


def fulfil(answers: "list[tuple[asyncio.Future[int], int]]") -> None:
    for promise, seq in answers:
        if not promise.done():
            promise.set_result(seq)


async def stored(rows: list[tuple[str, str, bytes]]) -> int:
    promise = asyncio.get_running_loop().create_future()
    waiting.put((promise, rows))
    return await promise


def answer(id: str, seq: int) -> dict[str, Any]:
    return {"id": id, "p": 0.25, "mean": 0.2512345678, "low": 0.25, "high": 0.375, "weight": 0.0098765, "seq": seq}


async def forecasts(request: Request) -> Response:
    body = await request.body()
    if body.startswith(b'{"forecasts"'):
        rows = many.decode(body).forecasts
        seq = await stored([("forecast", row.id, encode(row)) for row in rows])
        return Response(encode({"forecasts": [answer(row.id, seq) for row in rows]}), media_type="application/json")
    row = asked.decode(body)
    return Response(encode(answer(row.id, await stored([("forecast", row.id, body)]))), media_type="application/json")


async def outcome(request: Request) -> Response:
    id, y = request.path_params["id"], told.decode(await request.body()).y
    seq = await stored([("outcome", id, encode(y))])
    return Response(encode({"id": id, "y": y, "state": "learned", "seq": seq}), media_type="application/json")


async def ready(request: Request) -> Response:
    return Response(b"{}", media_type="application/json")


async def main(path: str) -> None:
    sys.setswitchinterval(TURNS)
    threading.Thread(target=keep, args=(path, asyncio.get_running_loop()), daemon=True).start()
    base = "/v1/forecasters/{name}"
    routes = [
        Route("/readyz", ready),
        Route(f"{base}/forecasts", forecasts, methods=["POST"]),
        Route(base + "/outcomes/{id}", outcome, methods=["PUT"]),
    ]
    socket = _bound("127.0.0.1", 0)
    print(f"plain on http://127.0.0.1:{socket.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        Starlette(routes=routes), lifespan="off", log_config=None, access_log=False, http="httptools"
    )
    await uvicorn.Server(config).serve(sockets=[socket])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
