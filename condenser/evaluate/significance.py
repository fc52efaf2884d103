"""The uncertainty of a measured mean, and of the difference of two.

`values[seed, query]` holds one measure of one system: a row for each seed, the queries in one order
for all systems. A system that is not trained, such as BM25, has one row.

The claims depend on the seeds. With several seeds the numbers speak of the method: of models trained
with other seeds, measured on other queries. With one seed they speak of that one model on other
queries: two models of the same method may then differ significantly.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float64
from scipy.special import ndtr, stdtr, stdtrit  # scipy.stats takes half a second to import

Values = Float64[np.ndarray, "seed query"]
Name = TypeVar("Name", bound=Hashable)

_DRAWS_AT_ONCE = 128  # bounds the memory, changes no result
_PERMUTATIONS, _REPETITIONS = 1, 2  # streams of random numbers
_NUM_REPETITIONS = 4000  # then a detectable difference is right to about a hundredth of itself


@dataclass(frozen=True, slots=True)
class Cell:
    """What a table shows of one system: the mean and its `interval`; NaN where nothing is judged."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One system compared with another; NaN where a number is not defined.

    `low` and `high` bound the interval of the difference of the means (`difference_interval`), not corrected
    for the number of comparisons. `test` says which test of `paired_tests` gave the p-value, and over what.
    `verdict` is "better" or "worse" where `holm_p_value` is at most alpha, else "no difference shown".
    `detectable_difference` has the level alpha divided by the number of comparisons, Holm's first and
    strictest: whoever passes it has the verdict, whatever the other comparisons say. Its variance is that of
    the interval; it is NaN where the measure has no room for such a gain over the second system.
    """

    difference: float
    low: float
    high: float
    p_value: float
    holm_p_value: float
    verdict: str
    detectable_difference: float
    test: str


def summaries(
    systems: Mapping[Name, Values],
    pairs: Iterable[tuple[Name, Name]],
    *,
    ends: tuple[float, float],
    confidence: float,
    power: float,
    permutations: int,
    seed: int,
    pair_seeds: bool = False,
) -> tuple[dict[Name, Cell], dict[tuple[Name, Name], Comparison]]:
    """Means and intervals of all systems of a table, and comparisons of pairs, the reference second.

    Each number is the same for that system or pair alone, but for Holm's correction, which is over the
    comparisons of this call.

    Args:
        ends: the least and the largest value of the measure.
        confidence: that intervals cover; tests have the level alpha = 1 - confidence.
        seed: of the permutations; no seed of a training.
        pair_seeds: row s of two systems with as many seeds is of the same seed, with the same draws in both.
            Then their difference is taken seed by seed, and its variance over seeds is that of these
            differences, with S - 1 degrees of freedom: less, if a seed moves both systems alike.
    """
    alpha, pairs = round(1 - confidence, 12), list(pairs)  # 1 - 0.95 is 0.050000000000000044
    of_pairs = [(systems[first], systems[second]) for first, second in pairs]
    are_paired = [pair_seeds and len(first) == len(second) > 1 for first, second in of_pairs]
    of_pairs = [
        _paired_by_seed(*values) if is_paired else values
        for values, is_paired in zip(of_pairs, are_paired, strict=True)
    ]
    differences = [_differences(first, second) for first, second in of_pairs]
    cells = {
        name: Cell(mean_and_sd(values)[0], *interval(values, confidence=confidence, ends=ends))
        for name, values in systems.items()
    }
    p_values = paired_tests(of_pairs, num_permutations=permutations, seed=seed)
    comparisons: dict[tuple[Name, Name], Comparison] = {}
    for pair, values, is_paired, of_queries, p_value, holm_p_value in zip(
        *(pairs, of_pairs, are_paired, differences, p_values, holm(p_values)), strict=True
    ):
        difference = float(of_queries.mean())
        detectable = minimal_detectable_difference(
            variance(np.append(of_queries, _two_more(of_queries, ends[1] - ends[0])), values),
            alpha=alpha / len(pairs),
            power=power,
            seed=seed,
        )
        room = ends[1] - float(systems[pair[1]].mean())
        comparisons[pair] = Comparison(
            difference,
            *difference_interval(*values, confidence=confidence, ends=ends),
            p_value,
            holm_p_value,
            verdict(difference, holm_p_value, alpha=alpha),
            detectable if detectable <= room else math.nan,
            _test_of(variance(of_queries, values), is_paired=is_paired),
        )
    return cells, comparisons


def _paired_by_seed(first: Values, second: Values) -> tuple[Values, Values]:
    """The difference of each seed, and 0 as the system that it is compared with.

    Source: Hillis 2007 (see `paired_tests`), in the form where each reader reads for both systems.
    """
    return first - second, np.zeros_like(second[:1])


def _test_of(of_difference: Variance, *, is_paired: bool) -> str:
    if not of_difference.seeds_differ:
        return "randomisation over queries"
    return f"t test over {'pairs of ' if is_paired else ''}seeds and queries"


def verdict(difference: float, p_value: float, *, alpha: float) -> str:
    """What a test of level alpha says of a difference, in words.

    >>> verdict(0.02, 0.01, alpha=0.05), verdict(0.02, 0.06, alpha=0.05)
    ('better', 'no difference shown')
    """
    if not p_value <= alpha:
        return "no difference shown"
    return "better" if difference > 0 else "worse"


def mean_and_sd(values: Values) -> tuple[float, float]:
    """Mean over seeds and queries; sample standard deviation of the seeds' means, NaN for one seed."""
    seed_means = values.mean(axis=1)
    sd = float(seed_means.std(ddof=1)) if len(seed_means) > 1 else math.nan
    return float(seed_means.mean()), sd


def interval(values: Values, *, confidence: float, ends: tuple[float, float]) -> tuple[float, float]:
    """Limits that enclose the true mean with this confidence: Student's t with two more queries.

    One of the two scores the least and one the largest value of the measure, its `ends`. With s_q the mean
    score of query q over the seeds, Q queries, and V and df as in `variance` of all Q + 2 scores:

        (sum of s_q + sum of ends) / (Q + 2)  +-  t(df) sqrt(V)

    The limits are moved so that they enclose the measured mean and lie within `ends`. Without the two
    queries, queries that all score the same would give an interval of no width.

    Coverage: docs/studies/intervals, also of Student's t alone and of the bootstrap (BCa). Of scores of 0 and
    1 it is at least 93 % for each true share and any number of queries from 20 on.

    Source: Agresti and Coull, Approximate is better than "exact" for interval estimation of binomial
    proportions, The American Statistician 1998. They add four observations; two, other scores than 0 and 1,
    Student's t and seeds are ours.
    """
    scores, alpha = values.mean(axis=0), round(1 - confidence, 12)
    return _interval(scores, ends, [values], alpha=alpha, ends=ends)


def difference_interval(
    first: Values, second: Values, *, confidence: float, ends: tuple[float, float]
) -> tuple[float, float]:
    """As `interval`, of the mean difference of two systems; `ends` are those of the measure.

    The two more queries differ by as much as a query does, one for each system (`_two_more`): 50 queries that
    all score the same give -.055 and .055 where the ends are 0 and 1.

    Source: Agresti and Min, Simple improved confidence intervals for comparing matched proportions,
    Statistics in Medicine 2005. They add two observations to four cells; the size of the two is ours.
    """
    differences, span = _differences(first, second), ends[1] - ends[0]
    more, alpha = _two_more(differences, span), round(1 - confidence, 12)
    return _interval(differences, more, [first, second], alpha=alpha, ends=(-span, span))


def _interval(
    scores: Float64[np.ndarray, " query"],
    more: tuple[float, float],
    systems: Sequence[Values],
    *,
    alpha: float,
    ends: tuple[float, float],
) -> tuple[float, float]:
    """Limits of a mean of `scores` by these and two more; `systems` are the one or two that it is of."""
    with_more, mean = np.append(scores, more), float(scores.mean())
    of_mean = variance(with_more, systems)
    center = float(with_more.mean())
    half_width = float(stdtrit(of_mean.degrees_of_freedom, 1 - alpha / 2)) * math.sqrt(of_mean.total)
    low, high = min(center - half_width, mean), max(center + half_width, mean)
    return max(low, ends[0]), min(high, ends[1])


def _two_more(differences: Float64[np.ndarray, " query"], span: float) -> tuple[float, float]:
    """Minus and plus the root mean square of the differences that are not 0, and of one as large as can be.

    Where many queries differ by little, differences of 1 would widen the interval for nothing; where few do,
    they say little of those that other queries would show.
    """
    size = math.sqrt((span**2 + float((differences**2).sum())) / (1 + np.count_nonzero(differences)))
    return -size, size


def paired_tests(pairs: Sequence[tuple[Values, Values]], *, num_permutations: int, seed: int) -> list[float]:
    """Two-sided p-values of the hypotheses that two systems have the same expected score, one for each pair.

    The permutations are drawn once for all.

    Where seeds do not differ (one seed each), this is `randomisation_test` over the queries. It says
    nothing about other seeds: of two simulated models of one method, with a standard deviation over
    seeds of .02 and 200 queries, 34 % differed significantly, as they should: they are two models.

    Where seeds differ, seeds and queries are both random effects, and the mean difference over the root of
    its `variance` is held to Student's t. Randomisation does not do here. Swapping two systems query by
    query ignores that a seed moves the scores of all queries together: with three seeds, a standard
    deviation over seeds of .009 and 3,000 queries, it called 36 % of A/A comparisons significant.
    Swapping whole seeds cannot reach .05, because three against three have ten splits.

    A/A comparisons called significant at .05, in 20,000 simulations of MRR@10 each, 43 to 500 queries:
    4.8 to 5.1 % for one seed, 4.8 to 5.9 % for three. Two seeds gave 7.3 %, and three against one 16 %: train
    three. The p-value can be smaller than that over queries alone, where the seeds happen to agree.

    Source: Hillis, A comparison of denominator degrees of freedom methods for multiple observer ROC
    analysis, Statistics in Medicine 2007 (his readers are our seeds, his cases our queries), in the
    form where each reader reads for one system.
    """
    differences = [_differences(first, second) for first, second in pairs]
    p_values = [math.nan] * len(pairs)
    over_queries: list[int] = []
    for index, (pair, of_pair) in enumerate(zip(pairs, differences, strict=True)):
        of_difference = variance(of_pair, pair)
        if of_difference.seeds_differ:
            t = float(of_pair.mean()) / math.sqrt(of_difference.total)
            p_values[index] = float(2 * stdtr(of_difference.degrees_of_freedom, -abs(t)))
        else:
            over_queries.append(index)
    if over_queries:
        of_tests = randomisation_test(
            np.stack([differences[index] for index in over_queries]),
            num_permutations=num_permutations,
            seed=seed,
        )
        for index, p_value in zip(over_queries, of_tests, strict=True):
            p_values[index] = p_value
    return p_values


def randomisation_test(
    differences: Float64[np.ndarray, "comparison query"], *, num_permutations: int, seed: int
) -> list[float]:
    """Two-sided p-values of Fisher's paired randomisation test, one for each row of differences.

    If two systems are interchangeable, each query's difference is as likely to have the other sign.
    The p-value is the share of sign assignments whose mean is at least as far from 0 as the one
    measured: of all assignments where these are at most `num_permutations`, otherwise of as many
    random ones, with the one measured among them so that the level holds exactly.

    Source: Smucker, Allan and Carterette, CIKM 2007.
    """
    totals = differences.sum(axis=1)
    # Sums of the same numbers in another order differ in the last digits: they count as equal.
    thresholds = np.abs(totals) - 1e-12 * np.abs(differences).sum(axis=1)

    def num_as_extreme(flips: np.ndarray, rows: list[int]) -> np.ndarray:
        flipped = totals[rows] - 2 * (flips.astype(np.float64) @ differences[rows].T)
        return (np.abs(flipped) >= thresholds[rows]).sum(axis=0)

    p_values = [math.nan] * len(differences)
    sampled: list[int] = []
    for row, of_row in enumerate(differences):
        (changed,) = np.nonzero(of_row)  # the sign of 0 changes nothing
        if 2 ** len(changed) > num_permutations:
            sampled.append(row)
            continue
        count = 0
        for first in range(0, 2 ** len(changed), _DRAWS_AT_ONCE):
            assignments = np.arange(first, min(first + _DRAWS_AT_ONCE, 2 ** len(changed)))
            flips = np.zeros((len(assignments), len(of_row)), dtype=bool)
            flips[:, changed] = assignments[:, None] >> np.arange(len(changed)) & 1
            count += int(num_as_extreme(flips, [row])[0])
        p_values[row] = count / 2 ** len(changed)
    if sampled:
        counts = np.ones(len(sampled), dtype=np.int64)  # the assignment measured
        for flips in _sign_flips(differences.shape[1], num_permutations - 1, seed=seed):
            counts += num_as_extreme(flips, sampled)
        for row, count in zip(sampled, counts.tolist(), strict=True):
            p_values[row] = count / num_permutations
    return p_values


@dataclass(frozen=True, slots=True)
class Variance:
    """Of a mean or a difference of means: of seeds, and of queries without the noise of seeds."""

    of_seeds: float  # 0 where seeds do not differ
    of_systems: float  # over queries, without the noise of seeds
    seed_degrees: int
    query_degrees: int

    @property
    def total(self) -> float:
        return self.of_seeds + self.of_systems

    @property
    def seeds_differ(self) -> bool:
        return self.of_seeds > 0

    @property
    def degrees_of_freedom(self) -> float:
        if not self.seeds_differ:
            return self.query_degrees or math.nan
        return float(
            _degrees_of_freedom(self.of_seeds, self.of_systems, self.seed_degrees, self.query_degrees)
        )


def _degrees_of_freedom(of_seeds: Any, of_systems: Any, seed_degrees: int, query_degrees: int) -> Any:
    """Degrees of freedom of the sum of two variances; source: Satterthwaite, Biometrics 1946."""
    return (of_seeds + of_systems) ** 2 / (of_seeds**2 / seed_degrees + of_systems**2 / query_degrees)


def variance(per_query: Float64[np.ndarray, " query"], systems: Sequence[Values]) -> Variance:
    """The variance of a mean, or of the difference of two, and its degrees of freedom; NaN for one query.

    `per_query` is what the mean is taken of, `systems` the one or two that it is of.

    Of two systems, with d_q the difference of their means over seeds for query q, S_a and S_b seeds, Q
    queries:

        V = V_seed + max(V_query - V_noise, 0)
        V_seed  = s^2 (1/S_a + 1/S_b)           s^2: pooled variance of the seeds' means
        V_query = var(d_q) / Q
        V_noise = r^2 (1/S_a + 1/S_b) / Q       r^2: pooled mean square of seed by query
        df = V^2 / (V_seed^2 / (S_a + S_b - 2) + (V - V_seed)^2 / (Q - 1))

    V_seed contains the noise of seed by query already, hence the subtraction. A system whose seeds do
    not differ adds no term 1/S and no degree of freedom. Where no seeds differ, V = V_query, df = Q - 1.

    s^2 is pooled because three seeds do not suffice for a variance of each system: with separate ones,
    as in Welch's test, A/A comparisons give 3.5 % false alarms where seeds dominate. The price, in
    simulations with normal scores: if one system varies twice as much over its seeds (standard
    deviation) as the other, up to 6.8 %; three seeds against a system without any, up to 8 % where
    V_seed is ten times the rest, 5 % where it is at most half of the rest.

    Source: Hillis 2007 (see `paired_tests`); (Q - 1) is ours, for small test sets.
    """
    num_queries = len(per_query)
    if num_queries == 1:
        return Variance(0.0, math.nan, 0, 0)
    of_queries = float(per_query.var(ddof=1)) / num_queries
    replicated = [values for values in systems if (values != values[0]).any()]
    degrees_of_freedom = sum(len(values) - 1 for values in replicated)
    inverse_seeds = sum(1 / len(values) for values in replicated)
    between_seeds = within_seeds = 0.0
    for values in replicated:
        residuals = values - values.mean(axis=0)
        seed_effects = residuals.mean(axis=1, keepdims=True)
        between_seeds += float((seed_effects**2).sum()) / degrees_of_freedom
        within_seeds += float(((residuals - seed_effects) ** 2).sum()) / degrees_of_freedom
    of_seeds = between_seeds * inverse_seeds
    # Means that agree to the last digits do not differ.
    if of_seeds <= 1e-12 * of_queries:
        return Variance(0.0, of_queries, 0, num_queries - 1)
    of_noise = within_seeds * inverse_seeds / (num_queries * (num_queries - 1))
    of_systems = max(of_queries - of_noise, 0.0)
    return Variance(of_seeds, of_systems, degrees_of_freedom, num_queries - 1)


def minimal_detectable_difference(of_difference: Variance, *, alpha: float, power: float, seed: int) -> float:
    """Smallest true difference that a two-sided test of level alpha finds with probability `power`.

    NaN where nothing varies: then nothing tells how large the noise is.

    The test is repeated on other queries and with other seeds: both parts of the variance are estimates, here
    and there, each a chi-squared variable over its degrees of freedom. With R the variance that a repetition
    estimates, df its degrees of freedom and V the true one, the difference d solves

        E[Phi((d - t_{1 - alpha/2, df} sqrt(R)) / sqrt(V))] = power

    over random draws of V, given the estimates, and of R, given V. For many queries without differing seeds
    it is (t_{1 - alpha/2} + t_{power}) times the standard error: 2.80 times, for alpha .05 and power .8.
    Where seeds weigh most, three against three take 4.7 times, because the estimate itself varies so much.

    Simulated tables showed the stated difference in 79 % of repetitions with one seed, in 80 to 85 % with
    three. With three seeds it is an order of magnitude: nine of ten tables stated figures within a factor of
    2.6 to 3.7 of each other (one seed: 1.1). At the level alpha / 15 it is 1.35 times that of alpha with one
    seed, up to 2.1 times with three.

    Source: Bloom, Minimum detectable effects, Evaluation Review 1995, who takes V as known.
    """
    if not of_difference.total > 1e-24:  # values that agree to the last digits
        return math.nan
    generator = np.random.default_rng((seed, _REPETITIONS))
    degrees = max(of_difference.seed_degrees, 1), of_difference.query_degrees
    drawn = np.array([generator.chisquare(number, size=(2, _NUM_REPETITIONS)) / number for number in degrees])
    true = np.array([[of_difference.of_seeds], [of_difference.of_systems]]) / drawn[:, 0]
    again = true * drawn[:, 1]
    limits = stdtrit(_degrees_of_freedom(again[0], again[1], *degrees), 1 - alpha / 2) * np.sqrt(
        again.sum(axis=0)
    )
    true_error = np.sqrt(true.sum(axis=0))

    def share_found(difference: float) -> float:
        return float(ndtr((difference - limits) / true_error).mean())

    low, high = 0.0, math.sqrt(of_difference.total)
    while share_found(high) < power:
        low, high = high, 2 * high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if share_found(middle) < power else (low, middle)
    return high


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for all comparisons of the list, by Holm's step-down procedure.

    Comparisons whose adjusted p-value is at most alpha can be called significant together: the
    probability of one false alarm or more among them is at most alpha, however they depend on each
    other.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 1979.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for num_smaller, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min((len(p_values) - num_smaller) * p_values[index], 1.0))
        adjusted[index] = largest
    return adjusted


def _sign_flips(num_queries: int, num_draws: int, *, seed: int) -> Iterator[np.ndarray]:
    """Fair bits [draw, query], for all draws in turn."""
    generator = np.random.default_rng((seed, _PERMUTATIONS))
    num_words = -(-num_queries // 64)
    for first in range(0, num_draws, _DRAWS_AT_ONCE):
        size = (min(_DRAWS_AT_ONCE, num_draws - first), num_words)
        words = generator.integers(2**64, size=size, dtype=np.uint64)
        yield np.unpackbits(words.view(np.uint8), axis=1, count=num_queries)


def _differences(first: Values, second: Values) -> Float64[np.ndarray, " query"]:
    """Per-query differences of the means over seeds; 0 where these agree to the last digits."""
    differences = first.mean(axis=0) - second.mean(axis=0)
    return np.where(np.abs(differences) <= 1e-12, 0.0, differences)
