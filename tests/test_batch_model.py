import numpy as np
import pytest
from scipy.special import expit

from swapcal import archive
from swapcal.batch import correction as correction_module
from swapcal.batch import model as model_module
from swapcal.batch.correction import NO_MARGIN, Correction, SparseRegressors, left_out, logit, plan
from swapcal.batch.model import Model, _fold_count
from swapcal.batch.settings import FitSettings, lay_out, prior_of, width_of
from swapcal.features.encoder import FittedEncoder
from swapcal.features.sources import Category
from swapcal.kernels.batch import CATEGORY, CENTRE, HINGE, NUMBER, PAIR, SLOPE
from swapcal.tables.frame import Table, UnknownColumnError


def planted(n, seed=0):
    """A score that is right except in one intersection of groups, where it is too low by 1.5 in log-odds."""
    rng = np.random.default_rng(seed)
    shop, day, x = rng.choice(list("abc"), n), rng.choice(["week", "weekend"], n), rng.normal(size=n)
    odds = 0.8 * x - 0.3
    cell = (shop == "b") & (day == "weekend")
    truth = expit(odds + 1.5 * cell)
    frame = {"shop": shop, "day": day, "x": np.where(rng.random(n) < 0.1, np.nan, x)}
    return Table(frame), (rng.random(n) < truth).astype(float), expit(odds), truth, cell


@pytest.fixture(scope="module")
def fitted():
    table, y, scores, _, _ = planted(8000)
    return Model.fit(table, y, scores, groups=["shop", "day"])


def test_features_are_frozen_at_what_they_learned():
    table = Table({"n": [1.0, 2.0, 3.0, np.nan], "k": ["a", "a", "b", "a"], "many": np.arange(4.0)})
    features = FittedEncoder.learn(table, groups=["k"])
    assert features.names == ["n", "many", "n is missing"]
    found = features.encode(Table({"n": [2.0, np.nan, 900.0], "k": ["a", "z", "b"], "many": [1.5, 1.5, 1.5]}))
    assert found.Z[:, 0].tolist() == [0.0, 0.0, 3.0]
    assert found.Z[:, 2].tolist() == [0.0, 3.0, 0.0]
    assert found.codes[0, 0] == 0


def test_standard_scores_end_at_three():
    rng = np.random.default_rng(7)
    features = FittedEncoder.learn(Table({"x": rng.normal(size=500)}), [])
    Z = features.encode(Table({"x": np.array([-1e9, -5.0, 1.0, 5.0, 1e9])})).Z[:, 0]
    np.testing.assert_array_equal(Z[[0, 1, 3, 4]], [-3, -3, 3, 3])
    assert 0.5 < Z[2] < 2


def test_numeric_groups_become_values_or_bins():
    X = np.column_stack([np.arange(1000.0) % 3, np.arange(1000.0)])
    features = FittedEncoder.learn(X, groups=[0, 1])
    codes = features.encode(X).codes
    assert sorted(set(codes[:, 0])) == [0, 1, 2]
    assert sorted(set(codes[:, 1])) == list(range(8))
    assert features.encode(np.array([[7.0, 1e9]])).codes.tolist() == [[-1, 7]]
    assert features.categories[0].labels()[0] == "0 = 0"
    Q = np.array([[1.0, 124.0], [np.nan, np.nan], [1.5, -9.0], [2.0, 125.0]])
    expected = np.column_stack([category.codes(Q) for category in features.categories])
    assert np.array_equal(features.encode(Q).codes, expected)
    assert expected.tolist()[1] == [-1, -1]


def test_an_array_is_encoded_column_by_column_as_a_table_is():
    """A group in bins is a number too, behind the others: as many numbers as columns, in another order."""
    X = np.random.default_rng(0).normal(size=(200, 3)) * [1.0, 10.0, 100.0]
    table = Table({str(j): X[:, j] for j in range(3)})
    from_array, from_table = FittedEncoder.learn(X, [0]).encode(X), FittedEncoder.learn(table, ["0"]).encode(table)
    assert np.array_equal(from_array.Z, from_table.Z)


def test_huge_numbers_have_a_scale():
    frozen = FittedEncoder.learn(Table({"x": np.array([1e300, 3e300])}))
    assert frozen.encode(Table({"x": np.array([3e300, 2e300])})).Z.ravel().tolist() == [1.0, 0.0]


def test_truth_values_are_found_however_a_file_spelt_them():
    for texts in (["False", "True"], ["false", "true"]):
        assert Category("member", False, texts=texts).codes(Table({"member": [True, False]})).tolist() == [1, 0]
    assert Category("said", False, texts=["False", "True"]).codes(Table({"said": ["True", "?"]})).tolist() == [1, -1]


def test_features_survive_their_manifest():
    table, *_ = planted(300)
    features = FittedEncoder.learn(table, groups=["shop", "day"])
    again = FittedEncoder.from_manifest(features.manifest())
    for a, b in zip(features.encode(table), again.encode(table), strict=True):
        assert np.array_equal(a, b, equal_nan=True)


def test_contexts_lie_in_X_and_the_prior_reads_the_score():
    table, _, scores, _, _ = planted(500)
    features = FittedEncoder.learn(table, groups=["shop", "day"])
    layout = lay_out(features, features.encode(table))
    table, y, scores, _, _ = planted(3000)
    model = Model.fit(table, y, scores, groups=["shop", "day"])
    X = model.contexts(table, scores)
    assert (X[:, 0] == 0.5).all()
    assert np.linalg.norm(X, axis=1).max() <= 1.0
    assert np.abs(X[:, : model.dim] @ prior_of(model.layout) - model.corrected(table, scores)).max() < 1e-12
    assert width_of(layout) == model.dim


def regressors(design, width, given, rows):
    """Return them row by row and one by one, as `Design` says where each goes."""
    F, scales = np.zeros((len(given), width)), design.scales
    for f, logit_, z, codes in zip(F, given, rows.Z, rows.codes, strict=True):
        f[:2] = 1.0, logit_
        for i, knot in enumerate(design.knots):
            f[2 + i] = scales[HINGE] * max(0.0, logit_ - knot)
        for place, value in zip(design.numeric, z, strict=True):
            f[place] = scales[NUMBER] * value
        for column, code in enumerate(codes):
            if code >= 0 and design.category[column, code] >= 0:
                f[design.category[column, code]] = scales[CATEGORY]
            if code >= 0 and design.slope[column, code] >= 0:
                f[design.slope[column, code]] = scales[SLOPE] * (logit_ - scales[CENTRE])
        for pair, left, right in zip(design.pair, codes[design.left], codes[design.right], strict=True):
            if left >= 0 and right >= 0 and pair[left, right] >= 0:
                f[pair[left, right]] = scales[PAIR]
    return F


def refitted(design, width, given, rows, y, kept):
    """Return all rows' log-odds after fitting only the rows kept, by plain Newton to convergence."""
    F = regressors(design, width, given, rows)
    start = np.zeros(width)
    start[1] = 1.0
    b = start.copy()
    for _ in range(30):
        p = expit(F[kept] @ b)
        curvature = np.eye(width) + (F[kept] * (p * (1 - p))[:, None]).T @ F[kept]
        b = b - np.linalg.solve(curvature, F[kept].T @ (p - y[kept]) + b - start)
    return F @ b


def test_listed_regressors_are_those_written_out():
    table, y, scores, _, _ = planted(400)
    features = FittedEncoder.learn(table, groups=["shop", "day"])
    rows, given = features.encode(table), logit(scores)
    rows.codes[::7, 0], rows.codes[::5, 1] = -1, -1  # no category there
    for scored in (True, False):
        design, width = plan(features, rows, given, scored=scored)
        index, rng = np.arange(0, 400, 3), np.random.default_rng(0)
        whole = regressors(design, width, given, rows)
        F, listed = whole[index], SparseRegressors(design, width, given, rows)
        B, R = rng.normal(size=(2, width)), rng.normal(size=(2, len(index)))
        np.testing.assert_allclose(listed.written_out(), whole, rtol=1e-15)
        np.testing.assert_allclose(listed.dots(index, B), B @ F.T, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(listed.pull(index, R), R @ F, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            listed.square(index, y[index]), np.tril((F.T * y[index]) @ F), rtol=1e-12, atol=1e-12
        )


def test_out_of_fold_log_odds_are_those_of_a_refit_without_the_fold():
    table, y, scores, _, _ = planted(1500)
    features = FittedEncoder.learn(table, groups=["shop", "day"])
    rows, given = features.encode(table), logit(scores)
    design, width = plan(features, rows, given, scored=True)
    folds = np.arange(1500) % 3
    correction, without = Correction.fit(design, width, given, rows, y, np.ones(1500), folds)
    honest = left_out(without, folds)
    for fold in range(3):
        expected = refitted(design, width, given, rows, y, folds != fold)
        assert np.abs(honest - expected)[folds == fold].max() < 0.02
    everything = refitted(design, width, given, rows, y, np.ones(1500, bool))
    assert np.abs(correction.logits(given, rows) - everything).max() < 0.02
    assert np.abs(honest - everything).max() > 0.05


def test_curvature_of_many_rows_is_exact_on_the_diagonal_and_near_beside_it(monkeypatch):
    table, _, scores, _, _ = planted(3000)
    features = FittedEncoder.learn(table, groups=["shop", "day"])
    rows, given = features.encode(table), logit(scores)
    design, width = plan(features, rows, given, scored=True)
    listed, index, c = (
        SparseRegressors(design, width, given, rows),
        np.arange(3000),
        np.random.default_rng(0).random(3000),
    )
    exact = listed.square(index, c)
    monkeypatch.setattr(correction_module, "ENOUGH_TO_STEP", 600)
    found = listed.square(index, c)
    np.testing.assert_allclose(found.diagonal(), exact.diagonal(), rtol=1e-12)
    assert not np.allclose(found, exact, rtol=1e-3)  # it does come from some of the rows
    whole, part = (np.tril(one, -1).T + one + np.eye(width) for one in (exact, found))
    wrong = np.linalg.eigvals(np.linalg.solve(part, whole)).real - 1.0
    assert np.abs(wrong).max() < 0.8  # below 1, or Newton's steps would lead away


def test_out_of_fold_log_odds_by_a_curvature_of_some_rows_are_those_of_a_refit(monkeypatch):
    monkeypatch.setattr(correction_module, "ENOUGH_TO_STEP", 400)
    monkeypatch.setattr(correction_module, "PENALTIES", (1.0,))
    table, y, scores, _, _ = planted(3000)
    features = FittedEncoder.learn(table, groups=["shop", "day"])
    rows, given = features.encode(table), logit(scores)
    design, width = plan(features, rows, given, scored=True)
    folds = np.random.default_rng(0).permutation(3000) % 2
    correction, without = Correction.fit(design, width, given, rows, y, np.ones(3000), folds)
    for fold in range(2):
        expected = refitted(design, width, given, rows, y, folds != fold)
        assert np.abs(without[fold] - expected)[folds == fold].mean() < 0.01
    everything = refitted(design, width, given, rows, y, np.ones(3000, bool))
    assert np.abs(correction.logits(given, rows) - everything).mean() < 0.01
    assert np.abs(left_out(without, folds) - everything).mean() > 0.03  # what leaving a fold out changes


def test_half_of_the_rows_are_left_out_only_around_the_score_of_many():
    assert [_fold_count(n, scored) for n in (3, 4999, 5000) for scored in (True, False)] == [3, 3, 5, 5, 3, 5]


def test_more_regressors_than_rows_have_the_same_solution(monkeypatch):
    monkeypatch.setattr(correction_module, "PENALTIES", (1.0,))
    rng = np.random.default_rng(0)
    X, folds = rng.normal(size=(90, 120)), np.arange(90) % 3
    y = (rng.random(90) < expit(X[:, 0])).astype(float)
    features = FittedEncoder.learn(X)
    rows, given = features.encode(X), logit(expit(0.5 * X[:, 0]))
    design, width = plan(features, rows, given, scored=True)
    correction, without = Correction.fit(design, width, given, rows, y, np.ones(90), folds, margin=NO_MARGIN)
    assert width > 120 == X.shape[1]
    everything = refitted(design, width, given, rows, y, np.ones(90, bool))
    np.testing.assert_allclose(correction.logits(given, rows), everything, atol=0.02)
    np.testing.assert_allclose(without[0], refitted(design, width, given, rows, y, folds != 0), atol=0.1)


def test_planted_bias_is_removed_and_the_certificate_holds(fitted):
    table, y, scores, truth, cell = planted(20_000, seed=1)
    p = fitted.mean(table, scores)
    assert abs(np.mean(scores[cell] - y[cell])) > 0.2
    assert abs(np.mean(p[cell] - y[cell])) < 0.03
    assert np.mean((p - truth) ** 2) < 0.1 * np.mean((scores - truth) ** 2)
    assert fitted.certificate.holds()


def test_true_scores_are_hardly_touched():
    table, y, _, truth, _ = planted(8000)
    model = Model.fit(table, y, truth, groups=["shop", "day"])
    table, _, _, truth, _ = planted(20_000, seed=1)
    assert np.mean((model.mean(table, truth) - truth) ** 2) < 1e-3


def test_without_scores_it_learns_from_the_features():
    table, y, _, _, _ = planted(8000)
    model = Model.fit(table, y, groups=["shop", "day"])
    table, _, _, truth, _ = planted(20_000, seed=1)
    assert np.mean((model.mean(table) - truth) ** 2) < 0.1 * np.var(truth)


def test_a_row_alone_is_predicted_as_among_others(fitted):
    table, _, scores, _, _ = planted(200, seed=2)
    p, issued = fitted.mean(table, scores), fitted.issue(table, scores)
    for row in (0, 57, 199):
        one = Table({name: table.raw(name)[row : row + 1] for name in table.columns})
        assert fitted.mean(one, scores[row : row + 1])[0] == p[row]
        assert fitted.issue(one, scores[row : row + 1]).p[0] == issued.p[row]


def test_saved_models_predict_the_same_and_damage_is_noticed(fitted, tmp_path):
    table, _, scores, _, _ = planted(300, seed=3)
    fitted.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    assert np.array_equal(again.mean(table, scores), fitted.mean(table, scores))
    assert again.certificate == fitted.certificate
    raw = bytearray((tmp_path / "model").read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / "model").write_bytes(bytes(raw))
    with pytest.raises(archive.ArchiveError):
        Model.load(tmp_path / "model")


def test_a_loaded_model_takes_what_the_user_has(fitted, tmp_path):
    pandas = pytest.importorskip("pandas")
    table, _, scores, _, _ = planted(300, seed=3)
    columns = {name: table.raw(name) for name in table.columns}
    fitted.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    for given in (columns, pandas.DataFrame(columns)):
        assert np.array_equal(loaded.mean(given, scores), fitted.mean(table, scores))
        assert np.array_equal(loaded.issue(given, scores).p, fitted.issue(table, scores).p)


def test_more_rows_keep_the_mixture_uniform():
    table, y, scores, _, _ = planted(1000)
    model = Model.fit(table, y, scores, groups=["shop"], settings=FitSettings(snapshots=200))
    old = {snapshot.theta.tobytes() for snapshot in model._snapshots}
    table, y, scores, _, _ = planted(3000, seed=4)
    model.learn_more(table, y, scores, np.ones(3000))
    assert model.rows == 4000
    assert len(model.mixture) == 200
    share = np.mean([snapshot.theta.tobytes() in old for snapshot in model._snapshots])
    assert abs(share - 0.25) < 0.1


def test_targets_choose_the_grid_of_their_theorem():
    settings = FitSettings(target="omniprediction")
    assert settings.levels(40_000, 5) == 20
    assert FitSettings(target="agnostic").levels(40_000, 5) == 6
    assert FitSettings().levels(40_000, 5) == "adaptive"


def test_the_unit_of_weights_does_not_matter():
    table, y, scores, _, _ = planted(1500)
    weight = np.random.default_rng(5).choice([1.0, 3.0], 1500)
    one, other = (Model.fit(table, y, scores, groups=["shop"], weight=unit * weight) for unit in (1.0, 1e4))
    np.testing.assert_allclose(other.mean(table, scores), one.mean(table, scores), atol=1e-9)
    assert other.certificate.psreg == pytest.approx(one.certificate.psreg, rel=1e-6)


def test_no_forecast_is_surer_than_the_rows_allow():
    """Scores that are always right, and sure: T rows of that justify odds of T + 1 to 1, no more."""
    rng = np.random.default_rng(6)
    y = (rng.random(400) < 0.5).astype(float)
    table, scores = Table({"x": rng.normal(size=400)}), np.where(y > 0, 1 - 1e-9, 1e-9)
    model = Model.fit(table, y, scores)
    least = 1 / 402
    issued = model.issue(table, scores)
    for p in (model.mean(table, scores), issued.p, issued.low, issued.high):
        assert p.min() >= least
        assert p.max() <= 1 - least
    assert model.mean(table, scores).min() == least


def test_refusals(fitted):
    table, y, scores, _, _ = planted(300)
    with pytest.raises(UnknownColumnError, match="did you mean 'shop'"):
        Model.fit(table, y, scores, groups=["shopp"])
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        Model.fit(np.zeros((300, 2)), y, groups=[2])
    with pytest.raises(ValueError, match="expected those of the model it corrects"):
        fitted.mean(table)
    with pytest.raises(ValueError, match=r"given 270, expected at least [\d,]+, the number the theorem needs"):
        Model.fit(table, y, scores, settings=FitSettings("multicalibration", epsilon=0.05, correction="none"))
    with pytest.raises(ValueError, match="epsilon: given with target"):
        FitSettings(epsilon=0.1)
    for wrong in ({"correction": "linear"}, {"correction": "none", "passes": 2}):
        with pytest.raises(ValueError, match="epsilon: given with correction"):
            FitSettings("agnostic", epsilon=0.1, **wrong)
    with pytest.raises(ValueError, match="log: given 1"):
        FitSettings(log=1)
    with pytest.raises(ValueError, match="log: given with 2 passes"):
        FitSettings(log=True, passes=2)
    with pytest.raises(ValueError, match="snapshots: given 0"):
        FitSettings(snapshots=0)
    with pytest.raises(ValueError, match="given inf in row 2, expected a finite number"):
        fitted.mean(Table({"shop": ["a", "b"], "day": ["week", "week"], "x": [0.0, np.inf]}), np.array([0.5, 0.5]))


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1e12])
def test_the_unit_of_a_feature_does_not_matter(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = (rng.random(600) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(float)
    plain, scaled = Model.fit(X, y).mean(X), Model.fit(X * scale, y).mean(X * scale)
    assert np.corrcoef(plain, scaled)[0, 1] > 0.999


def test_a_perfect_score_is_left_alone_where_chance_speaks_against_it_by_little_more_than_a_standard_error():
    rng = np.random.default_rng(22)  # out of fold, a correction gains 1.1 standard errors here
    X = rng.normal(size=(21_000, 6))
    truth = expit(X @ [1.0, 0.5, -0.5, 0.3, 0.0, 0.0])
    y = (rng.random(21_000) < truth).astype(float)
    model = Model.fit(X[:1000], y[:1000], truth[:1000], settings=FitSettings(seed=22, correction="linear"))
    assert np.abs(model.corrected(X[1000:], truth[1000:]) - truth[1000:]).max() < 1e-9


@pytest.mark.parametrize("sharpness", [1.0, 4.0])
@pytest.mark.parametrize("rows", [60, 300])
def test_few_rows_do_not_spoil_a_perfect_score(rows, sharpness):
    excess = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(rows + 4000, 3))
        truth = expit(sharpness * X[:, 0])
        y = (rng.random(len(X)) < truth).astype(float)
        model = Model.fit(X[:rows], y[:rows], truth[:rows], settings=FitSettings(seed=seed, correction="linear"))
        p, q = model.mean(X[rows:], truth[rows:]), truth[rows:]
        best = np.clip(q, model.least, 1 - model.least)
        cost, least = (float(-(q * np.log(each) + (1 - q) * np.log1p(-each)).mean()) for each in (p, best))
        excess.append(cost / least - 1.0)
    assert np.mean(excess) < 0.004
    assert max(excess) < 0.015


def turned(rows, seed=0):
    """A score that knows nothing, and a shop in which the numbers work the other way round."""
    rng = np.random.default_rng(seed)
    X, shop = rng.normal(size=(rows, 3)), rng.choice(list("abc"), rows)
    truth = expit(np.where(shop == "b", -1.0, 1.0) * (X @ [1.0, 0.8, -0.6]))
    table = Table({**{f"x{j}": X[:, j] for j in range(3)}, "shop": shop})
    return table, (rng.random(rows) < truth).astype(float), np.full(rows, 0.5), truth


def test_a_group_in_which_features_work_the_other_way_round_is_corrected_twice(tmp_path, monkeypatch):
    settings = FitSettings(correction="linear")
    model = Model.fit(*turned(3000)[:3], groups=["shop"], settings=settings)
    assert model.opening is not None
    table, _, scores, truth = turned(2000, seed=1)
    found = model.mean(table, scores)
    model.save(tmp_path / "model")
    assert np.array_equal(Model.load(tmp_path / "model").mean(table, scores), found)
    monkeypatch.setattr(model_module, "SLOPE_MARGIN", np.inf)
    once = Model.fit(*turned(3000)[:3], groups=["shop"], settings=settings)
    assert once.opening is None
    assert np.mean((found - truth) ** 2) < 0.5 * np.mean((once.mean(table, scores) - truth) ** 2)


def test_a_right_score_is_corrected_once_at_most():
    table, y, _, truth = turned(3000)
    assert Model.fit(table, y, truth, groups=["shop"], settings=FitSettings(correction="linear")).opening is None


@pytest.mark.parametrize(
    ("errors", "tried", "best"),
    [((0.5, 0.3, 0.4, 0.1), 3, 1), ((0.4, 0.5, 0.1), 2, 0), ((0.5, 0.4, 0.3), 3, 2), ((0.4, 0.4, 0.3), 3, 2)],
    ids=repr,
)
def test_penalties_are_tried_while_the_error_falls_and_progress_counts_rows_once(monkeypatch, errors, tried, best):
    class Trial:
        def __init__(self, error):
            self.error = error

        def run(self, X, y, weight, at, progress):
            told.append(progress)
            return y + self.error, [self.error]

    told, y, model = [], np.zeros(10), object.__new__(Model)
    monkeypatch.setattr(Model, "_margin", NO_MARGIN)
    model.runs = [Trial(error) for error in errors]
    means, kept = model._choose(y[:, None], y, np.ones(10), np.arange(1), print)
    assert (means[0], kept) == (errors[best], [errors[best]])
    assert told == [print] + [None] * (tried - 1)
    assert [trial.error for trial in model.runs] == [errors[best]]


def test_rows_of_all_other_folds_are_enough_for_the_curvature_of_each(monkeypatch):
    made = []
    monkeypatch.setattr(
        correction_module, "SparseRegressors", lambda *given: made.append(given[4:]) or SparseRegressors(*given)
    )
    table, y, scores, _, _ = planted(600)
    features = FittedEncoder.learn(table, groups=["shop", "day"])
    rows, given = features.encode(table), logit(scores)
    design, width = plan(features, rows, given, scored=True)
    Correction.fit(design, width, given, rows, y, np.ones(600), np.arange(600) % 3)
    assert [found[1] for found in made if found] == [2]
    index, c = np.arange(0, 600, 3), np.linspace(1.0, 2.0, 200)
    found = []
    for others, enough in ((2, 100), (1, 50), (1, 100)):
        monkeypatch.setattr(correction_module, "ENOUGH_TO_STEP", enough)
        found.append(SparseRegressors(design, width, given, rows, 1.0, others).square(index, c))
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()
