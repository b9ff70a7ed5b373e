"""Every counterexample in docs/errata.md runs and refutes what it says."""

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parent.parent / "docs" / "errata.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.split("\n", 1)[0])
def test_counterexample(section):
    blocks = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    assert len(blocks) == 1
    assert blocks[0].count("assert") + blocks[0].count("pytest.raises") >= 1
    exec(compile(blocks[0], section.split("\n", 1)[0], "exec"), {})


def test_every_erratum_is_there():
    assert [int(section.split(".")[0]) for section in SECTIONS] == list(range(1, 10))
