"""What commands say of themselves: every command in the list, and no word that only the theory's readers know."""

from importlib import import_module
from io import StringIO

import pytest

typer = pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from swapcal.cli import COMMANDS, PANELS, _app, command_of  # noqa: E402
from swapcal.cli.progress import Output  # noqa: E402
from tests.fresh import ROOT, python  # noqa: E402


def test_lines_of_a_narrow_terminal_keep_numbers_and_their_signs_together() -> None:
    text = "  The gap is 3.5 points (95 % from 1.2 to 5.8, 760 rows, p ≤ 0.001)."
    for width in range(24, 60):
        file = StringIO()
        Output(file=file, width=width).print(text, markup=False, highlight=False)
        lines = file.getvalue().splitlines()
        assert " ".join(lines).split() == text.split()
        assert max(map(len, lines)) <= width
        assert not any(line.rstrip().endswith(("95", "p", "≤")) for line in lines)


JARGON = ("SMCal", "F_1", "swap-", "swap multicalib", "witness", "noise floor", "SGD", "AdaGrad", "Newton")
PLAIN = [name for panel, names in PANELS.items() if panel != "Research" for name in names]


def helped(name: str) -> str:
    """Return a command's docstring and the help of its options."""
    try:
        command = command_of(name)
    except ModuleNotFoundError as error:
        pytest.skip(f"needs {error.name}")
    if isinstance(command, typer.Typer):
        return " ".join(str(each.callback.__doc__) for each in command.registered_commands)
    app = typer.Typer()
    app.command()(command)
    options = [getattr(option, "help", "") or "" for option in typer.main.get_command(app).params]
    return " ".join([str(command.__doc__), *options])


@pytest.mark.parametrize("name", PLAIN)
def test_help_is_written_for_strangers(name: str) -> None:
    said = helped(name)
    assert not [word for word in JARGON if word.lower() in said.lower()]


def test_every_command_is_listed_once_and_every_file_of_a_command_is_listed() -> None:
    assert len(set(COMMANDS)) == len(COMMANDS)
    files = {path.stem for path in (ROOT / "src" / "swapcal" / "cli").glob("*.py")}
    found = {stem for stem in files if stem != "__init__" and hasattr(import_module_or_none(stem), stem)}
    assert found - {"running", "progress", "options"} <= {name.replace("-", "_") for name in COMMANDS}


def import_module_or_none(stem: str) -> object:
    """Return a module of the command line, or None where an extra is missing."""
    try:
        return import_module(f"swapcal.cli.{stem}")
    except ModuleNotFoundError:
        return None


def test_commands_keep_blas_to_one_thread_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    code = (
        "import os, sys, swapcal.cli as cli; cli._leave = lambda code: None; sys.argv = ['swapcal', 'cite'];"
        "cli.main(); print(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    assert python(code).splitlines()[-1] == "1"
    assert python(code, OPENBLAS_NUM_THREADS="2").splitlines()[-1] == "2"


def test_every_command_takes_the_options_of_printing_that_make_sense_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["swapcal"])
    root = typer.main.get_command(_app())
    four = {"--quiet", "--verbose", "--json", "--config"}
    lacking = {"cite": four, "serve": four - {"--config"}, "token": {"--config"}}
    for name, command in root.commands.items():
        for one in getattr(command, "commands", {name: command}).values():
            known = {option for parameter in one.params for option in parameter.opts}
            assert four - known == lacking.get(name, set()), name
