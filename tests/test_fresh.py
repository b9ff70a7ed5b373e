from pathlib import Path

import swapcal
from tests.fresh import ROOT, python


def test_tests_see_the_checkout_and_not_an_installed_copy(tmp_path, monkeypatch):
    (tmp_path / "swapcal").mkdir()
    (tmp_path / "swapcal" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert Path(swapcal.__file__) == ROOT / "src" / "swapcal" / "__init__.py"
    assert python("import swapcal; print(swapcal.__file__)").strip() == swapcal.__file__
