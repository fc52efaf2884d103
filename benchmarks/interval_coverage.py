"""Measure how often the 95 % intervals of a table hold the truth, on real scores of queries.

    python benchmarks/interval_coverage.py results/*/systems/*/*/metrics.{train,dev}.json \\
        --measures MRR@10 nDCG@10 R@100 hits@20 --queries 20 50 100 200 1000 --draws 1000 --seed 1 \\
        --output docs/studies/intervals/coverage.tsv

The judged queries of a collection stand for all queries. A draw takes some of them, with repeats, and asks if
the interval of their mean holds the mean of all: for each system, and for the difference of each two systems
of a collection. Several seeds: tests/unit/evaluate/test_significance.py simulates them.

Beside the workflow's interval are Student's t without its two queries, and the bootstrap that it replaced
(BCa: Efron, Better bootstrap confidence intervals, JASA 1987; 1,000 resamples). Columns:

- `holds`, `holds_least`: share of draws whose interval holds the truth: the mean over the systems or pairs,
  and the smallest
- `width`: mean
- `zero_outside`, `zero_inside`: share of draws of a difference whose interval contradicts the randomisation
  test: it leaves out 0 and p is above .05, or it holds 0 and p is at most .05
"""

from __future__ import annotations

import argparse
import math
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, stdtrit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from condenser.evaluate.significance import difference_interval, interval
from condenser.files import read_json

CONFIDENCE, LEVEL = 0.95, 0.05
RESAMPLES = PERMUTATIONS = 1000
NAMES = ("ours", "student", "bca")
Limits = tuple[np.ndarray, np.ndarray]  # low and high of each draw


def main() -> None:
    """Write a line for each collection, measure, kind of mean and number of queries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("metrics", type=Path, nargs="+", help="metrics.<split>.json of systems")
    parser.add_argument("--measures", nargs="+", required=True)
    parser.add_argument("--queries", type=int, nargs="+", required=True)
    parser.add_argument("--draws", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    lines = [
        measure_coverage(cases, num_queries, of == "difference", num_draws=args.draws, seed=args.seed)
        | {"collection": collection, "measure": measure, "of": of}
        for (collection, measure), systems in read_scores(args.metrics, args.measures).items()
        for of, cases in (
            ("value", [*systems.values()]),
            ("difference", [one - other for one, other in combinations(systems.values(), 2)]),
        )
        for num_queries in args.queries
    ]
    figures = ("holds", "holds_least", "width", "zero_outside", "zero_inside")
    columns = ["collection", "measure", "of", "queries", "cases"]
    columns += [f"{name}_{figure}" for name in NAMES for figure in figures]
    pd.DataFrame(lines)[columns].to_csv(args.output, sep="\t", index=False, float_format="%.4f")


def read_scores(files: list[Path], measures: list[str]) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """The scores of all judged queries, by collection and measure, then by system."""
    scores: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for file in files:
        collection, system = file.parts[-5], file.parts[-3]
        per_query = read_json(file)["per_query"]
        for measure in measures:
            if measure in per_query:
                of_system = np.array(per_query[measure], dtype=np.float64)
                scores.setdefault((collection, measure), {})[system] = of_system
    return scores


def measure_coverage(
    cases: list[np.ndarray], num_queries: int, are_differences: bool, *, num_draws: int, seed: int
) -> dict[str, float]:
    """The figures of one line; `cases` are the scores, or differences, of all queries."""
    generator = np.random.default_rng((seed, num_queries))
    resamples = (
        generator.multinomial(num_queries, np.full(num_queries, 1 / num_queries), size=RESAMPLES) * 1.0
    )
    signs = generator.choice([-1.0, 1.0], size=(PERMUTATIONS - 1, num_queries))
    figures: list[dict[str, float]] = []
    for scores in cases:
        scores = np.where(np.abs(scores) <= 1e-12, 0.0, scores)
        drawn = generator.choice(scores, size=(num_queries, num_draws))
        limits = dict(
            zip(NAMES, (ours(drawn, are_differences), student(drawn), bca(drawn, resamples)), strict=True)
        )
        figure = {}
        for name, (low, high) in limits.items():
            figure[f"{name}_holds"] = (
                (low <= scores.mean() + 1e-12) & (high >= scores.mean() - 1e-12)
            ).mean()
            figure[f"{name}_width"] = (high - low).mean()
            if are_differences:
                totals = np.abs(drawn.sum(axis=0)) - 1e-9
                is_shown = (1 + (np.abs(signs @ drawn) >= totals).sum(axis=0)) / PERMUTATIONS <= LEVEL
                is_outside = (low > 0) | (high < 0)
                figure[f"{name}_zero_outside"] = (is_outside & ~is_shown).mean()
                figure[f"{name}_zero_inside"] = (~is_outside & is_shown).mean()
        figures.append(figure)
    return summarised(pd.DataFrame(figures), num_queries)


def summarised(figures: pd.DataFrame, num_queries: int) -> dict[str, float]:
    """Means over the cases, and the least coverage of each interval."""
    line = {"queries": num_queries, "cases": len(figures)}
    for name in figures:
        line[name] = figures[name].mean()
        if name.endswith("holds"):
            line[f"{name}_least"] = figures[name].min()
    return line


def ours(drawn: np.ndarray, are_differences: bool) -> Limits:
    """The workflow's."""
    measured, second = (
        (difference_interval, [np.zeros((1, len(drawn)))]) if are_differences else (interval, [])
    )
    limits = [measured(one[None], *second, confidence=CONFIDENCE, ends=(0.0, 1.0)) for one in drawn.T]
    low, high = np.array(limits).T
    return low, high


def student(drawn: np.ndarray) -> Limits:
    """Mean and t standard errors."""
    half = stdtrit(len(drawn) - 1, (1 + CONFIDENCE) / 2) * drawn.std(axis=0, ddof=1) / math.sqrt(len(drawn))
    return drawn.mean(axis=0) - half, drawn.mean(axis=0) + half


def bca(drawn: np.ndarray, resamples: np.ndarray) -> Limits:
    """Quantiles of resampled means, corrected for bias and skewness; no width where scores are equal."""
    means, mean = np.sort(resamples @ drawn / len(drawn), axis=0), drawn.mean(axis=0)
    bias = ndtri(((means < mean - 1e-12).mean(axis=0) + (means <= mean + 1e-12).mean(axis=0)) / 2)
    deviations = drawn - mean
    squares = np.maximum((deviations**2).sum(axis=0), 1e-24)
    acceleration = (deviations**3).sum(axis=0) / (6 * squares**1.5)
    limits = []
    for level in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2):
        z = bias + ndtri(level)
        place = ndtr(bias + z / (1 - acceleration * z)) * (len(means) - 1)
        limits.append(np.take_along_axis(means, np.rint(place).astype(int)[None], axis=0)[0])
    return limits[0], limits[1]


if __name__ == "__main__":
    main()
