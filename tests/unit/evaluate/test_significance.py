from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from condenser.evaluate.significance import (
    difference_interval,
    holm,
    interval,
    mean_and_sd,
    minimal_detectable_difference,
    paired_tests,
    randomisation_test,
    summaries,
    variance,
    verdict,
)

ALPHA = 0.05
NINETY_FIVE = {"confidence": 1 - ALPHA, "ends": (0.0, 1.0)}
SETTINGS = {"ends": (0.0, 1.0), "confidence": 1 - ALPHA, "power": 0.8, "permutations": 400, "seed": 5}


def reciprocal_ranks(log_ranks):
    """MRR@10 of each query: mostly 0, 1/2, 1/3 ... or 1."""
    ranks = 1 + np.floor(np.exp(np.minimum(log_ranks, 10)))
    return np.where(ranks <= 10, 1 / ranks, 0.0)


def simulated(generator, difficulty, *, num_seeds, seed_sd, noise_sd, system_sd=0.0):
    """values[seed, query] of one system: `seed_sd` moves all queries of a seed together, `noise_sd` each
    query of a seed, `system_sd` each query of the system for all its seeds."""
    of_system = difficulty + system_sd * generator.normal(size=difficulty.shape)
    of_seeds = of_system + seed_sd * generator.normal(size=(num_seeds, 1))
    return reciprocal_ranks(of_seeds + noise_sd * generator.normal(size=(num_seeds, len(difficulty))))


def paired_test(first, second, *, num_permutations, seed):
    return paired_tests([(first, second)], num_permutations=num_permutations, seed=seed)[0]


def standard_error(first, second):
    found = variance(first.mean(axis=0) - second.mean(axis=0), [first, second])
    return math.sqrt(found.total), found.degrees_of_freedom


def test_mean_and_standard_deviation_are_of_the_seeds_means():
    assert mean_and_sd(np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])) == pytest.approx(
        (2 / 3, math.sqrt((1 / 36 + 4 / 36 + 1 / 36) / 2))
    )
    assert mean_and_sd(np.array([[0.0, 0.5]])) == pytest.approx((0.25, math.nan), nan_ok=True)


# --- randomisation over queries -----------------------------------------------------------------


@pytest.mark.parametrize(
    "differences",
    [
        [0.1, 0.25, -0.05, 0.5, 0.0, 1.0, 0.3],
        [0.1, 0.2, -0.3, 0.3, -0.1, 0.1, 0.2, 0.0],  # sums that tie up to rounding
        [1.0, -1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, -1.0, 1.0],
    ],
)
def test_few_queries_give_scipys_exact_p_value(differences):
    exact = stats.permutation_test(
        (np.array(differences), np.zeros(len(differences))),
        lambda first, second: (first - second).mean(),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    assert randomisation_test(np.array([differences]), num_permutations=2000, seed=1) == [
        pytest.approx(exact.pvalue, abs=1e-12)
    ]


def test_random_permutations_come_near_the_exact_p_value():
    differences = np.random.default_rng(3).normal(0.3, 1, size=(4, 14))
    exact = randomisation_test(differences, num_permutations=2**14, seed=1)
    drawn = randomisation_test(differences, num_permutations=2**14 - 1, seed=1)
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(0.25 / 2**14))


def test_many_queries_give_the_p_value_of_the_paired_t_test():
    first, second = np.random.default_rng(4).normal([[0.05], [0.0]], 1, size=(2, 1000))
    p_value = paired_test(first[None], second[None], num_permutations=20_000, seed=1)
    assert p_value == pytest.approx(stats.ttest_rel(first, second).pvalue, abs=0.01)


def test_the_measured_assignment_counts_among_the_random_ones():
    assert randomisation_test(np.full((1, 100), 0.1), num_permutations=50, seed=1) == [1 / 50]
    balanced = np.tile([0.1, -0.1], 50)[None]  # a mean of 0: every assignment is as extreme
    assert randomisation_test(balanced, num_permutations=50, seed=1) == [1]


def test_the_p_value_of_a_comparison_does_not_depend_on_the_others():
    differences = np.random.default_rng(5).normal(0.1, 1, size=(5, 90))
    differences[2, 4:] = 0
    together = randomisation_test(differences, num_permutations=500, seed=3)
    alone = [randomisation_test(row[None], num_permutations=500, seed=3)[0] for row in differences]
    assert together == alone


# --- seeds and queries as random effects --------------------------------------------------------


def test_without_seeds_the_standard_error_is_that_of_the_paired_t_test():
    first, second = np.random.default_rng(6).normal(size=(2, 12))
    error, degrees_of_freedom = standard_error(first[None], second[None])
    assert (first - second).mean() / error == pytest.approx(stats.ttest_rel(first, second).statistic)
    assert degrees_of_freedom == 11


def test_where_only_seeds_matter_the_test_is_students_for_two_samples():
    queries = np.linspace(0, 1, 30)
    of_first, of_second = np.array([0.1, 0.3, 0.25]), np.array([0.4, 0.35, 0.5, 0.55])
    p_value = paired_test(
        of_first[:, None] + queries, of_second[:, None] + queries, num_permutations=10, seed=1
    )
    assert p_value == pytest.approx(stats.ttest_ind(of_first, of_second).pvalue)


def test_standard_error_of_two_seeds_and_two_queries_by_hand():
    # Seed means 1, 3 and 4, 4; s² = (2 + 0) / 2 = 1; V_seed = 1 (1/2 + 1/2) = 1.
    # Means of the seeds (1, 3) and (6, 2); d = (-5, 1), variance 18; V_query = 9.
    # Residuals of the first system 0: r² from the second, ±1 in 4 cells over 2 degrees = 2; V_noise = 1.
    first = np.array([[0.0, 2.0], [2.0, 4.0]])
    second = np.array([[7.0, 1.0], [5.0, 3.0]])
    error, degrees_of_freedom = standard_error(first, second)
    assert error**2 == pytest.approx(1 + (9 - 1))
    assert degrees_of_freedom == pytest.approx(9**2 / (1**2 / 2 + 8**2 / 1))


def test_noise_of_seeds_above_the_variance_over_queries_leaves_that_of_the_seeds_alone():
    # Both queries have the mean 1.25 over seeds: V_query is 0, and V_query - V_noise below 0.
    first = np.array([[0.5, 2.5], [2.0, 0.0]])
    found = variance(first.mean(axis=0), [first])
    assert found.total == pytest.approx(first.mean(axis=1).var(ddof=1) / 2)
    assert found.degrees_of_freedom == pytest.approx(1)


def test_a_system_repeated_for_each_seed_counts_as_one_without_seeds():
    generator = np.random.default_rng(7)
    trained, untrained = generator.random((3, 50)), generator.random((1, 50))
    repeated = np.repeat(untrained, 3, axis=0)
    assert standard_error(trained, repeated) == pytest.approx(standard_error(trained, untrained))
    assert standard_error(repeated, generator.random((1, 50)))[1] == 49


# Beside each case, the share of false alarms in 20,000 simulations; its standard error is .0015.
@pytest.mark.parametrize(
    "case",
    [
        {"num_seeds": 1},  # .0508
        {"num_seeds": 3},  # .0481
        {"num_seeds": 3, "seed_sd": 0.2},  # .0510
        {"num_seeds": 3, "seed_sd": 0.1, "system_sd": 0.5},  # .0573
        {"num_seeds": 3, "seed_sd": 0.1, "noise_sd": 0.05},  # .0525
    ],
    ids=str,
)
def test_1000_comparisons_of_a_system_with_itself_give_4_to_6_percent_false_alarms(case):
    generator, false_alarms = np.random.default_rng(20), 0
    of_system = {"seed_sd": 0.0, "noise_sd": 0.5, **case}
    for simulation in range(1000):
        difficulty = generator.normal(1, 2, size=200)
        first, second = (simulated(generator, difficulty, **of_system) for _ in range(2))
        false_alarms += paired_test(first, second, num_permutations=1000, seed=simulation) <= ALPHA
    assert 40 <= false_alarms <= 60


# --- seeds that two systems share ---------------------------------------------------------------


def compared(first, second, **changed):
    return summaries({"first": first, "second": second}, [("first", "second")], **SETTINGS | changed)[1][
        "first", "second"
    ]


def test_where_only_paired_seeds_matter_the_test_is_students_for_pairs():
    queries = np.linspace(0, 1, 30)
    of_first, of_second = np.array([0.1, 0.3, 0.25, 0.2]), np.array([0.4, 0.5, 0.55, 0.35])
    comparison = compared(of_first[:, None] + queries, of_second[:, None] + queries, pair_seeds=True)
    students = stats.ttest_rel(of_first, of_second)
    assert comparison.p_value == pytest.approx(students.pvalue)
    assert comparison.difference == pytest.approx((of_first - of_second).mean())
    assert comparison.test == "t test over pairs of seeds and queries"


def test_a_seed_that_moves_both_systems_alike_is_no_uncertainty_of_their_difference():
    generator = np.random.default_rng(8)
    first, second = generator.random((2, 3, 50))
    moved = np.array([[0.0], [5.0], [-3.0]])
    alone, both = (compared(first + move, second + move, pair_seeds=True) for move in (0 * moved, moved))
    assert (both.p_value, both.low) == pytest.approx((alone.p_value, alone.low))
    assert compared(first + moved, second + moved).p_value > 0.9


def test_systems_with_other_numbers_of_seeds_are_not_paired():
    first, second = np.random.default_rng(9).random((2, 3, 50))
    for other in (second[:1], second[:2]):
        assert compared(first, other, pair_seeds=True) == compared(first, other)


# --- intervals ----------------------------------------------------------------------------------


def test_an_interval_is_students_of_the_queries_and_two_more():
    scores = reciprocal_ranks(np.random.default_rng(8).normal(1, 2, size=30))
    second = np.where(np.arange(30) < 24, scores, 0.5)
    size = math.sqrt((1 + ((scores - second) ** 2).sum()) / (1 + (scores != second).sum()))
    ours = [
        interval(scores[None], confidence=0.9, ends=(0.0, 1.0)),
        difference_interval(scores[None], second[None], confidence=0.9, ends=(0.0, 1.0)),
    ]
    for limits, with_more in zip(ours, ([*scores, 0, 1], [*(scores - second), -size, size]), strict=True):
        expected = stats.t.interval(0.9, 31, loc=np.mean(with_more), scale=stats.sem(with_more))
        assert limits == pytest.approx(expected)


def test_queries_without_variance_leave_room_for_what_they_do_not_show():
    # 22 values with the mean 0 and the sum of squares 2: 2.0796 sqrt(2 / 21 / 22) = .1368; t of 21 degrees.
    same = np.full((1, 20), 0.3)
    assert difference_interval(same, same, **NINETY_FIVE) == pytest.approx((-0.1368, 0.1368), abs=1e-4)
    # 21 / 22 - 2.0796 / 22 = .8600: the sum of squares is 21 / 22.
    assert interval(np.ones((1, 20)), **NINETY_FIVE) == (pytest.approx(0.86, abs=1e-4), 1.0)
    assert interval(np.array([[0.5]]), **NINETY_FIVE) == (0.0, 1.0)
    assert interval(np.full((3, 9), 2.0), confidence=0.95, ends=(2.0, 2.0)) == (2.0, 2.0)


@pytest.mark.parametrize("num_queries", [20, 50, 200])
def test_intervals_of_hits_cover_every_true_share_as_the_binomial_says(num_queries):
    hits = np.arange(num_queries + 1)
    limits = [
        interval((np.arange(num_queries) < number)[None].astype(float), **NINETY_FIVE) for number in hits
    ]
    low, high = np.array(limits).T
    assert (low <= hits / num_queries).all() and (hits / num_queries <= high).all()
    for share in np.linspace(0, 1, 201):
        covering = stats.binom.pmf(hits, num_queries, share)[(low <= share) & (share <= high)].sum()
        assert covering >= 0.93


def test_an_interval_lies_within_the_ends_and_holds_the_measured_mean():
    values = np.array([[0.0] * 40, [0.3] + [0.0] * 39, [0.9] * 40])  # seeds that differ more than queries
    for confidence in (0.5, 0.95, 0.999):
        low, high = interval(values, confidence=confidence, ends=(0.0, 1.0))
        assert 0.0 <= low < values.mean() < high <= 1.0
    low, high = interval(np.ones((1, 7)), confidence=0.5, ends=(0.0, 1.0))
    assert low < 1.0 == high


@pytest.mark.parametrize("num_queries", [20, 250])  # of 1,500 at 20, 50, 200 and 1,000: .945 to .991
def test_about_95_percent_of_intervals_of_a_difference_over_three_seeds_cover_it(num_queries):
    generator, covering = np.random.default_rng(22), 0
    for _ in range(1000):
        difficulty = generator.normal(1, 2, size=num_queries)
        first, second = (
            simulated(generator, difficulty, num_seeds=3, seed_sd=0.1, noise_sd=0.5, system_sd=0.5)
            for _ in range(2)
        )
        low, high = difference_interval(first, second, **NINETY_FIVE)
        covering += low <= 0 <= high
    assert covering / 1000 >= 0.93


def test_where_seeds_weigh_most_the_interval_is_students_of_their_means():
    of_seeds = np.array([0.3, 0.5, 0.4])
    values = of_seeds[:, None] + np.random.default_rng(9).normal(scale=1e-4, size=4000)
    low, high = interval(values, **NINETY_FIVE)
    half_width = stats.t.ppf(0.975, 2) * 0.1 / math.sqrt(3)
    assert (high - low) / 2 == pytest.approx(half_width, rel=0.02)


def test_a_small_difference_of_all_queries_is_one() -> None:
    first = np.random.default_rng(4).random((1, 20))
    assert paired_tests([(first + 1e-6, first)], num_permutations=999, seed=1) == [1 / 999]


# --- Holm, detectable difference ----------------------------------------------------------------


def test_holm_by_hand():
    # Sorted .005, .01, .03, .04: 4 * .005, 3 * .01, 2 * .03, then .04 raised to the one before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.5, 0.02]) == pytest.approx([1.0, 1.0, 0.06])
    assert holm([0.2]) == [0.2]
    assert holm([0.7, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_detectable_difference_of_many_queries_is_two_point_eight_standard_errors():
    differences = np.random.default_rng(23).normal(scale=0.4, size=6980)
    of_difference = variance(differences, [differences[None]])
    for comparisons, multiplier in ((1, 2.8016), (15, 2.9352 + 0.8416)):
        found = minimal_detectable_difference(of_difference, alpha=ALPHA / comparisons, power=0.8, seed=1)
        assert found == pytest.approx(multiplier * math.sqrt(of_difference.total), rel=0.01)


def test_detectable_difference_where_seeds_alone_matter_is_that_of_students_t_twice_over():
    """P(k S > t S' - Z) for S and S' of 4 degrees of freedom, by quantiles instead of random draws."""
    queries = np.linspace(0, 1, 30)
    systems = [np.array(means)[:, None] + queries for means in ([0.1, 0.3, 0.25], [0.4, 0.35, 0.5])]
    of_difference = variance(systems[0].mean(axis=0) - systems[1].mean(axis=0), systems)
    assert of_difference.degrees_of_freedom == pytest.approx(4)
    found = minimal_detectable_difference(of_difference, alpha=ALPHA / 15, power=0.8, seed=1)
    shares = (np.arange(200) + 0.5) / 200
    spread = np.sqrt(stats.chi2.ppf(shares, 4) / 4)
    limits = stats.t.ppf(1 - ALPHA / 30, 4) * spread
    multiplier = found / math.sqrt(of_difference.total)
    assert stats.norm.cdf(multiplier * spread[:, None] - limits).mean() == pytest.approx(0.8, abs=0.01)


def test_a_detectable_difference_is_one_that_the_measure_has_room_for():
    generator = np.random.default_rng(25)
    low, high = generator.random((1, 40)) < 0.3, generator.random((1, 40)) < 0.9
    assert 0.2 < compared(high * 1.0, low * 1.0).detectable_difference < 0.7
    assert math.isnan(compared(low * 1.0, high * 1.0).detectable_difference)
    same = compared(low * 1.0, low * 1.0)  # nothing differs: what more queries would show is not 0
    assert same.detectable_difference == pytest.approx(2.9 * math.sqrt(2 / 41 / 42), rel=0.02)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("num_seeds", "system_sd", "num_simulations"),
    [(1, 0.1, 100), (3, 0.1, 300), (3, 0.0, 300)],  # .79 in 300 simulations, .85 and .80 in 1,000
)
def test_four_of_five_tables_of_15_comparisons_show_the_difference_that_another_table_states(
    num_seeds, system_sd, num_simulations
):
    """The other table has other queries and seeds; the difference is the true one of one row, 0 of others."""
    generator = np.random.default_rng(12)
    of_system = {"scale": 0.1, "size": (num_seeds, 400)}
    detected = 0
    for _ in range(num_simulations):
        stated, *of_rows = (
            [
                generator.normal(scale=system_sd, size=400)
                + (num_seeds > 1) * generator.normal(scale=0.006, size=(num_seeds, 1))
                + generator.normal(**of_system)
                for _ in range(2)
            ]
            for _ in range(16)
        )
        difference = minimal_detectable_difference(
            variance(stated[0].mean(axis=0) - stated[1].mean(axis=0), stated),
            alpha=ALPHA / 15,
            power=0.8,
            seed=1,
        )
        of_rows[0][0] += difference
        p_values = paired_tests(of_rows, num_permutations=4000, seed=1)
        means = of_rows[0][0].mean() - of_rows[0][1].mean()
        detected += verdict(means, holm(p_values)[0], alpha=ALPHA) == "better"
    assert abs(detected / num_simulations - 0.8) <= 4 * math.sqrt(0.8 * 0.2 / num_simulations)


# --- the table ----------------------------------------------------------------------------------


def small_table(num_queries=60):
    generator = np.random.default_rng(13)
    difficulty = generator.normal(1, 2, size=num_queries)
    systems = {
        "bm25": (1, 0.0, 0.8),
        "backbone": (1, 0.0, 0.5),
        "condenser": (3, 0.2, 0.0),
        "cocondenser": (2, 0.2, -1.0),
    }
    table = {
        name: simulated(generator, difficulty + harder, num_seeds=num_seeds, seed_sd=seed_sd, noise_sd=0.5)
        for name, (num_seeds, seed_sd, harder) in systems.items()
    }
    return table | {"itself": table["bm25"].copy()}


AGAINST_BM25 = [(name, "bm25") for name in ("backbone", "condenser", "cocondenser", "itself")]
PAIRS = [*AGAINST_BM25, ("condenser", "backbone"), ("cocondenser", "backbone")]


def test_each_number_of_the_table_is_that_of_the_system_or_pair_alone():
    systems = small_table()
    cells, comparisons = summaries(systems, PAIRS, **SETTINGS)
    assert list(cells) == list(systems) and list(comparisons) == PAIRS
    permutations = {"num_permutations": 400, "seed": 5}
    p_values = [paired_test(systems[one], systems[other], **permutations) for one, other in PAIRS]
    assert [one.p_value for one in comparisons.values()] == p_values
    assert [one.holm_p_value for one in comparisons.values()] == holm(p_values)
    alone = compared(systems["condenser"], systems["bm25"], confidence=1 - ALPHA / len(PAIRS))
    detectable = pytest.approx(alone.detectable_difference, rel=1e-3)
    assert comparisons["condenser", "bm25"].detectable_difference == detectable
    for name, cell in cells.items():
        assert cell.mean == mean_and_sd(systems[name])[0]
        assert (cell.low, cell.high) == interval(systems[name], **NINETY_FIVE)
        assert cell.low < cell.mean < cell.high
    for (one, other), comparison in comparisons.items():
        first, second = systems[one], systems[other]
        assert comparison.difference == pytest.approx(first.mean() - second.mean(), abs=1e-15)
        assert (comparison.low, comparison.high) == difference_interval(first, second, **NINETY_FIVE)
        over_seeds = bool({one, other} & {"condenser", "cocondenser"})
        assert comparison.test == f"{'t test over seeds and' if over_seeds else 'randomisation over'} queries"
        assert comparison.verdict == verdict(comparison.difference, comparison.holm_p_value, alpha=ALPHA)
    assert comparisons["cocondenser", "bm25"].verdict == "better"
    assert comparisons["itself", "bm25"].p_value == 1


@pytest.mark.parametrize(
    ("difference", "p_value", "expected"),
    [
        (0.1, ALPHA, "better"),
        (-0.1, ALPHA, "worse"),
        (0.1, 0.0501, "no difference shown"),
        (0.1, math.nan, "no difference shown"),
    ],
)
def test_a_verdict_needs_a_p_value_of_at_most_the_level(difference, p_value, expected):
    assert verdict(difference, p_value, alpha=ALPHA) == expected


def test_a_system_repeated_for_each_seed_against_itself_has_p_1():
    values = np.random.default_rng(14).random((1, 40))
    repeated = np.repeat(values, 3, axis=0)  # their mean differs from them in the last digits
    assert (repeated.mean(axis=0) != values[0]).any()
    assert paired_test(repeated, values, num_permutations=100, seed=1) == 1.0


@pytest.mark.parametrize("seeds", [(1, 1), (1, 3)])
def test_one_query_shows_no_difference(seeds):
    first, second = (np.full((num_seeds, 1), 0.5) for num_seeds in seeds)
    first = first - 0.1 * np.arange(len(first))[:, None]
    assert paired_test(first, second, num_permutations=100, seed=1) == 1.0
    assert all(math.isnan(number) for number in standard_error(first, second))
    pair = ("first", "second")
    cells, comparisons = summaries({"first": first, "second": second}, [pair], **SETTINGS)
    assert cells["first"].mean == first.mean()
    assert (cells["first"].low, cells["first"].high) == (0.0, 1.0)
    assert (comparisons[pair].low, comparisons[pair].high) == (-1.0, 1.0)
    assert math.isnan(comparisons[pair].detectable_difference)
    assert comparisons[pair].verdict == "no difference shown"


def test_seeds_whose_means_agree_by_chance_give_the_p_value_over_queries():
    first = np.array([[0.0, 1.0, 0.5, 0.25], [1.0, 0.0, 0.25, 0.5]])
    second = np.array([[0.0, 0.0, 0.25, 0.0], [0.25, 0.0, 0.0, 0.0]])
    assert paired_test(first, second, num_permutations=100, seed=1) == 2 / 2**4
