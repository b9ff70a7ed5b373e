"""The kinds of state files as Markdown, from the schemas that reading and writing go by."""

from swapcal.archive import Kind
from swapcal.audit.state import FILE as AUDIT
from swapcal.baselines import FosterHart
from swapcal.baselines.online import file_of
from swapcal.batch.settings import FILE as MODEL
from swapcal.engine.forecaster import FILE as FORECASTER
from swapcal.engine.oracle import FILE as ORACLES
from swapcal.live.state import FILE as LIVE
from swapcal.monitor.state import FILE as MONITOR

WRITTEN: tuple[tuple[Kind, str, str], ...] = (
    (LIVE, "`Live.save`, `swapcal forecast --state`", "`Live.load`, `swapcal label`"),
    (FORECASTER, "`Forecaster.save`", "`Forecaster.load`"),
    (ORACLES, "`OracleForecaster.save`", "`OracleForecaster.load`, with the functions that make oracles"),
    (MODEL, "`SwapClassifier.model_.save`, `swapcal fit --out`", "`swapcal.batch.model.Model.load`, `swapcal predict`"),
    (AUDIT, "`Audit.save`, `swapcal audit --state`", "`Audit.load`, `swapcal audit --like`"),
    (MONITOR, "`Monitor.save`, `swapcal monitor --state`", "`Monitor.load`, `swapcal monitor --state`"),
    (file_of(FosterHart.__name__, FosterHart.SYSTEM), "`save` of a baseline", "`load` of its class"),
)


def markdown() -> str:
    """Return the table of kinds."""
    head = ["| kind | version | written by | read by |", "|---|--:|---|---|"]
    return "\n".join(head + [f"| {kind.name} | {kind.version} | {by} | {reader} |" for kind, by, reader in WRITTEN])
