"""`Settings`: of one forecaster in the service; fixed when it is made."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from swapcal.live import Live
from swapcal.monitor import Monitor
from swapcal.service.refusal import Refusal

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="letters, digits and . _ -")]
Column = Annotated[str, Meta(min_length=1, max_length=256)]
Columns = Annotated[list[Column], Meta(max_length=1000)]
Count = Annotated[int, Meta(ge=1, lt=2**53)]
Positive = Annotated[float, Meta(gt=0)]

WEEK = 7 * 86400.0


class Watch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the monitor promises: gaps up to `tolerance` are nobody's business."""

    tolerance: Annotated[float, Meta(ge=0, lt=1)] = 0.01
    run_length: Annotated[float, Meta(ge=1)] = 1_000_000.0
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every setting of `Live` but outside models, how long an early outcome is kept, and the monitor's promises.

    Examples
    --------
    >>> Settings(name="flights", groups=["carrier"]).live().settings["groups"]
    ['carrier']
    """

    name: Name
    groups: Columns = []
    scores: Columns | dict[Column, str] = []
    products: Annotated[list[tuple[Column, Column]], Meta(max_length=1000)] = []
    numeric: Columns = []
    categorical: Columns = []
    drop: Columns = []
    categories: Annotated[int, Meta(ge=1, le=1000)] = 12
    max_dim: Annotated[int, Meta(ge=1, le=2000)] = 160
    fourier: Annotated[int, Meta(ge=0, le=1000)] = 0
    ridge: Positive = 2.0
    kappa: Positive = 0.05
    window: Annotated[float, Meta(ge=1)] | None = None
    seed: Annotated[int, Meta(ge=0, lt=2**53)] = 0
    max_open: Count = 1_000_000
    expires: Count | None = None
    lifetime: Positive | None = None
    order: str = "arrival"
    patience: Count | None = None
    parked_for: Annotated[float, Meta(gt=0, description="seconds an outcome waits for its forecast")] = WEEK
    watch: Watch = Watch()

    def live(self) -> Live:
        """Return a fresh forecaster; raises `Refusal` for settings that do not go together."""
        try:
            return Live(**{name: getattr(self, name) for name in LIVE})
        except (ValueError, TypeError, MemoryError) as error:
            raise Refusal("invalid", str(error)) from None

    def monitor(self) -> Monitor:
        """Return a fresh monitor of the groups and of pairs of them."""
        pairs = [pair for pair in self.products if set(pair) <= set(self.groups)]
        try:
            return Monitor(self.groups, products=pairs, **msgspec.structs.asdict(self.watch))
        except (ValueError, TypeError) as error:
            raise Refusal("invalid", str(error)) from None

    def checked(self) -> "Settings":
        """Return these settings if something can be made of them."""
        self.live()
        self.monitor()
        return self


OWN = ("name", "parked_for", "watch")
LIVE = tuple(name for name in Settings.__struct_fields__ if name not in OWN)
"""Settings that `Live` takes."""


def to_body(settings: Settings) -> bytes:
    """Return the body of the first event of a forecaster, defaults spelled out."""
    return msgspec.json.encode(settings)


def from_body(body: bytes) -> Settings:
    """Return the settings that `to_body` wrote."""
    return msgspec.json.decode(body, type=Settings)


def from_table(table: Any, where: str) -> Settings:
    """Return the settings of one table of a TOML file."""
    try:
        return msgspec.convert(table, Settings).checked()
    except (msgspec.ValidationError, Refusal) as error:
        raise ValueError(f"{where}: {error}") from None
