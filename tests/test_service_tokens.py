"""Tokens, and `swapcal token` from the outside."""

import asyncio
import hashlib
import hmac
from importlib import import_module
from types import SimpleNamespace

import pytest

pytest.importorskip("apsw")
pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from typer.testing import CliRunner

from swapcal import cli
from swapcal.cli import BAD_INPUT
from swapcal.cli.store import token
from swapcal.service import auth
from swapcal.service.auth import Auth, create_token, revoke_token, scopes_of
from swapcal.service.settings import ApiError
from swapcal.service.store import open_store


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "forecasts.db")


@pytest.fixture
def store(path):
    store = open_store(path, create=True)
    yield store
    store.close()


def test_a_token_opens_what_it_is_for_until_it_is_revoked(store):
    name, secret = create_token(store, ["outcome", "forecast"])
    create_token(store, ["admin"], "boss")
    assert scopes_of(secret, store.tokens()) == {"forecast", "outcome"}
    revoke_token(store, name)
    assert scopes_of(secret, store.tokens()) is None


@pytest.mark.parametrize("wrong", ["", "x", "swapcal_", "\udcff", "swapcal_" + "A" * 43])
def test_what_is_no_token_opens_nothing(store, wrong):
    create_token(store, ["read"])
    assert scopes_of(wrong, store.tokens()) is None
    assert scopes_of(wrong, []) is None


def test_only_a_digest_is_kept(store, path):
    _, secret = create_token(store, ["read"])
    (row,) = store.tokens()
    assert row.digest == hashlib.sha256(secret.encode()).digest()
    store.close()
    with open(path, "rb") as file:
        assert secret.removeprefix("swapcal_").encode() not in file.read()


def test_every_token_is_compared_in_constant_time_also_after_a_hit(store, monkeypatch):
    _, secret = create_token(store, ["read"], "first")
    for name in ("second", "third"):
        create_token(store, ["read"], name)
    compared = []

    def compare(one, other):
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(auth, "hmac", SimpleNamespace(compare_digest=compare))
    assert scopes_of(secret, store.tokens()) == {"read"}
    assert len(compared) == 3


def test_refusals(store):
    with pytest.raises(ValueError, match="scope: given none, expected some of forecast, outcome, read, admin"):
        create_token(store, [])
    with pytest.raises(ValueError, match="scope: given write, expected"):
        create_token(store, ["read", "write"])
    with pytest.raises(ValueError, match="name: given 'a b', expected up to 64"):
        create_token(store, ["read"], "a b")
    create_token(store, ["read"], "shop")
    with pytest.raises(ValueError, match="name: given 'shop', which there is already"):
        create_token(store, ["read"], "shop")
    revoke_token(store, "shop")
    with pytest.raises(ValueError, match="'shop', which is revoked already"):
        revoke_token(store, "shop")
    with pytest.raises(ValueError, match="'stop', which is unknown"):
        revoke_token(store, "stop")


def run(*arguments, **environment):
    return CliRunner().invoke(token, [*arguments], env={"COLUMNS": "200", **environment})


def test_create_list_revoke(path):
    made = run("create", "--store", path, "--scope", "forecast,outcome", "--scope", "read", "--name", "shop")
    assert made.exit_code == 0, made.output
    (secret,) = made.stdout.split()
    assert "not shown again" in made.stderr
    shown = run("list", SWAPCAL_STORE=path)
    assert "shop  forecast,outcome,read" in shown.stdout
    assert secret not in shown.stdout
    assert run("revoke", "shop", "--store", path).exit_code == 0
    again = run("revoke", "shop", "--store", path)
    assert again.exit_code == BAD_INPUT
    assert "swapcal token revoke: token: given 'shop', which is revoked already" in again.stderr


def test_listing_makes_no_store(path, tmp_path):
    result = run("list", "--store", path)
    assert result.exit_code == BAD_INPUT
    assert "does not exist" in result.stderr
    assert not [*tmp_path.iterdir()]


def test_without_the_extra_the_list_of_commands_says_what_to_install(monkeypatch):
    def importing(name):
        if name == "swapcal.cli.serve":
            raise ModuleNotFoundError("No module named 'apsw'", name="apsw")
        return import_module(name)

    monkeypatch.setattr(cli, "import_module", importing)
    monkeypatch.setattr(cli.sys, "argv", ["swapcal", "--help"])
    monkeypatch.setattr(cli, "_die_of_closed_pipes", lambda: None)
    shown = CliRunner().invoke(cli._app(), ["--help"], env={"COLUMNS": "200"}).output
    assert 'This command needs apsw: pip install "swapcal[service]"' in shown
    assert "Create, list and revoke" in shown
    monkeypatch.setattr(cli.sys, "argv", ["swapcal", "serve"])
    with pytest.raises(ModuleNotFoundError):
        cli._app()


def test_a_revoked_token_is_refused_after_two_seconds(store, monkeypatch):
    name, secret = create_token(store, ["read"])
    headers, moment = {b"authorization": f"Bearer {secret}".encode()}, [100.0]
    monkeypatch.setattr(auth.time, "monotonic", lambda: moment[0])
    door = Auth(store, required=True)

    async def admit():
        await door.admit(headers, "read")

    asyncio.run(admit())
    revoke_token(store, name)
    moment[0] += 2.1
    with pytest.raises(ApiError, match="unknown or revoked"):
        asyncio.run(admit())
