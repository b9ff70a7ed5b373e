"""Apache Spark: audits, monitors and scores of distributed tables, and one `Live` per key of a stream."""

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        'this adapter needs pyspark, and Java 17 or later: pip install "swapcal[spark]"', name="pyspark"
    ) from None

from swapcal.adapters.spark.forecasting import forecast
from swapcal.adapters.spark.models import Fitted, audit, fit, monitor, score

__all__ = ["Fitted", "audit", "fit", "forecast", "monitor", "score"]
