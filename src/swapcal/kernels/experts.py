"""A bank of online logistic regressions at many learning rates, and the blend of all of them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.draw import GOLDEN, MIX_1
from swapcal.kernels.encode import ENTRIES, sigmoid, stabilised
from swapcal.kernels.jit import inlined, jit, shared
from swapcal.kernels.learners import (
    KEEP,
    NEWTON,
    Newton,
    learn_newton,
    list_context,
    newton_margin,
    newton_variance,
    repeated,
    steps_of,
)
from swapcal.kernels.state import T_MEAN

# A recalibration curve with a short memory: the recent mean error as a function of the forecast alone.
#
# A forecast p becomes p + p(1 - p)(w_1 + w_2 (2p - 1)): one weight moves the middle, the other spreads forecasts or
# draws them together, and 0 and 1 stay where they are, so that few labels decide little on the ends. The weights are
# those of a ridge regression of y - p whose past fades.

CURVE = 2
VARIANCE = 0.1  # of a weight, before any label
CURVE_KEEP = 1.0 - 1.0 / 5e3  # of what was learned, at each label
LOOSEST_CURVE = 1.0  # forgetting stops once the weights' variances are on average so large
STEEPEST = 0.7  # a forecast near an end is multiplied by no more than 1 ± this


@inlined
def term(p: float, i: int) -> float:
    """Return the factor of a weight of the curve."""
    return p * (1.0 - p) * (2.0 * p - 1.0 if i else 1.0)


@shared
def bent(weights: Array, p: float) -> float:
    """Return the curve's value at a probability."""
    pull = weights[0] + weights[1] * (2.0 * p - 1.0)
    return float(p + p * (1.0 - p) * min(STEEPEST, max(-STEEPEST, pull)))


@shared
def learn_curve(weights: Array, spread: Array, p: float, y: float, share: float, gain: Array) -> None:
    """Discount the past, unless little is left of it, and enter one more forecast."""
    error = y - p - weights[0] * term(p, 0) - weights[1] * term(p, 1)
    for i in range(CURVE):
        gain[i] = spread[i, 0] * term(p, 0) + spread[i, 1] * term(p, 1)
    noise = 1.0 + share * (gain[0] * term(p, 0) + gain[1] * term(p, 1))
    inflate = 1.0 / CURVE_KEEP if spread[0, 0] + spread[1, 1] < CURVE * LOOSEST_CURVE else 1.0
    for i in range(CURVE):
        weights[i] += share * error / noise * gain[i]
        for j in range(CURVE):
            spread[i, j] = inflate * (spread[i, j] - share / noise * gain[i] * gain[j])


# A bank of online logistic regressions at many learning rates, and the blend of all of them.
#
# The bank reads each row as a short list of hashed features. One part of it is linear in them; another also sees
# every pair of columns, which is what trees of depth two see; the last are second-order regressions on the context.
# None of them uses the user's own scores. Two stacks, second-order logistic regressions on all logits, with and without
# the scores, and the scores as they are given share their weight by their recent likelihoods, so that a score which is
# noise, or breaks, costs next to nothing, and so does learning where a score is the truth. The blend pools the
# log-odds of the stacks, the experts, the scores and the base rate by merit: while labels come at once it is the
# stacks, and the later they come the more it leans on experts that change slowly. Merits move as fast as late labels
# allow: slowly where surprises come in runs, as if labels came at once where they do not. Where labels come late,
# experts that fall short of the base rate or of a score even on labels as they come lose their odds, a score that does
# not is held on to until rows are labelled whose experts knew enough to be judged, and a row unlike those whose labels
# are known is forecast with less confidence. Where they come at once, the blend is what a curve with a short memory
# makes of the pool: a pool of moving experts drifts, and levels, which weight all labels alike, adapt late.
# A label of weight w counts as if it had come w times in a row, with two exceptions: AdaGrad, whose steps do not depend
# on the gradients' scale, takes one step along w gradients, and memories fade once, as they are lengths in labels.


Single = NDArray[np.float32]

# Learning rates on rows of unit norm, a geometric range; for pairs, the useful part of it.
LINEAR_SGD, LINEAR_ADA = 6, 4
PAIR_SGD, PAIR_ADA = 3, 2
LINEAR, PAIRED = LINEAR_SGD + LINEAR_ADA, PAIR_SGD + PAIR_ADA
HASHED = LINEAR + PAIRED
EXPERTS = HASHED + NEWTON
RATES = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 0.03, 0.1, 0.3, 1.0, 0.3, 1.0, 3.0, 0.03, 0.1], np.float32)

LINEAR_SLOTS, PAIR_SLOTS = 1 << 16, 1 << 17
LINEAR_ROW, PAIRED_ROW = 16, 8
SMALL_LINEAR_SLOTS, SMALL_PAIR_SLOTS = 1 << 10, 1 << 9  # of a small bank; any powers of two up to the above would do
PAIR_SHIFT = np.uint64(64 - 17)  # the high bits that number PAIR_SLOTS
CROSSED = 32  # columns whose pairs are looked at; the square of it bounds the work per row
BIAS = np.uint64(0x5851F42D4C957F2D)
NO_SYMBOL = np.uint64(0)

ONE = np.float32(1.0)
MARGIN = np.float32(15.0)  # a float32 sigmoid is 0 or 1 beyond
LOGIT = 9.2  # log-odds of 1e-4: limit of an expert's input to the stack
PRIOR = 0.01  # variance of the stack's weights
MEMORY = 1e4  # memory of stack and merits, in labels
LAGS = 10.0  # further memory of merits, in delays: late labels come in so many blocks
FORGET = 1.0 - 1.0 / MEMORY
LOOSEST = 20.0  # forgetting stops once the weights' variances are on average this many times their prior
FLAT = 1e-4  # least curvature credited to a label, so that certainty cannot freeze the stack

# The blend's members: the stack, the experts, the users' scores, the base rate.
STACK, FIRST_EXPERT = 0, 1
STACK_ODDS, BASE_ODDS = 1000.0, 0.03  # prior odds against one expert, of labels that come at once
FALLING = np.array([LINEAR_SGD <= e < LINEAR or e >= LINEAR + PAIR_SGD for e in range(HASHED)])  # AdaGrad's steps
ADA_PACE = 0.15  # how fast AdaGrad moves at first, relative to SGD of the same rate
FASTEST, STEP = 1.0, np.sqrt(2.0)  # the merits' rate is STEP over the root of all surprise, at most FASTEST
LEAST_MERIT = -15.0  # lower limit of merit's effect on a weight, as a logarithm
RECENT = 1e3  # memory of the last second-order expert, in labels; over as many, experts are compared with the base rate
DOUBT = 0.2  # part of a row's leverage that counts as uncertainty of the experts' log-odds, when labels come late
SURPRISE = 0.6  # power of 1 + lag that tempers the stacks' likelihoods; ½ would suffice without drift
# The stacks: one on the experts only, the other also on the users' scores; and the scores as given. None weighs less
# than a third of SWITCHING.
PLAIN, SCORED, GIVEN = 0, 1, 2
INFORMED = 0.5  # share of today's labels known to a row from which on it does not compare the scores with the base rate
SWITCHING = 1e-4
RISE = 1e-3  # most that one label adds to the trust in the scores: one surprise of a stack proves little
LARGEST_GAIN = 300.0  # logarithm of a likelihood ratio, which a label of large weight must not make infinite
# counts of the bank: labels known, their sum, the number of labels between a forecast and its own, the largest sum of
# the blend's surprise over the labels up to now, the one that sets the rate, the trust in the users' scores as given
# against all that is learned, and the log-odds that experts start from: 0, or those of a base rate known beforehand
KNOWN, ONES, LAG, TENSION, PEAK, TRUST, START = 0, 1, 2, 3, 4, 5, 6
COUNTS = 7
LAG_STEP = 0.01  # the lag is a mean over about a hundred labels
# what a row keeps after the stacks' inputs: the log-odds of both stacks, of the two together and of the base rate, and
# the labels then known
ISSUED_PLAIN, ISSUED_SCORED, ISSUED_STACK, ISSUED_BASE, ISSUED_KNOWN = 0, 1, 2, 3, 4
ISSUED = 5


class Bank(NamedTuple):
    """Weights of every expert and of the blend."""

    linear: Single
    """(LINEAR_SLOTS or fewer, 16) one row, one cache line, per hashed feature: the SGD experts' weights, the AdaGrad
    experts' weights, AdaGrad's sums of squared gradients, padding."""
    paired: Single
    """(PAIR_SLOTS or fewer, 8) the same for the experts that see pairs."""
    newton: Newton
    """the second-order experts"""
    weights: Array
    """(1 or 2, 1 + EXPERTS + scores) the stacks' weights: constant, experts, users' scores; one stack without scores.
    Those of the plain stack are a correction of the experts' pool by trust."""
    covariance: Array
    """(1 or 2, 1 + EXPERTS + scores, same)"""
    shares: Array
    """(1 or 3,) how much each stack is believed, and the users' scores as they are"""
    merits: Array
    """(2 + EXPERTS + scores,) what more of each of the blend's members would have gained it, the best at 0."""
    runs: Array
    """(2 + EXPERTS + scores,) the part of it that came with the latest labels, about `lag` of them"""
    shortfalls: Array
    """(EXPERTS + scores,) each expert's and score's mean log loss beyond the base rate's, on labels as they came, about
    the last RECENT; kept only where they come late"""
    counts: Array
    """[labels known, each as often as it counts, their sum, lag, tension, its peak, belief in the scores as given, the
    log-odds that experts start from]"""
    curve: Array
    """(CURVE,) weights of the recalibration curve of the blend's recent forecasts"""
    spread: Array
    """(CURVE, CURVE) their covariance"""
    given: Integers
    """(1,) how many of the scores are the users', the first ones; the others are of models, which have yet to learn. Of
    models alone, all of them"""


class View(NamedTuple):
    """Which coordinates of a context are raw features, for second-order experts."""

    first: int
    """the first one; all later ones are"""
    norm: float
    """the most that they have together"""


class Workspace(NamedTuple):
    """Working room for one row: its features, and the experts' forecasts."""

    slots: Integers
    amounts: Single
    pair_slots: Integers
    pair_amounts: Single
    amount: Single
    """[of every pair]"""
    margins: Single
    chances: Single
    """sigmoids of the margins"""
    sizes: Integers
    """[features, features and pairs, coordinates]"""
    gain: Array
    """a stack's covariance times its inputs"""
    context: Array
    """what second-order experts see"""
    pull: Array
    """a second-order expert's covariance times its context"""
    trust: Array
    """of each member of the blend"""
    credit: Array
    """of each member, by one label"""


@inlined
def last_row(table: Single) -> np.uint64:
    """Return the bits of a hash that number the rows of a table."""
    return np.uint64(table.shape[0] - 1)


@inlined
def list_features(bank: Bank, keys: Keys, values: Array, work: Workspace) -> int:
    """List a row's features with a bias; return their number."""
    linear, paired = last_row(bank.linear), last_row(bank.paired)
    work.slots[0] = np.int64(BIAS & linear)
    work.pair_slots[0] = np.int64(BIAS & paired)
    work.amounts[0] = 1.0
    n = 1
    for k in range(keys.shape[0]):
        if values[k] != 0.0:
            work.slots[n] = np.int64(keys[k] & linear)
            work.pair_slots[n] = np.int64(keys[k] & paired)
            work.amounts[n] = values[k]
            n += 1
    return n


@inlined
def list_pairs(bank: Bank, keys: Keys, work: Workspace, n: int) -> int:
    """Append the pairs of columns' symbols; return the number of features and pairs."""
    last = last_row(bank.paired)
    columns = min(keys.shape[0] // ENTRIES, CROSSED)
    for a in range(columns):
        left = keys[ENTRIES * a]
        if left != NO_SYMBOL:
            left *= GOLDEN
            for b in range(a + 1, columns):
                right = keys[ENTRIES * b]
                if right != NO_SYMBOL:
                    # keys are well mixed already: one multiplication spreads their sum over the high bits
                    work.pair_slots[n] = np.int64((((left + right) * MIX_1) >> PAIR_SHIFT) & last)
                    n += 1
    return n


@inlined
def scale_features(work: Workspace, features: int, total: int) -> None:
    """Scale the features, and the features with pairs, to unit norm; every pair has the amount work.amount[0].

    To linear experts the bias weighs as much as all else together: what moves in a stream is often its level.
    """
    squares = np.float32(0.0)
    for k in range(1, features):
        squares += work.amounts[k] * work.amounts[k]
    bias = max(ONE, squares)
    single = ONE / np.sqrt(squares + bias)
    both = ONE / np.sqrt(squares + ONE + np.float32(total - features))
    work.amount[0] = both
    work.pair_amounts[0] = both
    work.amounts[0] = single * np.sqrt(bias)
    for k in range(1, features):
        work.pair_amounts[k] = both * work.amounts[k]
        work.amounts[k] *= single


@inlined
def linear_margins(weights: Single, work: Workspace) -> None:
    """Sum weight times feature for every linear expert, in registers."""
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = m8 = m9 = np.float32(0.0)
    for k in range(work.sizes[0]):
        s, a = work.slots[k], work.amounts[k]
        m0 += weights[s, 0] * a
        m1 += weights[s, 1] * a
        m2 += weights[s, 2] * a
        m3 += weights[s, 3] * a
        m4 += weights[s, 4] * a
        m5 += weights[s, 5] * a
        m6 += weights[s, 6] * a
        m7 += weights[s, 7] * a
        m8 += weights[s, 8] * a
        m9 += weights[s, 9] * a
    for e, m in enumerate((m0, m1, m2, m3, m4, m5, m6, m7, m8, m9)):
        work.margins[e] = m


@inlined
def paired_margins(weights: Single, work: Workspace) -> None:
    """Sum weight times feature or pair for every paired expert, in registers."""
    m0 = m1 = m2 = m3 = m4 = np.float32(0.0)
    for k in range(work.sizes[0], work.sizes[1]):
        s = work.pair_slots[k]
        m0 += weights[s, 0]
        m1 += weights[s, 1]
        m2 += weights[s, 2]
        m3 += weights[s, 3]
        m4 += weights[s, 4]
    for e, m in enumerate((m0, m1, m2, m3, m4)):
        work.margins[LINEAR + e] = m * work.amount[0]
    m0 = m1 = m2 = m3 = m4 = np.float32(0.0)
    for k in range(work.sizes[0]):
        s, a = work.pair_slots[k], work.pair_amounts[k]
        m0 += weights[s, 0] * a
        m1 += weights[s, 1] * a
        m2 += weights[s, 2] * a
        m3 += weights[s, 3] * a
        m4 += weights[s, 4] * a
    for e, m in enumerate((m0, m1, m2, m3, m4)):
        work.margins[LINEAR + e] += m


@inlined
def look(bank: Bank, keys: Keys, values: Array, x: Array, view: View, dim: int, work: Workspace) -> None:
    """Look at a row: its features, and every expert's margin."""
    work.sizes[0] = list_features(bank, keys, values, work)
    work.sizes[1] = list_pairs(bank, keys, work, work.sizes[0])
    scale_features(work, work.sizes[0], work.sizes[1])
    linear_margins(bank.linear, work)
    paired_margins(bank.paired, work)
    work.sizes[2] = list_context(x, dim, view.first, view.norm, work.context)
    for e in range(NEWTON):
        work.margins[HASHED + e] = newton_margin(bank.newton, e, work.context, work.sizes[2])
    start = np.float32(bank.counts[START])
    for e in range(EXPERTS):
        work.margins[e] += start
        margin = min(max(work.margins[e], -MARGIN), MARGIN)
        work.chances[e] = ONE / (ONE + np.exp(-margin))


@inlined
def bounded(m: float, limit: float) -> float:
    """Return m clipped to [-limit, limit]."""
    return min(max(m, -limit), limit)


@inlined
def log_odds(p: float, missing: float) -> float:
    """Return the logit of a probability, bounded; `missing` for a missing one."""
    if np.isnan(p):
        return missing
    if p <= 0.0 or p >= 1.0:
        return LOGIT if p >= 1.0 else -LOGIT
    return float(bounded(np.log(p / (1.0 - p)), LOGIT))


@inlined
def list_inputs(work: Workspace, given: Array, missing: float, inputs: Array) -> None:
    """Write the stack's inputs: 1, the experts' logits, the users' logits, `missing` for those that are."""
    inputs[0] = 1.0
    for e in range(EXPERTS):
        inputs[1 + e] = bounded(work.margins[e], LOGIT)
    for s in range(given.shape[0]):
        inputs[1 + EXPERTS + s] = log_odds(given[s], missing)


@inlined
def pooled(inputs: Array, trust: Array) -> float:
    """Return the experts' log-odds pooled by trust: what the plain stack starts from."""
    odds, total = 0.0, 0.0
    for member in range(FIRST_EXPERT, FIRST_EXPERT + EXPERTS):
        odds += trust[member] * inputs[member]
        total += trust[member]
    return float(odds / total)


@inlined
def put_centred(bank: Bank, inputs: Array, centred: Array) -> None:
    """Write the stacks' inputs: log-odds less those that experts start from, so that only learning moves them."""
    centred[0] = inputs[0]
    for i in range(1, bank.weights.shape[1]):
        centred[i] = inputs[i] - bank.counts[START]


@inlined
def stacked(bank: Bank, stack: int, inputs: Array, centred: Array, trust: Array) -> float:
    """Return a stack's log-odds."""
    m = pooled(inputs, trust) if stack == PLAIN else bank.counts[START]
    for i in range(bank.weights.shape[1]):
        m += bank.weights[stack, i] * centred[i]
    return float(bounded(m, 15.0))


@inlined
def as_given(bank: Bank, memory: Array) -> float:
    """Return the mean log-odds of the users' scores: the start of the stack that uses them."""
    odds = 0.0
    for score in range(1 + EXPERTS, 1 + EXPERTS + bank.given[0]):
        odds += memory[score]
    return float(odds / bank.given[0])


@inlined
def trusted_share(bank: Bank) -> float:
    """Return the share of the users' scores as given against the pool and its curve: 0 unless they are mostly trusted.

    Every weight that is learned costs something, also where the score is the truth. The later labels come the less.
    """
    return float(max(2.0 * bank.counts[TRUST] - 1.0, 0.0) / (1.0 + bank.counts[LAG]))


@inlined
def put_stacks(bank: Bank, memory: Array, centred: Array, trust: Array) -> None:
    """Write the log-odds of each stack, and of their mixture; before the first label those of the users' scores."""
    inputs = bank.weights.shape[1]
    put_centred(bank, memory, centred)
    unscored = stacked(bank, PLAIN, memory, centred, trust)
    memory[inputs + ISSUED_PLAIN] = memory[inputs + ISSUED_SCORED] = memory[inputs + ISSUED_STACK] = unscored
    if bank.weights.shape[0] > SCORED:
        scored = stacked(bank, SCORED, memory, centred, trust)
        memory[inputs + ISSUED_SCORED] = memory[inputs + ISSUED_STACK] = scored
        if bank.counts[KNOWN] > 0.0:
            p = bank.shares[PLAIN] * sigmoid(unscored) + bank.shares[SCORED] * sigmoid(scored)
            p += bank.shares[GIVEN] * sigmoid(as_given(bank, memory))
            memory[inputs + ISSUED_STACK] = np.log(p / (1.0 - p))


@inlined
def issued_odds(bank: Bank, memory: Array, member: int) -> float:
    """Return the log-odds that a member of the blend gave a row."""
    inputs = bank.weights.shape[1]
    if member == STACK:
        return float(memory[inputs + ISSUED_STACK])
    if member == inputs:
        return float(memory[inputs + ISSUED_BASE])
    return float(memory[member])


@inlined
def least_shortfall(bank: Bank) -> float:
    """Return the shortfall of the best among base rate and users' scores, of which no label teaches anything."""
    least = 0.0
    for score in range(EXPERTS, bank.shortfalls.shape[0]):
        least = min(least, bank.shortfalls[score])
    return least


@inlined
def pace_of(bank: Bank, expert: int) -> float:
    """Return how far an expert moves with each label."""
    seen = bank.counts[KNOWN] + 1.0
    if expert >= HASHED:
        return float(max(1.0 / seen, 1.0 - KEEP[expert - HASHED]))
    if FALLING[expert]:
        return float(ADA_PACE * np.float64(RATES[expert]) / np.sqrt(seen))
    return float(RATES[expert])


@inlined
def lead_over(bank: Bank, score: int, least: float) -> float:
    """Return by how much the best of base rate, scores and experts beats a score, experts in so far as they last."""
    lead = bank.shortfalls[score] - least
    for e in range(EXPERTS):
        lasting = 1.0 / (1.0 + pace_of(bank, e) * bank.counts[LAG])
        lead = max(lead, lasting * (bank.shortfalls[score] - bank.shortfalls[e]))
    return float(lead)


@inlined
def trust(bank: Bank, member: int, least: float) -> float:
    """Return a member's prior odds, given how late labels come and the least shortfall of what does not learn.

    An expert that moves by its rate with each label has, while `lag` labels are outstanding, outlived what it followed
    about rate × lag times over. AdaGrad's rate falls with the square root of the labels, a second-order expert's with
    their number within its memory; the stack, which has most to learn, counts as an expert of rate 1; a user's
    score and the base rate do not age. An expert that falls short of the base rate, or of a score, when every label
    before a row's own is known will not do better with older ones: it pays for its shortfall, until the blend has rows
    to judge it by. Until then the best score, if neither the base rate nor an expert that lasts is better, has the odds
    of `lag` experts; one that falls short of the base rate pays for that: it would outweigh the experts by not aging.
    """
    lag, inputs = bank.counts[LAG], bank.weights.shape[1]
    expert, seen = member - FIRST_EXPERT, bank.counts[KNOWN] + 1.0
    if member == STACK:
        return float(STACK_ODDS / (1.0 + lag))
    if member == inputs:
        return BASE_ODDS
    if expert >= EXPERTS:
        if lag == 0.0:
            return 1.0
        lost, short = min(seen, RECENT) * lead_over(bank, expert, least), min(seen, RECENT) * bank.shortfalls[expert]
        held = lag * lag / (lag + seen) * np.exp(max(-lost, LEAST_MERIT))
        return float(held + np.exp(max(-max(short, 0.0), LEAST_MERIT) * lag / (lag + seen)))
    odds = 1.0 / (1.0 + pace_of(bank, expert) * lag)
    if lag > 0.0 and bank.shortfalls[expert] > least:
        lost = min(seen, RECENT) * (bank.shortfalls[expert] - least) * lag / (lag + seen)
        odds *= np.exp(max(-lost, LEAST_MERIT))
    return float(odds)


@inlined
def put_trust(bank: Bank, odds: Array) -> None:
    """Write the prior odds of all members."""
    least = least_shortfall(bank)
    for member in range(bank.merits.shape[0]):
        odds[member] = trust(bank, member, least)


@inlined
def pace(bank: Bank) -> float:
    """Return how much one unit of merit counts, as a logarithm of a weight."""
    peak = bank.counts[PEAK]
    return float(STEP / np.sqrt(peak)) if peak * FASTEST**2 > STEP**2 else FASTEST


@inlined
def put_weights(bank: Bank, odds: Array, weights: Array) -> None:
    """Write each member's share of the blend's log-odds: prior odds times the exponential of its merit."""
    eta, total = pace(bank), 0.0
    for member in range(bank.merits.shape[0]):
        weights[member] = odds[member] * np.exp(max(eta * bank.merits[member], LEAST_MERIT))
    for member in range(bank.merits.shape[0]):
        total += weights[member]
    for member in range(bank.merits.shape[0]):
        weights[member] /= total


@inlined
def blended(bank: Bank, memory: Array, weights: Array) -> float:
    """Return the log-odds of the blend whose members have these weights; those of a member are cut at LOGIT."""
    odds = 0.0
    for member in range(bank.merits.shape[0]):
        odds += weights[member] * bounded(issued_odds(bank, memory, member), LOGIT)
    return odds


@inlined
def confidence(bank: Bank, odds: float, work: Workspace) -> float:
    """Return what experts' log-odds of the row looked at last are multiplied by, given the blend's: 1 when lag is 0.

    Log-odds m that are uncertain by a variance v are moderated to m/√(1 + π v/8) (MacKay 1992). What is uncertain
    here is whether what was learned applies to the row at all. Its leverage p(1-p) xᵀPx on the second-order expert with
    the shortest memory measures how unlike the labelled rows it is; the variance alone would measure the rarity of the
    outcome.
    """
    lag, p = bank.counts[LAG], sigmoid(odds)
    doubt = p * (1.0 - p) * newton_variance(bank.newton, NEWTON - 1, work.context, work.sizes[2])
    return float(1.0 / np.sqrt(1.0 + DOUBT * doubt * lag / (lag + RECENT)))


@inlined
def hesitant(bank: Bank, memory: Array, weights: Array, work: Workspace) -> float:
    """Return the log-odds of the blend with its experts' moderated where labels come late."""
    odds, experts = blended(bank, memory, weights), 0.0
    if bank.counts[LAG] > 0.0:
        for member in range(FIRST_EXPERT, FIRST_EXPERT + EXPERTS):
            experts += weights[member] * memory[member]
        odds -= (1.0 - confidence(bank, odds, work)) * experts
    return odds


@inlined
def base_rate(bank: Bank) -> float:
    """Return the log-odds of the rate of the labels known and of one more, at what experts start from."""
    known, ones, rate = bank.counts[KNOWN], bank.counts[ONES], sigmoid(bank.counts[START])
    return float(np.log((ones + rate) / (known - ones + (1.0 - rate))))


@inlined
def forecast_row(bank: Bank, work: Workspace, given: Array, memory: Array, probabilities: Array) -> None:
    """Write the blend's and the experts' probabilities, and all that the row's label will be learned with."""
    list_inputs(work, given, bank.counts[START], memory)
    inputs, known = bank.weights.shape[1], bank.counts[KNOWN]
    put_trust(bank, work.trust)
    put_stacks(bank, memory, work.credit, work.trust)
    memory[inputs + ISSUED_BASE] = base_rate(bank)
    memory[inputs + ISSUED_KNOWN] = known
    put_weights(bank, work.trust, work.credit)
    # before the first label only the stack is used
    odds = hesitant(bank, memory, work.credit, work) if known > 0.0 else memory[inputs + ISSUED_STACK]
    p = sigmoid(odds)
    p += (bent(bank.curve, p) - p) / (1.0 + bank.counts[LAG])
    share = trusted_share(bank)
    if share > 0.0 and known > 0.0:
        p += share * (sigmoid(as_given(bank, memory)) - p)
    probabilities[0] = p
    for e in range(EXPERTS):
        probabilities[1 + e] = work.chances[e]


@inlined
def learn_linear(table: Single, work: Workspace, errors: Single) -> None:
    """Step the linear experts along their gradients."""
    for k in range(work.sizes[0]):
        s, a = work.slots[k], work.amounts[k]
        for e in range(LINEAR_SGD):
            table[s, e] += RATES[e] * errors[e] * a
        for e in range(LINEAR_SGD, LINEAR):
            gradient = errors[e] * a
            squares = table[s, LINEAR_ADA + e] + gradient * gradient
            table[s, LINEAR_ADA + e] = squares
            table[s, e] += RATES[e] * gradient / np.sqrt(squares)


@inlined
def step_paired(table: Single, s: int, a: float, errors: Single) -> None:
    """Step the experts that see pairs along the gradient of one feature of amount a."""
    for e in range(PAIR_SGD):
        table[s, e] += RATES[LINEAR + e] * errors[LINEAR + e] * a
    for e in range(PAIR_SGD, PAIRED):
        gradient = errors[LINEAR + e] * a
        squares = table[s, PAIR_ADA + e] + gradient * gradient
        table[s, PAIR_ADA + e] = squares
        table[s, e] += RATES[LINEAR + e] * gradient / np.sqrt(squares)


@inlined
def learn_paired(table: Single, work: Workspace, errors: Single) -> None:
    """Step the experts that see pairs along their gradients."""
    for k in range(work.sizes[0]):
        step_paired(table, work.pair_slots[k], work.pair_amounts[k], errors)
    amount = work.amount[0]
    for k in range(work.sizes[0], work.sizes[1]):
        step_paired(table, work.pair_slots[k], amount, errors)


@inlined
def surprise(m: float, y: float, weight: float, rate: float) -> float:
    """Return the sum of the errors of as many gradient steps as a label's weight > 1, on a row of unit norm."""
    steps = steps_of(weight)
    part, total = weight / steps, 0.0
    for _ in range(steps):
        total += part * (y - sigmoid(bounded(m + rate * total, np.float64(MARGIN))))
    return total


@inlined
def learn_bank(bank: Bank, work: Workspace, y: float, weight: float) -> None:
    """Update every expert with the label of the row looked at last; its margins become its errors."""
    learn_newton(bank.newton, bank.counts[START], work.context, work.sizes[2], y, weight, work.pull)
    for e in range(HASHED):
        if weight > 1.0 and not FALLING[e]:
            work.margins[e] = surprise(np.float64(work.margins[e]), y, weight, np.float64(RATES[e]))
        else:
            work.margins[e] = weight * (y - work.chances[e])
    learn_linear(bank.linear, work, work.margins)
    learn_paired(bank.paired, work, work.margins)


@inlined
def learn_stack(bank: Bank, stack: int, inputs: Array, y: float, share: float, work: Workspace) -> None:
    """One extended Kalman step of logistic regression with slowly forgotten labels, this one counting `share`.

    Forgetting stops while the covariance is large: in directions without data it must not grow without bound.
    """
    weights, covariance, gain = bank.weights[stack], bank.covariance[stack], work.gain
    n = weights.shape[0]
    centred = work.credit
    m = stacked(bank, stack, inputs, centred, work.trust)
    p = sigmoid(m)
    curvature = share * max(p * (1.0 - p), FLAT)
    spread, trace = 0.0, 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += covariance[i, j] * centred[j]
        gain[i] = total
        spread += total * centred[i]
        trace += covariance[i, i]
    step = share * (y - p) / (1.0 + curvature * spread)
    if share > 1.0:
        step, curvature = repeated(m, spread, y, share)
    shrink = curvature / (1.0 + curvature * spread)
    inflate = 1.0 / FORGET if trace < LOOSEST * n * PRIOR else 1.0
    for i in range(n):
        weights[i] += step * gain[i]
        for j in range(n):
            covariance[i, j] = inflate * (covariance[i, j] - shrink * gain[i] * gain[j])


@inlined
def log_likelihood(m: float, y: float) -> float:
    """Return y log p + (1 - y) log(1 - p) for log-odds m within ±LOGIT."""
    m = bounded(m, LOGIT)
    return float(y * m - np.log(1.0 + np.exp(m)))


@inlined
def learn_shortfalls(bank: Bank, memory: Array, y: float, weight: float, work: Workspace) -> None:
    """Compare the experts' margins of the row looked at last, and its scores, with the base rate, given a late label.

    The base rate is that of the labels before it.
    """
    known = bank.counts[KNOWN]
    if bank.counts[LAG] > 0.0 or memory[bank.weights.shape[1] + ISSUED_KNOWN] < known:
        base = log_likelihood(base_rate(bank), y)
        step = min(weight * max(2.0 / (known + 2.0), 1.0 / RECENT), 1.0)
        for e in range(EXPERTS):
            bank.shortfalls[e] += step * (base - log_likelihood(work.margins[e], y) - bank.shortfalls[e])
        for e in range(EXPERTS, bank.shortfalls.shape[0]):
            bank.shortfalls[e] += step * (base - log_likelihood(memory[FIRST_EXPERT + e], y) - bank.shortfalls[e])


@inlined
def learn_shares(bank: Bank, memory: Array, y: float, rate: float, rival: float) -> None:
    """Credit the stack that uses the scores, and these, with their likelihoods of a label relative to a rival's.

    The rival is the stack without scores, or a substitute for it, as log-odds. No share falls to 0, so that each can
    recover at any time.
    """
    inputs, unscored = bank.weights.shape[1], log_likelihood(rival, y)
    scored = log_likelihood(memory[inputs + ISSUED_SCORED], y) - unscored
    scored = bank.shares[SCORED] * np.exp(min(rate * scored, LARGEST_GAIN))
    given = bank.shares[GIVEN] * np.exp(
        min(rate * (log_likelihood(as_given(bank, memory), y) - unscored), LARGEST_GAIN)
    )
    total = scored + given + bank.shares[PLAIN]
    bank.shares[SCORED] = scored / total + SWITCHING * (1.0 / 3.0 - scored / total)
    bank.shares[GIVEN] = given / total + SWITCHING * (1.0 / 3.0 - given / total)
    bank.shares[PLAIN] = 1.0 - bank.shares[SCORED] - bank.shares[GIVEN]


@inlined
def learn_merits(bank: Bank, memory: Array, y: float, share: float, work: Workspace) -> None:
    """Credit every member with the gain that more of it would have given the blend on a label, and set the next rate.

    The credits are minus the gradient of the blend's log loss by the members' shares, so the comparison is with the
    best fixed pool, and so with the best member. The rate follows from Σ c (c + 2 b), with b the sum of the credits
    between the row's forecast and its label (adaptive revision, McMahan and Streeter 2014): surprises that come in runs
    are met about lag times before anything can be learned from them and slow the blend down. Those of opposite signs do
    not, but they count no less than surprises that come alone: the rate is STEP over the root of the largest sum over
    any stretch of labels, raised by Σ c² of the labels since. The sum itself can fall below 0, where noise alone would
    move the blend as fast as at first. The b of all rows are read from sums that fade over `lag` labels, so that no row
    keeps any.
    """
    lag, members = bank.counts[LAG], bank.merits.shape[0]
    keep, fade = 1.0 - 1.0 / (MEMORY + LAGS * lag), lag / (1.0 + lag)
    put_weights(bank, work.trust, work.credit)
    odds = blended(bank, memory, work.credit)
    error, alone, tension, best = share * (y - sigmoid(odds)), 0.0, 0.0, -np.inf
    for member in range(members):
        credit = error * (bounded(issued_odds(bank, memory, member), LOGIT) - odds)
        alone += work.credit[member] * credit * credit
        tension += work.credit[member] * credit * (credit + 2.0 * bank.runs[member])
    for member in range(members):
        credit = error * (bounded(issued_odds(bank, memory, member), LOGIT) - odds)
        bank.runs[member] = fade * (bank.runs[member] + credit)
        bank.merits[member] = keep * bank.merits[member] + credit
        best = max(best, bank.merits[member])
    for member in range(members):
        bank.merits[member] -= best
    learn_curve(bank.curve, bank.spread, sigmoid(odds), y, share, work.gain)
    bank.counts[TENSION] = max(keep * bank.counts[TENSION] + tension, 0.0)
    bank.counts[PEAK] = max(keep * bank.counts[PEAK] + alone, bank.counts[TENSION])
    if bank.weights.shape[0] > SCORED:
        rival = memory[bank.weights.shape[1] + ISSUED_PLAIN]
        learn_shares(bank, memory, y, share / (1.0 + lag) ** SURPRISE, rival)


@inlined
def learn_blend(bank: Bank, memory: Array, y: float, weight: float, work: Workspace) -> None:
    """Train stack and merits on the forecasts issued at the time, weighted by how informed they were.

    In a row issued before any label the experts forecast ½: learning the base rate from it as a correction of the
    experts would count it a second time once they have learned it. A label therefore counts by the share of today's
    labels that were known when its row was issued: 1 when nothing came between, 0 when the row was uninformed.

    A user's score does not learn, so any row measures it, informed or not: against the base rate, on rows where experts
    were uninformed.
    """
    known, then = bank.counts[KNOWN], memory[bank.weights.shape[1] + ISSUED_KNOWN]
    share = then / known if then < known else 1.0
    bank.counts[LAG] += (known - then - bank.counts[LAG]) * max(LAG_STEP, 1.0 / (known + 1.0))
    if share > 0.0:
        put_trust(bank, work.trust)
        put_centred(bank, memory, work.credit)
        for stack in range(bank.weights.shape[0]):
            learn_stack(bank, stack, memory, y, weight * share, work)
        learn_merits(bank, memory, y, weight * share, work)
    if share < INFORMED and bank.weights.shape[0] > SCORED:
        learn_shares(bank, memory, y, weight * (1.0 - share / INFORMED), base_rate(bank))
    if bank.weights.shape[0] > SCORED:
        bank.counts[TRUST] = min(bank.shares[GIVEN], bank.counts[TRUST] + RISE)
    bank.counts[KNOWN] += weight
    bank.counts[ONES] += weight * y


@jit
def run_experts(
    bank: Bank,
    keys: Keys,
    values: Array,
    X: Array,
    dims: Integers,
    view: View,
    given: Array,
    rows: Integers,
    labels: Array,
    weights: Array,
    memory: Array,
    probabilities: Array,
    work: Workspace,
) -> None:
    """Go through events in order: rows[k] is forecast where labels[k] is NaN, and learns its label elsewhere.

    keys, values (n, 3K) describe the rows, and so do the first dims (n,) coordinates of X (n, d); given (n, S) holds
    users' scores. Written are memory (n, 1+EXPERTS+S+ISSUED), the values issued, and probabilities (n, 1+EXPERTS).
    A label may come any time after its row's forecast; experts learn it with the features they saw. It counts
    weights[k] times, or weights[0] times where there is only one.
    """
    looked_at = -1
    for k in range(rows.shape[0]):
        row = rows[k]
        if row != looked_at:
            look(bank, keys[row], values[row], X[row], view, dims[row], work)
        if np.isnan(labels[k]):
            forecast_row(bank, work, given[row], memory[row], probabilities[row])
            looked_at = row
        else:
            weight = weights[k % weights.shape[0]]
            learn_shortfalls(bank, memory[row], labels[k], weight, work)
            learn_bank(bank, work, labels[k], weight)
            learn_blend(bank, memory[row], labels[k], weight, work)
            looked_at = -1


BESIDE = 7
"""Sums of `add_beside` for each user's score."""


@jit
def add_beside(sums: Array, memory: Array, tickets: Array, y: Array, weights: Array) -> None:
    """Add, for each user's score, 1, w e, w d, w² d², w, w² and w² d.

    w is the label's weight, e the score's squared error, and d the mean forecast's less e. sums (S, BESIDE); memory
    (n, ...) and tickets (n, TICKET) of the rows whose labels y (n,) are learned, in order. A label counts weights[k]
    times, or weights[0] times where there is only one.
    """
    for k in range(y.shape[0]):
        w = weights[k % weights.shape[0]]
        ours = (tickets[k, T_MEAN] - y[k]) ** 2
        for s in range(sums.shape[0]):
            theirs = (sigmoid(memory[k, 1 + EXPERTS + s]) - y[k]) ** 2
            change = ours - theirs
            sums[s, 0] += 1.0
            sums[s, 1] += w * theirs
            sums[s, 2] += w * change
            sums[s, 3] += w * w * change**2
            sums[s, 4] += w
            sums[s, 5] += w * w
            sums[s, 6] += w * w * change


@jit
def share_blend(bank: Bank, shares: Array) -> None:
    """Write each member's share of the blend's log-odds (2 + EXPERTS + scores,), as they are now.

    Scores also have their share as given, which is one of probabilities.
    """
    shares[:] = 0.0
    shares[STACK] = 1.0
    if bank.counts[KNOWN] > 0.0:
        put_trust(bank, shares)
        put_weights(bank, shares, shares)
        share = trusted_share(bank)
        for member in range(shares.shape[0]):
            shares[member] *= 1.0 - share
        for score in range(1 + EXPERTS, 1 + EXPERTS + bank.given[0]):
            shares[score] += share / bank.given[0]


@jit
def put_scores(probabilities: Array, weights: Array, X: Array) -> None:
    """Write probabilities, one per weight, behind the constant: the blend's as it is, others stabilised.

    The engine's prior is the blend itself, which a linear coordinate represents exactly.
    """
    for t in range(probabilities.shape[0]):
        X[t, 1] = weights[0] * (2.0 * probabilities[t, 0] - 1.0)
        for e in range(1, weights.shape[0]):
            X[t, 1 + e] = weights[e] * stabilised(probabilities[t, e])
