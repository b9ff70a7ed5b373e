"""Leave out what needs an extra that is not installed, so that the core is tested by itself too."""

from importlib.util import find_spec

NEEDS = {
    "src/swapcal/cli": ("typer", "rich", "pyarrow"),
    "src/swapcal/cli/bridge.py": ("confluent_kafka",),
    **{f"src/swapcal/tables/{name}.py": ("pyarrow",) for name in ("delimited", "formats", "outcomes", "output")},
    **{f"src/swapcal/adapters/{name}.py": ("sklearn",) for name in ("sklearn", "table_estimator", "regression")},
    "src/swapcal/batch/onnx.py": ("onnx",),
    "src/swapcal/engine/oracle_certificate.py": ("sklearn",),
    "src/swapcal/oracles.py": ("river", "sklearn"),
    "src/swapcal/adapters/river.py": ("river",),
    "src/swapcal/adapters/mlflow.py": ("mlflow", "sklearn", "pandas"),
    "src/swapcal/adapters/spark": ("pyspark", "pandas", "pyarrow", "sklearn"),
    "src/swapcal/service": ("apsw", "httptools", "msgspec", "prometheus_client", "starlette", "typer", "pyarrow"),
    "src/swapcal/service/postgres.py": ("psycopg",),
    "tests/test_cli_forecast.py": ("typer", "pyarrow", "pandas"),
    "tests/test_contexts.py": ("pandas", "polars", "pyarrow"),
    "tests/test_live.py": ("pandas", "polars", "pyarrow", "sklearn"),
    "tests/test_live_refusals.py": ("pandas",),
    "docs/batch.md": ("sklearn",),
    "docs/guide.md": ("sklearn",),
    "docs/oracles.md": ("river", "sklearn"),
    "docs/howto/save.md": ("sklearn",),
    "docs/streams.md": ("pandas",),
    "docs/oncall.md": ("apsw", "httptools", "msgspec", "prometheus_client", "starlette"),
}

FOR_SPHINX = ["docs/_ext", "docs/conf.py"]

collect_ignore = FOR_SPHINX + [
    path for path, extras in NEEDS.items() if any(find_spec(name) is None for name in extras)
]
