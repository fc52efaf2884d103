"""The measures of a run file against pytrec_eval, parsing included."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from measuring import Form, functions, in_turn, lines, load_config

from condenser.data.records import Qrel, ScoredDoc, write_qrels, write_run
from condenser.evaluate.metrics import evaluate
from condenser.files import read_json

DEPTH = 1000
NAMES = {"R@100": "recall_100", "R@1000": "recall_1000", "nDCG@10": "ndcg_cut_10"}


def measure(form: Form) -> list[dict[str, Any]]:
    """A made-up run of MS MARCO's shape; the measures of config.yaml."""
    import pytrec_eval

    num_queries, folder, draw = form.size(1000, 6980), form.work, np.random.default_rng(0)
    run, qrels, measures = folder / "run.trec", folder / "qrels.tsv", load_config([]).metrics.measures
    write_qrels(qrels, (Qrel(f"q{number}", f"{number % 97}", 1) for number in range(num_queries)))

    def hits() -> Any:
        for number in range(num_queries):
            rows = draw.choice(100_000, DEPTH, replace=False)
            rows[draw.integers(2 * DEPTH) % DEPTH] = number % 97 if number % 97 not in rows else rows[0]
            unique = list(dict.fromkeys(rows.tolist()))
            scores = np.sort(draw.random(len(unique)))[::-1].round(6).tolist()
            yield (
                ScoredDoc(f"q{number}", str(row), score) for row, score in zip(unique, scores, strict=True)
            )

    write_run(run, chain.from_iterable(hits()), system="made-up")
    theirs: dict[str, dict[str, float]] = {}

    def by_pytrec_eval() -> None:
        with qrels.open() as file, run.open() as ranked:
            evaluator = pytrec_eval.RelevanceEvaluator(
                pytrec_eval.parse_qrel(file), {"recip_rank", "recall.100,1000", "ndcg_cut.10"}
            )
            theirs.update(evaluator.evaluate(pytrec_eval.parse_run(ranked)))

    def ours() -> None:
        evaluate(run, qrels, folder / "metrics.json", system="made-up", measures=measures, relevant_grade=1)

    seconds = in_turn({"ours": ours, "theirs": by_pytrec_eval}, repeats=3, clock=form.clock)
    columns = read_json(folder / "metrics.json")["per_query"]
    differs = max(
        abs(value - theirs[query_id][known])
        for name, known in NAMES.items()
        for query_id, value in zip(columns["query_id"], columns[name], strict=True)
    )
    assert differs < 1e-6, f"not the same values: {differs}"
    peer = {"pytrec_eval with parsing": num_queries / seconds["theirs"]}
    return lines(
        f"metrics of {num_queries:,} x {DEPTH:,}", "queries/s", num_queries / seconds["ours"], peer,
        goals=dict.fromkeys(peer, 3.0), profile=functions(ours),
        note=f"{', '.join(measures)}; values the same to {differs:.0e}",
    )  # fmt: skip
