"""One seed for everything: the service's own code on simulated time, faults and clients, in one thread.

    python -m tests.systems.simulator 100        # seeds 0 to 99
    python -m tests.systems.simulator 40 49      # seeds 40 to 49

Two workers share one SQLite file, with claims as PostgreSQL has them. Each step of a seed draws from a generator of its
own, so the first k steps of a run are the run of k steps: a failure is reported with the shortest failing prefix.
"""

import gc
import hashlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from swapcal.service.history import plan
from swapcal.service.messages import CorrectionRow, ForecastIn, OutcomeRowIn
from swapcal.service.queue import CORRECTIONS, FORECASTS, OUTCOMES, Ask, Job, Make, Write
from swapcal.service.settings import ApiError, Settings, Watch
from swapcal.service.snapshots import recover
from swapcal.service.sql import Unreadable
from swapcal.service.status import describe
from swapcal.service.store import open_store
from swapcal.service.worker import Worker
from tests.systems.contract import Broken, Contract, expect
from tests.systems.simulated import HOW, Crash, Fault, PutOff, Sessions, SimulatedStore, SimulatedTime, in_place

STEPS = 160
PATIENCE = 5.0
"""Seconds after which a client sends again."""
ROUNDS = 300
"""Rounds without faults in which every request must be answered."""
SMALL: dict[str, Any] = {
    "groups": ["city"],
    "max_dim": 20,
    "categories": 3,
    "parked_for": 60.0,
    "watch": Watch(max_weight=4.0),
}
PROFILES: list[dict[str, Any]] = [
    {},
    {"max_open": 6},
    {"matures": 20.0},
    {"matures": 20.0, "silence": 0},
    {"matures": 5.0, "silence": 1, "max_open": 12},
    {"lifetime": 40.0},
    {"lifetime": 25.0, "order": "issue", "patience": 8},
    {"expires": 9},
]
CITIES = ("Rome", "Bari", "Pisa")


def rows_of(kind: str, ids: list[str], draw: random.Random, clock: float) -> list[Any]:
    """Return rows that a client sends: mostly what it sent before under these ids, sometimes something else."""
    if kind == FORECASTS:
        return [_forecast(id, draw, clock) for id in ids]
    if kind == CORRECTIONS:
        return [CorrectionRow(id, float(draw.random() < 0.5), draw.choice(["typo", "audit"])) for id in ids]
    return [_outcome(id, draw) for id in ids]


def _outcome(id: str, draw: random.Random) -> OutcomeRowIn:
    number, like_before = hashlib.sha256(id.encode()).digest()[0], draw.random()
    usual, weight = float(number % 3 == 0), 1.0 + number % 4
    y = usual if like_before < 0.85 else 1.0 - usual
    return OutcomeRowIn(id, y, weight=weight if like_before < 0.95 else 5.0 - weight)


def _forecast(id: str, draw: random.Random, clock: float) -> ForecastIn:
    number = hashlib.sha256(id.encode()).digest()[1]
    price = number / 8 if draw.random() < 0.95 else -1.0
    record = {"city": CITIES[number % 3], "price": price}
    matures = clock + draw.choice([2.0, 15.0]) if number % 9 == 0 else None
    return ForecastIn(id, msgspec.Raw(msgspec.json.encode(record)), None, matures)


@dataclass
class Request:
    """What a client wants: it sends until it has an answer that is one."""

    name: str
    kind: str
    rows: list[Any]
    promise: "Future[Any] | None" = None
    sent: float = -1e9
    attempts: int = 0


@dataclass
class Process:
    """One of the processes that serve the store: a worker, its clock, and what it put off."""

    store: SimulatedStore
    worker: Worker
    snapshots: PutOff
    clock: "Clock"
    faults: list[str] = field(default_factory=list)


class Clock:
    """A clock of one machine: that of the world, and an error that can jump."""

    def __init__(self, time: SimulatedTime) -> None:
        self._time, self.error = time, 0.0

    def __call__(self) -> float:
        return self._time.now + self.error


class World:
    """Two processes, their store, clients and an operator."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.path = str(folder / "forecasts.db")
        self.time, self.sessions = SimulatedTime(), Sessions()
        draw = random.Random(f"{seed}/settings")
        profiles = {name: draw.choice(PROFILES) for name in ("shop", "bank")}
        settings = {name: Settings(name=name, **SMALL, **profile, seed=seed) for name, profile in profiles.items()}
        self.contracts = {name: Contract(one) for name, one in settings.items()}
        self.clocks = [Clock(self.time), Clock(self.time)]
        self.visitor = SimulatedStore(self.path, self.sessions, learner=False)
        self.processes = [self._started(0), self._started(1)]
        self.requests: list[Request] = []
        self.ids = dict.fromkeys(settings, 0)
        self.pruning: Iterator[int] | None = None
        self.boundary = dict.fromkeys(settings, 1)
        """of what was pruned, by forecaster"""
        self.damaged: set[tuple[str, int]] = set()
        self.counts: dict[str, int] = {}
        self.trace: list[str] = []
        self.wanted = [*settings.values()]
        self.backups = 0

    def count(self, what: str, many: int = 1) -> None:
        """Note that something happened."""
        self.counts[what] = self.counts.get(what, 0) + many

    # ------------------------------------------------------------------ processes

    def _started(self, k: int) -> Process:
        store, snapshots = SimulatedStore(self.path, self.sessions), PutOff()
        faults: list[str] = []

        def log(event: str, **facts: Any) -> None:
            if event == "fault":
                faults.append(str(facts))

        worker = Worker(store, every=12, seconds=30.0, clock=self.clocks[k], log=log)
        worker._snapshotter._writer = snapshots  # type: ignore[assignment]
        return Process(store, worker, snapshots, self.clocks[k], faults)

    def _restart(self, k: int) -> None:
        """Let a process end at once, with all that it had in memory, and start another."""
        self.processes[k].store.close()
        self.processes[k] = self._started(k)

    @contextmanager
    def _mortal(self, k: int) -> Iterator[None]:
        """Do something in a process that may end there."""
        try:
            yield
        except Crash:
            self.count("killed in a commit")
            self._restart(k)

    def turn(self, k: int) -> None:
        """Let a worker do a batch, and what is due beside it."""
        process = self.processes[k]
        self._look(process)
        with self._mortal(k):
            process.worker._step(0.0)
        expect(not process.faults, "the service logs no fault", faults=process.faults)

    def _look(self, process: Process) -> None:
        """Note the time that a process goes by: early outcomes lapse by it."""
        for one in self.contracts.values():
            one.latest = max(one.latest, process.clock())

    # ------------------------------------------------------------------ clients

    def send(self, request: Request, k: int) -> None:
        """Send a request to a process; the client forgets what it sent before."""
        request.promise, request.sent, request.attempts = Future(), self.time.now, request.attempts + 1
        self._put(Write(request.promise, request.name, request.kind, request.rows), k)

    def _put(self, job: Job, k: int) -> None:
        try:
            self.processes[k].worker.submit(job)
        except ApiError as refusal:
            job.promise.set_exception(refusal)

    def receive(self) -> None:
        """Take the answers that have come."""
        for request in [*self.requests]:
            if request.promise is not None and request.promise.done():
                self._answered(request, request.promise)

    def _answered(self, request: Request, promise: "Future[Any]") -> None:
        error, request.promise = promise.exception(), None
        if error is not None:
            expect(isinstance(error, ApiError) and error.status == 503, "a request fails with 503", error=repr(error))
            return
        self.requests.remove(request)
        for row, answer in zip(request.rows, promise.result(), strict=True):
            self._row(request, row, answer)

    def _row(self, request: Request, row: Any, answer: Any) -> None:
        contract = self.contracts[request.name]
        self.count(f"{request.kind}: {getattr(answer, 'status', getattr(answer, 'state', 'done'))}")
        if isinstance(answer, ApiError):
            self._refused(request, row, answer)
        elif request.kind == FORECASTS:
            contract.forecast(answer)
        elif request.kind == OUTCOMES:
            contract.outcome(answer, row)
        else:
            contract.correction(answer)

    def _refused(self, request: Request, row: Any, refusal: ApiError) -> None:
        """Check that the log holds the reason of a refusal."""
        allowed = {FORECASTS: (409, 422), OUTCOMES: (409, 410), CORRECTIONS: (404, 409)}[request.kind]
        expect(refusal.status in allowed, "a refusal has a reason", kind=request.kind, refusal=repr(refusal))
        if refusal.status == 409 and request.kind != CORRECTIONS:
            given, known = refusal.more["given"], refusal.more["known"]
            expect(given != known, "a conflict is one", given=given, known=known)

    def busy(self) -> bool:
        """Return whether a client waits."""
        return bool(self.requests or self.wanted)

    # ------------------------------------------------------------------ steps

    def step(self, number: int) -> None:
        """Do step number so much of the seed."""
        draw = random.Random(f"{self.seed}/{number}")
        if self.wanted:
            self._make(draw.randrange(2))
            return
        (name,) = draw.choices([*WEIGHTS], [*WEIGHTS.values()])
        self.trace.append(name)
        getattr(self, f"_{name}")(draw)
        self.time.now += draw.expovariate(2.0)
        self.receive()

    def _make(self, k: int) -> None:
        """Make the next forecaster that is wanted, until that is acknowledged."""
        promise: Future[Any] = Future()
        self._put(Make(promise, self.wanted[0]), k)
        self.turn(k)
        error = promise.exception() if promise.done() else None
        expect(error is None or getattr(error, "status", 0) == 503, "a forecaster is made", error=repr(error))
        if promise.done() and error is None:
            self.wanted.pop(0)
        self.time.now += 1.0

    def _request(self, draw: random.Random) -> None:
        kind = draw.choices([FORECASTS, OUTCOMES, CORRECTIONS], [6, 6, 1])[0]
        name, k, many = draw.choice([*self.contracts]), draw.randrange(2), draw.choice([1, 1, 2, 4])
        if kind == FORECASTS and draw.random() < 0.7:
            ids = [f"id {self.ids[name] + number}" for number in range(many)]
            self.ids[name] += many
        else:
            ids = [f"id {draw.randint(max(0, self.ids[name] - 9), self.ids[name])}" for _ in range(many)]
        self.requests.append(Request(name, kind, rows_of(kind, ids, draw, self.clocks[k]())))
        if draw.random() < 0.9:  # else it is lost on its way
            self.send(self.requests[-1], k)

    def _work(self, draw: random.Random) -> None:
        for _ in range(draw.choice([1, 1, 3])):
            self.turn(draw.randrange(2))

    def _retry(self, draw: random.Random) -> None:
        """Let clients send again that have waited for long, or whose answer was lost."""
        for request in self.requests:
            if self.time.now - request.sent > PATIENCE or draw.random() < 0.1:
                self.send(request, draw.randrange(2))

    def _wait(self, draw: random.Random) -> None:
        self.time.now += draw.choice([1.0, 5.0, 30.0, 90.0])

    def _jump(self, draw: random.Random) -> None:
        draw.choice(self.clocks).error = draw.choice([0.0, 0.0, 3.0, -3.0, 70.0, -70.0, 5000.0, -5000.0])

    def _fault(self, draw: random.Random) -> None:
        how = draw.choice(HOW)
        self.count(f"fault {how}")
        draw.choice(self.processes).store.fault = Fault(how, draw.choice([0, 0, 0, 1, 2, 4]))

    def _down(self, draw: random.Random) -> None:
        store = draw.choice(self.processes).store
        store.down = not store.down

    def _cut(self, draw: random.Random) -> None:
        draw.choice(self.processes).store.cut_off()

    def _kill(self, draw: random.Random) -> None:
        self.count("killed")
        self._restart(draw.randrange(2))

    def _stop(self, draw: random.Random) -> None:
        """End a process in order: what is queued is done, snapshots are taken."""
        k = draw.randrange(2)
        process = self.processes[k]
        self._look(process)
        with self._mortal(k):
            process.worker._queue.close()
            while not process.worker._step(0.0)[1]:
                pass
            process.snapshots.run()
            process.worker._snapshotter.keep_all(process.worker.forecasters)
            process.worker.close()
            self._restart(k)

    def _snapshot(self, draw: random.Random) -> None:
        """Write a snapshot that was put off."""
        k = draw.randrange(2)
        with self._mortal(k):
            self.count("snapshots", self.processes[k].snapshots.run())

    def _ask(self, draw: random.Random) -> None:
        """Look at the figures, which changes nothing that is logged."""
        k, name = draw.randrange(2), draw.choice([*self.contracts])
        promise: Future[Any] = Future()
        self._put(Ask(promise, name, describe), k)

    def _damage(self, draw: random.Random) -> None:
        """Damage the newest snapshot on the disk, where the log can make up for it."""
        name = draw.choice([*self.contracts])
        kept = self.visitor.snapshots(name)
        if not kept or self.visitor.pruned(name) > 1:
            return
        self.damaged.add((name, kept[0].seq))
        self.count("damaged")
        where = "WHERE forecaster = ? AND seq = ?"
        values = (name, kept[0].seq)
        how = draw.choice(["byte", "torn", "other"])
        if how == "torn":
            self.visitor._write((f"DELETE FROM snapshot_pieces {where} AND piece > 0", values))
        elif how == "byte":
            piece = bytearray(
                self.visitor._read(f"SELECT content FROM snapshot_pieces {where} AND piece = 0", values)[0][0]
            )
            piece[draw.randrange(len(piece))] ^= 1 << draw.randrange(8)
            self.visitor._write(
                (f"UPDATE snapshot_pieces SET content = ? {where} AND piece = 0", (bytes(piece), *values))
            )
        else:
            self._misplace(name, kept[0].seq)

    def _misplace(self, name: str, seq: int) -> None:
        """Put a snapshot of another forecaster in the place of one."""
        other = next(one for one in self.contracts if one != name)
        kept = self.visitor.snapshots(other)
        if kept:
            values = (name, seq)
            copy = (
                "INSERT INTO snapshot_pieces (forecaster, seq, piece, content) "
                "SELECT ?, ?, piece, content FROM snapshot_pieces WHERE forecaster = ? AND seq = ?"
            )
            self.visitor._write(
                ("DELETE FROM snapshot_pieces WHERE forecaster = ? AND seq = ?", values),
                (copy, (*values, other, kept[0].seq)),
            )

    def _prune(self, draw: random.Random) -> None:
        """Remove some of what is settled, a step at a time between other things."""
        if self.pruning is not None:
            self._prune_on()
            return
        name = draw.choice([*self.contracts])
        if any(one == name for one, _ in self.damaged):
            return
        self.contracts[name].read(self.visitor, self.boundary[name])
        planned = plan(self.visitor, name, draw.randint(1, self.visitor.last(name) + 1))
        if planned.loss.events:
            self.boundary[name] = max(self.boundary[name], planned.before)
            self.pruning = self.visitor.prune(name, planned.before)
            self.count("pruned", planned.loss.events)

    def _prune_on(self) -> None:
        assert self.pruning is not None
        try:
            if next(self.pruning, None) is not None:
                return
            self.visitor.shrink()
        except Unreadable:  # the snapshot that was to make up for what goes was damaged meanwhile
            expect(bool(self.damaged), "a sound snapshot can be read")
            self.count("pruning refused")
        self.pruning = None

    def _backup(self, draw: random.Random) -> None:
        """Copy the store; the copy is a store that holds what was acknowledged so far."""
        self.backups += 1
        path = f"{self.path}.{self.backups}"
        self.visitor.backup(path)
        self.count("backups")
        with closing(open_store(path, learner=True)) as copy:
            for name in copy.forecasters():
                contract = self.contracts[name]
                contract.read(copy, self.boundary[name])
                contract.state(recover(copy, name).hosted, copy)
        Path(path).unlink()

    def _check(self, draw: random.Random) -> None:
        """Compare the log with what was acknowledged, and learners with the log."""
        for name, contract in self.contracts.items():
            contract.read(self.visitor, self.boundary[name])
            owner = self.sessions.owner.get(name)
            for process in self.processes:
                hosted = process.worker.forecasters.get(name)
                if hosted is not None and process.store is owner and not process.store.cut:
                    contract.state(hosted, self.visitor)

    # ------------------------------------------------------------------ the end

    def finish(self) -> None:
        """Without further faults every request is answered; then everything is checked."""
        for clock in self.clocks:
            clock.error = 0.0
        for process in self.processes:
            process.store.down, process.store.fault = False, None
        rounds = 0
        while self.busy():
            rounds += 1
            expect(rounds < ROUNDS, "every request is answered in the end", waiting=self.requests[:3])
            self._round(rounds)
        self._check(random.Random(0))
        for name, contract in self.contracts.items():
            contract.replayed(self.visitor, {seq for one, seq in self.damaged if one == name})

    def _round(self, rounds: int) -> None:
        self.time.now += 2.0
        if self.wanted:
            self._make(rounds % 2)
        for request in self.requests:
            if request.promise is None or self.time.now - request.sent > PATIENCE:
                self.send(request, rounds % 2)
        for k in range(2):
            self.turn(k)
        self.receive()

    def close(self) -> None:
        """Give everything back."""
        for process in self.processes:
            process.store.close()
        self.visitor.close()


WEIGHTS = {
    "request": 40,
    "work": 40,
    "retry": 10,
    "wait": 8,
    "jump": 4,
    "fault": 10,
    "down": 3,
    "cut": 3,
    "kill": 2,
    "stop": 1,
    "snapshot": 8,
    "ask": 3,
    "damage": 1,
    "prune": 4,
    "backup": 1,
    "check": 3,
}


@dataclass
class Outcome:
    """How a run ended."""

    seed: int
    steps: int
    broken: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    digest: str = ""
    """of the logs"""
    trace: list[str] = field(default_factory=list)


def run(seed: int, steps: int = STEPS) -> Outcome:
    """Run the first so many steps of a seed, then let everything come to rest and check it."""
    folder = Path(tempfile.mkdtemp(prefix="swapcal-simulated-", dir=_fast()))
    done = 0
    try:
        world = World(seed, folder)
        with in_place(world.time), closing(world):
            try:
                for number in range(steps):
                    done = number + 1
                    world.step(number)
                world.finish()
            except (Broken, Exception) as error:
                return Outcome(seed, done, f"{type(error).__name__}: {error}", world.counts, "", world.trace)
            return Outcome(seed, steps, "", world.counts, _digest(world), world.trace)
    finally:
        shutil.rmtree(folder)


def _digest(world: World) -> str:
    found = hashlib.sha256()
    for contract in world.contracts.values():
        for event in contract.log.values():
            found.update(repr(event).encode())
    return found.hexdigest()


def _fast() -> str | None:
    """Return a folder in memory if there is one: here nothing hangs on the disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def shortest(failed: Outcome) -> Outcome:
    """Return the failing run of the fewest first steps, by bisection."""
    low, high = 0, failed.steps
    while low < high:
        middle = (low + high) // 2
        again = run(failed.seed, middle)
        if again.broken:
            failed, high = again, min(middle, again.steps)
        else:
            low = middle + 1
    return failed


def campaign(seeds: range, report: Any = print) -> list[Outcome]:
    """Run seeds; report each failure with its shortest failing prefix, how far it is at times, and a last line."""
    failures, counts, began = [], dict[str, int](), time.monotonic()
    for done, seed in enumerate(seeds):
        if done and done % 20 == 0:
            gc.collect()  # a seed leaves some 20 MB behind in cycles, which would be collected seldom
        if done and done % 500 == 0:
            report(f"{done} seeds: {done - len(failures)} passed, {len(failures)} failed")
        outcome = run(seed)
        for what, many in outcome.counts.items():
            counts[what] = counts.get(what, 0) + many
        if outcome.broken:
            failures.append(shortest(outcome))
            report(f"seed {seed}, shortest failing prefix {failures[-1].steps} steps: {failures[-1].broken}")
            report(f"    ends with {', '.join(failures[-1].trace[-12:])}")
    report(", ".join(f"{what} {many:,}" for what, many in sorted(counts.items())))
    report(f"{time.monotonic() - began:.0f} s")
    report(f"{len(seeds) - len(failures)} passed, {len(failures)} failed")
    return failures


def main(arguments: list[str]) -> int:
    """Run so many seeds, or those from one to another."""
    numbers = [int(one) for one in arguments] or [100]
    seeds = range(numbers[0]) if len(numbers) == 1 else range(numbers[0], numbers[1] + 1)
    return bool(campaign(seeds, partial(print, flush=True)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
