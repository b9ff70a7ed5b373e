"""Tables of every library give the same arrays."""

import inspect
from decimal import Decimal

import numpy as np
import pytest

from swapcal import Audit
from swapcal.audit.rows import Encoder
from swapcal.features import Contexts
from swapcal.features.encoder import FittedEncoder
from swapcal.tables import values as limits
from swapcal.tables.frame import Table, UnknownColumnError, categories, is_table
from swapcal.tables.values import MISSING

DATA = {
    "p": [0.1, 0.5, 0.9, 0.5],
    "y": [0, 1, 1, 0],
    "age": [30.0, None, 50.0, 41.0],
    "city": ["Rome", None, "Bari", "Rome"],
    "member": [True, False, True, True],
}


def tables():
    found = {}
    for name in ("pandas", "polars", "lazy", "pyarrow", "batch", "duckdb"):
        library = {"lazy": "polars", "batch": "pyarrow"}.get(name, name)
        found[name] = pytest.param(name, marks=[] if _has(library) else pytest.mark.skip(f"no {library}"))
    return list(found.values())


def _has(library):
    from importlib.util import find_spec

    return find_spec(library) is not None


def make(name):
    if name == "pandas":
        import pandas as pd

        return pd.DataFrame(DATA)
    if name in {"polars", "lazy"}:
        import polars as pl

        return pl.DataFrame(DATA).lazy() if name == "lazy" else pl.DataFrame(DATA)
    import pyarrow as pa

    if name == "batch":
        return pa.table(DATA).to_batches()[0]
    if name == "duckdb":
        import duckdb

        return duckdb.connect().from_arrow(pa.table(DATA))
    return pa.table(DATA)


@pytest.mark.parametrize("name", tables())
def test_columns_are_the_same_everywhere(name):
    native = make(name)
    table = Table(native)
    assert is_table(native)
    assert table.columns == list(DATA)
    assert len(table) == 4
    np.testing.assert_array_equal(table.numbers("p"), DATA["p"])
    np.testing.assert_array_equal(table.numbers("age"), [30.0, np.nan, 50.0, 41.0])
    assert table.numbers("member").tolist() == [1, 0, 1, 1]
    assert table.categories("city").names == [MISSING, "Bari", "Rome"]
    assert table.categories("city").codes.tolist() == [2, 0, 1, 2]
    assert [table.is_numeric(c) for c in DATA] == [True, True, True, False, False]
    with pytest.raises(TypeError, match=r"column 'city': given .*, expected numbers"):
        table.numbers("city")
    with pytest.raises(UnknownColumnError, match="no column 'agee'; did you mean 'age'"):
        table.numbers("agee")


@pytest.mark.parametrize("name", tables())
def test_audits_of_every_library_agree(name):
    names = {"prob": "p", "target": "y", "features": ["age", "city"], "groups": ["member"]}
    audit = Audit.from_frame(make(name), **names)
    plain = Audit.from_frame({k: np.array(v, dtype=object) if k == "city" else np.array(v, dtype=float)
                              if k != "member" else np.array(v) for k, v in DATA.items()}, **names)  # fmt: skip
    assert audit.sums.sample.digest != ""
    assert [c.name for c in audit.coordinates] == [c.name for c in plain.coordinates]
    assert audit.theory.smcal(2) == pytest.approx(plain.theory.smcal(2))
    audit.add(make(name))
    assert audit.rows == 8


def test_mapping_of_columns():
    table = Table({"a": [1, 2], "b": ["x", None]})
    assert table.is_numeric("a")
    assert not table.is_numeric("b")
    assert table.categories("b").names == [MISSING, "x"]
    with pytest.raises(TypeError, match="column 'b': given object, expected numbers"):
        table.numbers("b")
    with pytest.raises(ValueError, match="columns: given lengths a: 1, b: 2, expected one length"):
        Table({"a": [1], "b": [1, 2]})
    assert len(Table({})) == 0


def test_what_is_no_table_is_refused():
    assert not is_table(3)
    with pytest.raises(TypeError, match="table: given int, expected a pandas, polars or pyarrow table"):
        Table(3)


def test_suggestions_only_when_near():
    with pytest.raises(UnknownColumnError, match=r"no column 'zzz'\. The columns are 'alpha'"):
        Table({"alpha": [1]}).require(["zzz"])


def test_categories_of_numbers_and_booleans():
    assert categories([3, 1, 3]).names == ["1", "3"]
    assert categories(np.array([True, False])).names == ["false", "true"]
    assert categories([1.5, np.nan]).names == [MISSING, "1.5"]


@pytest.mark.parametrize("name", [*tables(), "mapping"])
def test_categories_are_spelt_alike_everywhere(name):
    table = Table(DATA if name == "mapping" else make(name))
    assert table.categories("member").names == ["false", "true"]
    assert table.categories("y").names == ["0", "1"]
    assert table.categories("age").names == [MISSING, "30", "41", "50"]
    assert table.is_numeric("age")


def test_numbers_truth_values_and_times_as_categories():
    assert categories([1, np.float64(1), "1", True, 0.5]).names == ["0.5", "1", "true"]
    assert categories(["a", np.nan]).names == [MISSING, "a"]
    assert categories(np.ma.array([7, 8], mask=[True, False])).names == [MISSING, "8"]
    moments = np.array(["2024-02-29", "NaT", "2024-02-29T12:30"], "datetime64[ns]")
    assert categories(moments).names == [MISSING, "2024-02-29", "2024-02-29T12:30:00"]
    assert categories(np.float32([0.1, 2])).names == ["0.1", "2"]
    with pytest.raises(TypeError, match="column 'group': given list in row 2, expected a number, text"):
        categories(np.array([1, [2]], dtype=object))
    assert categories(["a", Decimal("sNaN")]).names == [MISSING, "a"]


def test_text_that_reads_like_a_missing_value_is_a_category_of_its_own():
    texts = ["(missing)", None, "(other)", '"(missing)"', "Rome"]
    found = categories(texts)
    assert len(set(found.names)) == 5
    assert found.names[found.codes[1]] == MISSING
    assert [found.names[code] for code in found.codes[[0, 2]]] == ['"(missing)"', '"(other)"']
    assert categories(found.values).names == found.names  # naming what was named changes nothing


@pytest.mark.parametrize("rows", [1, 500], ids=["looked up one by one", "factorised"])
def test_frozen_categories_tell_texts_from_missing_values(rows):
    column = FittedEncoder.learn(Table({"town": ["(missing)", None, "Rome"] * 9}), columns=["town"]).columns[0]
    codes = {text: column.codes(Table({"town": np.array([text] * rows, object)}))[0] for text in ("(missing)", None)}
    assert codes["(missing)"] != codes[None]
    assert min(codes.values()) >= 0


def test_an_audit_keeps_texts_that_read_like_names_of_ours_apart():
    town = ["(missing)", None, *(f"town {k:02}" for k in range(40)), "(other)", "(other)"]
    audit = Audit.from_features(np.full(len(town), 0.5), np.arange(len(town)) % 2, {"town": town})
    names = [coordinate.name for coordinate in audit.coordinates]
    assert len(set(names)) == len(names)
    groups = {row.name: row.n for row in audit.group_table()}
    assert groups["town = (missing)"] == groups['town = "(missing)"'] == 1
    assert groups['town = "(other)"'] == 2


def test_texts_of_pandas_are_what_python_finds():
    pandas = pytest.importorskip("pandas")
    texts = ["b", None, "a", "b", float("nan"), "(missing)"] * 30
    for values in (texts, [*texts, 7, True]):  # narwhals calls both text, by their first rows
        expected = categories(values)
        for column in (pandas.Series(values), pandas.Series(values, dtype=object)):
            found = Table(pandas.DataFrame({"c": column})).categories("c")
            assert found.names == expected.names
            np.testing.assert_array_equal(found.codes, expected.codes)
    with pytest.raises(ValueError, match=r"column 'c': given .* in row 181, a lone surrogate"):
        Table(pandas.DataFrame({"c": pandas.Series([*texts, "\ud800"], dtype=object)})).categories("c")


@pytest.mark.parametrize("values", [[1, 2**53 + 1], [1, None, 2**53 + 1]], ids=["all there", "one missing"])
def test_integers_beyond_those_of_floats_are_rounded_in_every_library(values):
    arrow = pytest.importorskip("pyarrow").table({"id": values})
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    expected = np.array([np.nan if value is None else float(value) for value in values])
    wide = polars.from_arrow(arrow).cast(polars.Int128)
    for frame in (arrow, arrow.to_pandas(types_mapper=pandas.ArrowDtype), polars.from_arrow(arrow), wide):
        np.testing.assert_array_equal(Table(frame).numbers("id"), expected)


def test_limits_of_categories_are_those_that_are_stated_in_one_place() -> None:
    online, fitted = inspect.signature(Contexts).parameters, inspect.signature(FittedEncoder.learn).parameters
    assert {online["categories"].default, fitted["categories"].default} == {limits.FEATURE_CATEGORIES}
    assert fitted["group_categories"].default == limits.FITTED_GROUP_CATEGORIES
    many = [{"g": f"g{k:03}"} for k in range(2 * limits.STREAM_GROUP_CATEGORIES)]
    assert Contexts(groups=["g"]).encode(many).x.shape[1] - 1 <= limits.STREAM_GROUP_CATEGORIES + 1
    table = Table({"city": [f"c{k:03}" for k in range(2 * limits.AUDITED_CATEGORIES)]})
    assert len(Encoder.learn(table, ["city"]).coordinates) == limits.AUDITED_CATEGORIES + 2
