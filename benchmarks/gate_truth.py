"""Measure how often the choice without judgements is right, on models whose quality is known from judgements.

    snakemake --configfile docs/studies/without_labels/adapt.yaml --cores 2 -- \\
        results/squad/adapt.tests.tsv \\
        results/squad/systems/{mlm,ict,condenser,cocondenser}-zeroshot/seed{1,2,3}/run.held-{titles,sentences,keywords}.trec
    python benchmarks/gate_truth.py results/squad --configfile docs/studies/without_labels/adapt.yaml \\
        --split test --seeds 1 2 3

For each seed the gate (`condenser.evaluate.choice`) sees what the candidates of the model `adapted` rank for
queries that are made from passages. With `--unjudged train` it is also asked by the train queries without
their judgements, for which the voters say what is to be found, and by all together; this reads
`run.train.trec` of the candidates and of the voters. A line says what it estimates as a candidate's gain over
the start in MRR@10, the least of its gains in a set of queries, its verdict and decision, the true gain on
the judged queries, and whether a test of these two models shows that. The last lines count for each kind of
queries: signs that agree, also of those that the gate shows, and of those that the truth shows; and what it
adopts, with the least true gain.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import measuring

from condenser.evaluate.choice import ALL, decide, known_items, values_of_runs
from condenser.evaluate.significance import summaries
from condenser.files import read_json
from condenser.retrieve.votes import voted_items

Pair = tuple[float, str, bool, float, str]
"""The estimated gain, its verdict, whether it was adopted; the true gain, and its verdict."""


def main() -> None:
    """Print a line for each seed and candidate, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="folders of data sets")
    parser.add_argument("--configfile", type=Path, nargs="*", default=[], help="overlays of the results")
    parser.add_argument("--split", default="test", help="the split of the judged queries")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--unjudged", nargs="*", default=[], help="splits or `queries`, without judgements")
    args = parser.parse_args()
    config = measuring.load_config(args.configfile)
    gate, significance = config.models["adapted"], vars(config.significance)
    columns = ["data set", "seed", "queries", "candidate", "estimate", "least of a set"]
    columns += ["verdict", "decision", "truth", "test"]
    print(*columns, sep="\t")
    pairs: dict[str, list[Pair]] = {}
    for folder in args.results:
        for seed in args.seeds:

            def places(systems: Sequence[str], *, folder: Path = folder, seed: int = seed) -> list[Path]:
                variants = [config.systems[one].ranking_variant(f"seed{seed}") for one in systems]
                return [folder / "systems" / one / of for one, of in zip(systems, variants, strict=True)]

            systems = places(gate.of)
            made: dict[str, np.ndarray] = {}
            unjudged: dict[str, np.ndarray] = {}
            for name in gate.queries:
                items = known_items(folder / "queries" / name / f"queries.{name}.jsonl", is_split=False)
                runs = [system / f"run.{name}.trec" for system in systems]
                made[name] = values_of_runs(runs, items, measure=gate.measure)
            for name in args.unjudged:
                file = f"queries.{name}.jsonl"
                known = (folder / "queries" / name / file, folder / "data" / file)
                queries = next(place for place in known if place.is_file())
                votes = [system / f"run.{name}.trec" for system in places(gate.voters)]
                runs = [system / f"run.{name}.trec" for system in systems]
                unjudged[name] = values_of_runs(runs, voted_items(votes, queries), measure=gate.measure)
            judged = [read_json(system / f"metrics.{args.split}.json")["per_query"] for system in systems]
            scores = {number: np.array([row[gate.measure]]) for number, row in enumerate(judged)}
            asked = {"made": made}
            if unjudged:
                asked |= {"unjudged": unjudged, "both": made | unjudged}
            for kind, values in asked.items():
                decision = decide(
                    values,
                    least_queries=gate.least_queries,
                    least_gain=gate.least_gain,
                    significance=significance,
                )
                for number, name in enumerate(gate.of[1:], start=1):
                    both = {key: scores[key] for key in (0, number)}
                    truth = summaries(both, [(number, 0)], **significance)[1][number, 0]
                    estimate, is_taken = decision.comparisons[ALL][number - 1], number == decision.chosen
                    pairs.setdefault(kind, []).append(
                        (estimate.difference, estimate.verdict, is_taken, truth.difference, truth.verdict)
                    )
                    least = min(of_set[number - 1].difference for of_set in decision.comparisons.values())
                    print(
                        *(folder.name, seed, kind, name, f"{estimate.difference:+.4f}", f"{least:+.4f}"),
                        *(estimate.verdict, "adopted" if is_taken else "", f"{truth.difference:+.4f}"),
                        truth.verdict,
                        sep="\t",
                    )
    for kind, of_kind in pairs.items():
        print(f"{kind}: {_counts(of_kind)}")


def _counts(pairs: Sequence[Pair]) -> str:
    """How many signs agree, and what was adopted."""
    unknown = "no difference shown"
    agree = [(estimate > 0) == (truth > 0) for estimate, _, _, truth, _ in pairs]
    shown = [same for same, (_, verdict, *_) in zip(agree, pairs, strict=True) if verdict != unknown]
    sure = [same for same, (*_, verdict) in zip(agree, pairs, strict=True) if verdict != unknown]
    adopted = [truth for *_, is_taken, truth, _ in pairs if is_taken]
    return (
        f"{sum(agree)} of {len(agree)} signs agree, {sum(shown)} of {len(shown)} shown by the gate, "
        f"{sum(sure)} of {len(sure)} by the truth; {len(adopted)} adopted"
        + (f", the least true gain is {min(adopted):+.4f}" if adopted else "")
    )


if __name__ == "__main__":
    main()
