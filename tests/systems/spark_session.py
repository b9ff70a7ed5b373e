"""A Spark session of two executors, each a process of its own, that leaves nothing behind outside one folder."""

import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

# Short tests spend most of their time compiling, unless Java is told that they are short.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MASTER = "local-cluster[2,1,1024]"
LACKING = "no Java here: Spark needs Java 17 or later (java on the path, or JAVA_HOME)"


def java_is_there() -> bool:
    return shutil.which("java") is not None or bool(os.environ.get("JAVA_HOME"))


def start(folder: Path, master: str = MASTER, **settings: str) -> Any:
    """Return a session, bound to loopback, that works in a folder."""
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName("swapcal")
        known = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.executor.extraJavaOptions": SHORT_LIVED,
            "spark.sql.codegen.wholeStage": "false",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.log.level": "ERROR",
        }
        for name, value in (known | settings).items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
