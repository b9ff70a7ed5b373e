"""The collaboration example: two halves of the truth, told in turn, beat either half."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

FILE = Path(__file__).parent.parent / "examples" / "collaboration.py"


@pytest.fixture(scope="module")
def example():
    specification = importlib.util.spec_from_file_location("collaboration", FILE)
    module = importlib.util.module_from_spec(specification)
    sys.modules["collaboration"] = module
    specification.loader.exec_module(module)
    yield module
    del sys.modules["collaboration"]


@pytest.fixture(scope="module")
def outcome(example):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 4000))
    y = (rng.random(4000) < 0.5 + 0.24 * a + 0.24 * b).astype(float)
    frames = pd.DataFrame({"a": a}), pd.DataFrame({"b": b})
    return *example.talk(frames, y), y


def test_both_lose_less_together_and_mostly_agree(example, outcome):
    conversations, alone, _, y = outcome
    found = example.report(conversations, alone, y)
    assert found["person, together"] < found["person, alone"] - 0.005
    assert found["job, together"] < found["job, alone"] - 0.005
    assert found["agreed"] > 0.9


def test_conversations_stop_at_the_first_agreement(outcome):
    for conversation in outcome[0]:
        gaps = np.abs(np.diff(conversation.messages))
        assert 2 <= len(conversation.messages) <= 8
        assert (gaps[:-1] > 0.05).all()
        assert conversation.agreed == (gaps[-1] <= 0.05)


def test_every_stage_learned_exactly_what_it_said(outcome):
    conversations, _, parties, _ = outcome
    spoken = sum(len(conversation.messages) for conversation in conversations)
    assert sum(f.rounds for party in parties for f in party.stages.values()) == spoken
    assert all(f.certificate().holds() for party in parties for f in party.stages.values())


def test_without_data_it_says_so(example, monkeypatch, capsys):
    monkeypatch.delenv("SWAPCAL_DATA", raising=False)
    monkeypatch.setattr(sys, "argv", ["collaboration.py"])
    assert example.main() == 0
    assert "set SWAPCAL_DATA" in capsys.readouterr().out
