"""Measure how often the choice without judgements is right, on models whose quality is known from judgements.

    snakemake --configfile configs/findings/adapt.yaml --cores 2 -- results/squad/adapt.tests.tsv \\
        results/squad/systems/{mlm,ict,condenser,cocondenser}-zeroshot/seed{1,2,3}/run.held-{titles,sentences,keywords}.trec
    python benchmarks/gate_truth.py results/squad --split test --seeds 1 2 3

For each seed the gate (`condenser.evaluate.gate`) sees what the candidates rank for queries that are made
from passages, with the settings of config.yaml. A line says what it estimates as a candidate's gain over the
start in MRR@10, its verdict and decision, the true gain on the judged queries, and whether a test of these
two models shows that. The last lines count: signs that agree, also of those that the gate shows, and what it
adopts, with the least true gain.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import measuring

from condenser.evaluate.gate import ALL, decide, known_items, values_of_runs
from condenser.evaluate.significance import summaries
from condenser.files import read_json

CANDIDATES = ("mlm", "ict", "condenser", "cocondenser")


def main() -> None:
    """Print a line for each seed and candidate, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="folders of data sets")
    parser.add_argument("--split", default="test", help="the split of the judged queries")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    args = parser.parse_args()
    config = measuring.load_config([])
    gate, significance = config.models["adapted"], vars(config.significance)
    print("data set", "seed", "candidate", "estimate", "verdict", "decision", "truth", "test", sep="\t")
    pairs: list[tuple[float, str, bool, float, str]] = []
    for folder in args.results:
        for seed in args.seeds:
            places = ["backbone-zeroshot/untrained", *(f"{name}-zeroshot/seed{seed}" for name in CANDIDATES)]
            systems = [folder / "systems" / place for place in places]
            values = {
                name: values_of_runs(
                    [system / f"run.{name}.trec" for system in systems],
                    known_items(folder / "queries" / name / f"queries.{name}.jsonl", is_split=False),
                    measure=gate.measure,
                )
                for name in gate.queries
            }
            decision = decide(
                values,
                least_queries=gate.least_queries,
                least_gain=gate.least_gain,
                significance=significance,
            )
            judged = [read_json(system / f"metrics.{args.split}.json")["per_query"] for system in systems]
            scores = {number: np.array([row[gate.measure]]) for number, row in enumerate(judged)}
            for number, name in enumerate(CANDIDATES, start=1):
                both = {key: scores[key] for key in (0, number)}
                truth = summaries(both, [(number, 0)], **significance)[1][number, 0]
                estimate, is_taken = decision.comparisons[ALL][number - 1], number == decision.chosen
                pairs.append(
                    (estimate.difference, estimate.verdict, is_taken, truth.difference, truth.verdict)
                )
                print(
                    *(folder.name, seed, name, f"{estimate.difference:+.4f}", estimate.verdict),
                    *("adopted" if is_taken else "", f"{truth.difference:+.4f}", truth.verdict),
                    sep="\t",
                )
    agree = [(estimate > 0) == (truth > 0) for estimate, *_, truth, _ in pairs]
    shown = [
        same for same, (_, verdict, *_) in zip(agree, pairs, strict=True) if verdict != "no difference shown"
    ]
    adopted = [(truth, verdict) for *_, is_taken, truth, verdict in pairs if is_taken]
    print(
        f"{sum(agree)} of {len(pairs)} signs agree, {sum(shown)} of {len(shown)} of those that the gate shows"
    )
    print(f"{len(adopted)} adopted", end="")
    print(f"; the least true gain is {min(adopted)[0]:+.4f}" if adopted else "")


if __name__ == "__main__":
    main()
