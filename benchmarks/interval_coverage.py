"""Measure how often the 95 % interval of a table holds the true mean, on real scores of queries.

    python benchmarks/interval_coverage.py results/msmarco/systems/condenser-round1/seed42/metrics.dev.json \\
        --against results/msmarco/systems/backbone-zeroshot/untrained/metrics.dev.json \\
        --measure MRR@10 --queries 50 200 1000 2000 --simulations 1000 --resamples 1000 --seed 1

The queries of the file stand for all queries: a simulation draws some of them, with repeats, and asks if the
interval of their mean encloses the mean of all. With --against, the scores are differences of two systems.
Beside the workflow's interval (BCa) is Student's, mean and 2 standard errors, on the same draws. For each
number of queries a line is printed: the share of intervals that hold the mean, and of those that lie below
and above it. A share of 95 % has a standard error of .7 % in 1,000 simulations.

Measured with these numbers on the default's dev queries, for 50, 200, 1,000 and 2,000 queries: MRR@10 of
cocondenser-round1 94.2, 94.9, 95.5 and 95.5 %; its difference to backbone-round1 79.0, 89.6, 93.4 and 94.7 %,
by Student's interval 98.2, 95.1, 94.4 and 95.4 %.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from condenser.evaluate.significance import bootstrap_interval
from condenser.files import read_json

CONFIDENCE = 0.95


def main() -> None:
    """Print a line for each number of queries and interval."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("metrics", type=Path, help="metrics.<split>.json of a system")
    parser.add_argument("--against", type=Path, help="that of the system to subtract")
    parser.add_argument("--measure", default="MRR@10")
    parser.add_argument("--queries", type=int, nargs="+", required=True)
    parser.add_argument("--simulations", type=int, required=True)
    parser.add_argument("--resamples", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    scores = read_scores(args.metrics, args.measure)
    if args.against:
        scores = scores - read_scores(args.against, args.measure)
    print("queries", "interval", "holds", "below", "above", sep="\t")
    mean, sizes = scores.mean(), {"confidence": CONFIDENCE, "resamples": args.resamples}
    for num_queries in args.queries:
        generator, quantile = np.random.default_rng((args.seed, num_queries)), (1 + CONFIDENCE) / 2
        limits = np.empty((2, args.simulations, 2))
        for simulation in range(args.simulations):
            drawn = generator.choice(scores, num_queries)
            half = stdtrit(num_queries - 1, quantile) * drawn.std(ddof=1) / math.sqrt(num_queries)
            limits[0, simulation] = bootstrap_interval(drawn[None], seed=simulation, **sizes)
            limits[1, simulation] = drawn.mean() - half, drawn.mean() + half
        for name, (low, high) in zip(("BCa", "Student"), limits.transpose(0, 2, 1), strict=True):
            shares = ((low <= mean) & (mean <= high)).mean(), (high < mean).mean(), (low > mean).mean()
            print(num_queries, name, *(f"{share:.3f}" for share in shares), sep="\t", flush=True)


def read_scores(file: Path, measure: str) -> np.ndarray:
    """The scores of all judged queries."""
    return np.array(read_json(file)["per_query"][measure], dtype=np.float64)


if __name__ == "__main__":
    main()
