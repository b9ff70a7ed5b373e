"""Trees asked by 64 rows at once add what trees walked row by row add, to the last bit."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal.batch.correction import Correction
from swapcal.batch.trees import FEW_ROWS, NO_CODE, Boost, depths, grown, read_forest, sliced
from swapcal.features.encoder import EncodedTable
from swapcal.kernels.trees import LEVELS, MISSING, NOWHERE, Forest
from tests.reference_trees import walked
from tests.test_batch_trees import by_hand

NUMBERS = [MISSING, -1.5, -0.0, 0.1, 0.3, 1e9]
LARGEST_CODE = 62
ROWS = [1, 2, 33, 63, 64, 65, 84]

leaves = st.floats(-3, 3)
comparisons = st.tuples(st.integers(0, 2), st.sampled_from(NUMBERS), st.just(0))
sets = st.sets(st.integers(0, LARGEST_CODE), min_size=1).map(lambda codes: sum(1 << code for code in codes))
lookups = st.tuples(st.integers(3, 4), st.just(NO_CODE), sets)
questions = comparisons | lookups
trees = st.recursive(leaves, lambda below: st.tuples(questions, below, below), max_leaves=20)


def planted(*found):
    """Return a forest of trees that are leaves or (question, left, right); parent, left branch, right branch."""
    root, nodes, child = [], [], []

    def plant(tree):
        here = len(nodes)
        child.append([here, here])
        if isinstance(tree, float):
            nodes.append((0, NO_CODE, 0, tree))
        else:
            nodes.append((*tree[0], 0.0))
            left = plant(tree[1])
            child[here] = [plant(tree[2]), left]
        return here

    for tree in found:
        root.append(plant(tree))
    column, threshold, codes, value = zip(*nodes, strict=True) if nodes else ((),) * 4
    first, sides = np.array(root, np.int64), np.array(child, np.int64).reshape(-1, 2)
    return Forest(
        first.astype(np.uint64),
        depths(first, sides),
        np.array(column, np.uint64),
        np.array(threshold, float),
        np.array(codes, np.uint64),
        sides.ravel().astype(np.uint64),
        np.array(value, float),
    )


def table(n, seed=0):
    """Two numbers and two lists of codes, many of them just where questions divide."""
    rng = np.random.default_rng(seed)
    numbers = np.array([*NUMBERS[1:], np.nan, np.inf, -np.inf, 0.2])
    codes = rng.choice([-1, 0, 1, 2, 31, 32, LARGEST_CODE, 63, 64, 1000], (n, 2))
    return rng.choice([*NUMBERS[1:], 0.2], n), EncodedTable(np.empty((n, 1)), codes, rng.choice(numbers, (n, 2)))


def agree(forest, n, seed=0):
    """Ask, walk, and walk literally."""
    score, rows = table(n, seed)
    start = np.random.default_rng(seed + 1).normal(size=n)
    expected = walked(forest, start, score, rows.raw, rows.codes).tobytes()
    assert grown(forest, start, score, rows, sliced(forest)).tobytes() == expected
    assert grown(forest, start, score, rows).tobytes() == expected


def full(levels, seed=0):
    rng = np.random.default_rng(seed)

    def below(k):
        column = int(rng.integers(0, 5))
        asked = 0 if column < 3 else int(rng.integers(1, 1 << 62))
        question = column, NO_CODE if asked else float(rng.choice(NUMBERS)), asked
        return float(rng.normal()) if k == levels else (question, below(k + 1), below(k + 1))

    return below(0)


def chain(levels, left):
    tree = 0.5
    for k in range(levels):
        question, leaf = (k % 3, NUMBERS[k % 5], 0), 1.0 + 1 / (k + 3)
        tree = (question, tree, leaf) if left else (question, leaf, tree)
    return tree


@settings(max_examples=60, deadline=None)
@given(st.lists(trees, max_size=6), st.sampled_from(ROWS), st.integers(0, 99))
def test_any_forest_is_asked_as_it_is_walked(found, n, seed):
    agree(planted(*found), n, seed)


@settings(max_examples=20, deadline=None)
@given(st.lists(trees, min_size=1, max_size=3), st.integers(0, 99))
def test_any_forest_is_asked_as_by_hand(found, seed):
    forest, (score, rows) = planted(*found), table(70, seed)
    rows = EncodedTable(rows.Z, np.minimum(rows.codes, LARGEST_CODE), rows.raw)
    found = grown(forest, np.zeros(70), score, rows, sliced(forest))
    assert np.array_equal(found, by_hand(forest, score, rows.raw, rows.codes))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("levels", [1, LEVELS - 1, LEVELS, LEVELS + 1, 40])
def test_chains_are_sliced_unless_too_deep(levels, left):
    forest = planted(chain(levels, left), chain(2, left), 0.1, chain(levels, not left))
    assert forest.depth.tolist() == [levels, 2, 0, levels]
    assert (sliced(forest) is None) == (levels > LEVELS)
    agree(forest, 80)


@pytest.mark.parametrize("levels", [0, 1, 5, LEVELS])
def test_full_trees(levels):
    forest = planted(full(levels), full(2, seed=1), full(levels, seed=2))
    agree(forest, 80)
    slices = sliced(forest)
    assert np.diff(slices.first).tolist() == [2**levels - 1, 3, 2**levels - 1]
    assert slices.left.max() == NOWHERE


def test_splits_are_distinct_and_those_of_numbers_come_first():
    same, other, lookup = (1, 0.3, 0), (2, 0.3, 0), (3, NO_CODE, 0b101)
    slices = sliced(planted((same, (lookup, 1.0, 2.0), 3.0), (other, (same, 1.0, 2.0), (lookup, 3.0, 4.0))))
    assert slices.numbers == 2
    assert slices.codes.tolist() == [0, 0, 0b101]
    assert slices.column[slices.question].tolist() == [1, 3, 2, 1, 3]


def test_nodes_of_a_tree_need_not_follow_each_other():
    """As in no file of ours, but nothing forbids it: roots first, then all leaves."""
    forest = Forest(
        np.array([1, 0], np.uint64),
        np.array([1, 1]),
        np.array([1, 2, 0, 0, 0, 0], np.uint64),
        np.array([0.1, 0.3, NO_CODE, NO_CODE, NO_CODE, NO_CODE]),
        np.zeros(6, np.uint64),
        np.array([2, 3, 4, 5, 2, 2, 3, 3, 4, 4, 5, 5], np.uint64),
        np.array([0.0, 0.0, 0.1, 0.2, 0.3, 0.4]),
    )
    agree(forest, 80)


@pytest.fixture
def boost(monkeypatch):
    monkeypatch.setattr(Correction, "logits", lambda self, given, rows: np.zeros(len(given)))
    return Boost(Correction(None, np.zeros(2)), planted(*(full(4, seed) for seed in range(9)), chain(7, left=True)))


def test_a_row_is_the_same_in_any_batch(boost):
    score, rows = table(200)
    whole = boost.logits(score, rows)
    for start, stop in ((0, 1), (3, 3 + FEW_ROWS), (60, 59 + FEW_ROWS), (100, 190)):
        some = EncodedTable(rows.Z[start:stop], rows.codes[start:stop], rows.raw[start:stop])
        assert boost.logits(score[start:stop], some).tobytes() == whole[start:stop].tobytes()


def test_no_trees_and_no_rows():
    agree(read_forest([]), 80)
    agree(planted(full(3)), 0)


def test_few_rows_need_no_slices_and_pickles_hold_none(boost):
    before = pickle.dumps(boost)
    boost.logits(*table(FEW_ROWS - 1))
    assert "_slices" not in vars(boost)
    many = boost.logits(*table(FEW_ROWS))
    assert vars(boost)["_slices"] is not None
    assert pickle.dumps(boost) == before
    assert pickle.loads(before).logits(*table(FEW_ROWS)).tobytes() == many.tobytes()
