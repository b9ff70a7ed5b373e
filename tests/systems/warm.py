"""Loaded once by the process that services are forked from: every module and every kernel they need."""

import tempfile

import swapcal
import swapcal.cli.serve
from swapcal.service.server import Server
from swapcal.service.store import open_store
from swapcal.service.worker import Worker

assert swapcal.cli.serve

with tempfile.TemporaryDirectory() as folder:
    worker = Worker(open_store(f"{folder}/warm.db", learner=True, create=True))
    with Server(worker, port=0).in_background() as url, swapcal.Client(url) as client:
        client.create("warm", groups=["g"])
        for k in range(3):
            client.forecast("warm", {"g": "a", "x": float(k)}, id=k, time=k, matures=k + 1)
            client.outcome("warm", k, 1)
            client.about("warm", k)
        client.status("warm")
