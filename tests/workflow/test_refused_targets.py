"""What a configuration cannot make is refused in one line; what it cannot say: tests/unit/test_config.py."""

from __future__ import annotations

from typing import Any

import pytest
from graphs import Load, refusal

TINY = {"source": "beir", "path": "tests/data/tiny", "eval_split": "dev"}
NOT_JUDGED = {
    "judged": {**TINY, "train_split": None},
    "texts": {**TINY, "train_split": None, "eval_split": None},
}
LOG = {"datasets": {"msmarco": {"queries": {"log": "tests/data/tiny/queries.jsonl"}}}}
HUB = {"datasets": {"wiki": {"source": "hub_text", "parts": [{"id": "a/b"}]}}}
QUESTIONS = {"nq": {**TINY, "train_split": "train", "measures": ["hits@5", "hits@20", "hits@100"]}}
SCRATCH = {"source": "scratch", "vocab_size": 600, "hidden_size": 32, "num_layers": 4, "num_heads": 2}
LSTM = {"objective": "checkpoint", "source": "lstm", "path": "no/glove.txt", "vocab_size": 99}
WEIGHTS = {
    **{"initial": "backbone", "max_tokens": 40, "rows_per_chunk": 8, "batch_size": 8, "epochs": 1},
    **{"learning_rate": 1.0e-3, "weight_decay": 0.01, "warmup_ratio": 0.1, "max_grad_norm": 1.0},
}
NO_HELD_OUT = {"held_out": None, "validation": None}
SYSTEMS = "msmarco/systems"


def bm25(**expanded: str) -> dict[str, Any]:
    return {"systems": {"own": {"kind": "bm25", "k1": 0.9, "b": 0.4, **expanded}}}


def files(**entries: Any) -> dict[str, Any]:
    return {"expansions": {"mine": {"by": "id", **entries}}}


def generated(model: str) -> dict[str, Any]:
    sizes = {"samples": 1, "max_tokens": 9, "max_input_tokens": 40, "rows_per_chunk": 9}
    return {"expansions": {"mine": {"generated": {"model": model, **sizes}}}}


def table(*rows: str, **more: Any) -> dict[str, Any]:
    return {"tables": {"mine": {"rows": [*rows], "measures": ["MRR@10"], **more}}}


@pytest.mark.parametrize(
    ("overlay", "target", "line"),
    [
        # splits and judgements
        ({}, f"{SYSTEMS}/bm25/untrained/run.gone.trec",
         "results/msmarco: expected a split of the data set (train, dev), got gone. Ask for one of these"),
        ({}, "msmarco/tokens/backbone/queries.gone.tokens.npy",
         "results/msmarco: expected a split of the data"),
        (LOG, f"{SYSTEMS}/bm25/untrained/run.logs.trec",
         "results/msmarco: expected a split of the data set (train, dev, log), got logs"),
        (LOG, f"{SYSTEMS}/bm25/untrained/metrics.log.json",
         "results/msmarco: expected a split with judgements, got "
         "log, queries without any. Ask for a run: results/msmarco/systems/<system>/<variant>/run.log.trec."),
        *((HUB, f"wiki/{name}", "results/wiki: expected a data set with queries and judgements") for name in (
            "table2.tsv", "systems/condenser-zeroshot/untrained/run.dev.trec",
         "systems/bm25/seed42/examples.jsonl",
            "systems/bm25/untrained/metrics.dev.json")),
        ({"datasets": NOT_JUDGED}, "texts/table2.tsv",
         "results/texts: expected a data set with queries and judgements"),
        ({"datasets": NOT_JUDGED}, "judged/table2.tsv",
         "results/judged: expected a data set with queries and "
         "judgements, got one without train_split. Ask for results/judged/adapt.tsv or "
         "results/judged/plain.tsv, whose systems need no train"),
        ({"datasets": NOT_JUDGED}, "texts/adapt.tests.tsv",
         "results/texts/adapt.tests.tsv: expected a data set with "
         "judged queries, got none. There is nothing to test."),
        ({"datasets": NOT_JUDGED}, "judged/systems/bm25/untrained/run.train.trec",
         "results/judged: expected a split of the data set (dev), got train"),
        # measures and columns
        ({"datasets": {"msmarco": {"measures": ["MRR@10"]}}}, "msmarco/table2.tsv",
         "results/msmarco/table2.tsv: expected measures of the data set (MRR@10), got R@1000"),
        (table("bm25", measures=["MRR@10", "dev/hits@5"]), "msmarco/mine.tsv", "results/msmarco/mine.tsv: "),
        ({"datasets": QUESTIONS} | table("bm25", measures=["nq/hits@5"]), "msmarco/mine.tsv",
         "results/msmarco/mine.tsv: "),
        # passages and sentences
        ({}, "stsb/audit.tsv", "results/stsb/audit.tsv: expected a data set of passages, got sentences"),
        ({}, "stsb/table2.tsv",
         "results/stsb/table2.tsv: expected rows of systems for sentences, got backbone-zeroshot"),
        (table("backbone-sentences"), "msmarco/mine.tsv",
         "results/msmarco/mine.tsv: expected rows of systems for queries, got backbone-sentences"),
        ({}, "nli/loss_curve.svg",
         "results/nli/loss_curve.svg: expected rows of systems for sentences, got backbone-"),
        ({}, "nli/attention_entropy.svg", "results/nli"),
        # a user's files
        (files(files={"msmarco": "gone"}) | bm25(expanded_passages="mine"),
         f"{SYSTEMS}/own/untrained/run.dev.trec",
         "config: expansions.mine.files.msmarco: expected a file, found none at gone"),
        (files(files={"msmarco": "config.yaml"}) | bm25(expanded_queries="mine"),
         f"{SYSTEMS}/own/untrained/run.dev.trec",
         "config: expansions.mine.files: expected a file for msmarco/dev, got none"),
        (generated("tests") | bm25(expanded_passages="mine"),
         f"{SYSTEMS}/own/untrained/run.dev.trec",
         "config: expansions.mine.generated.model: expected config.json in"),
        ({"models": {"lstm": {**LSTM, "hidden_size": 4, "pooling": "max"}},
          "systems": {"own": {"kind": "sentence_encoder", "initial": "lstm"}}},
         "stsb/systems/own/seed42/metrics.test.json",
         "config: models.lstm.path: expected a file of word vectors such as GloVe's"),
        ({"models": {"own": {"objective": "checkpoint", "source": "folder", "path": "no/such/folder"}},
          "systems": {"own": {"kind": "biencoder", "initial": "own", "negatives": ["bm25"]}}},
         f"{SYSTEMS}/own/seed42/run.dev.trec", "config: models.own.path: expected a Hugging Face folder"),
        # what nothing can be learnt from
        ({"datasets": NOT_JUDGED, "expansions": {"mine": {"weights": 100, "trained": WEIGHTS}}}
         | bm25(expanded_passages="mine") | table("bm25", "own"), "judged/mine.tsv",
         "results/judged: expected a data set with queries and judgements, got one"),
        ({"systems": {"hybrid": {"weights": "learnt", "of": ["backbone-round1", "bm25", "late"]}},
          "recipes": {"marco": NO_HELD_OUT}}, f"{SYSTEMS}/hybrid/seed1/run.dev.trec",
         "config: systems.hybrid: expected train queries that backbone-round1 does not learn from, "
         "to learn weights. Set recipes.marco.held_out, or take weights: equal."),
        ({"models": {"backbone": {**SCRATCH, "intermediate_size": 64, "max_positions": 136}}},
         "msmarco/table3.tsv",
         "config: models.backbone.max_positions: expected at least 159 positions for "),
        ({"models": {"cocondenser": {"seed": "each"}}},
         f"{SYSTEMS}/cocondenser-zeroshot/untrained/run.dev.trec",
         "results/msmarco: expected a seed for cocondenser, which is pre-trained for each seed. "
         "Ask for another, such as cocondenser-seed42 or the variant seed42."),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_refused_in_one_line(
    load: Load, overlay: dict[str, Any], target: str, line: str
) -> None:
    graph = load(overlay)
    assert graph.jobs("results/msmarco/systems/bm25/untrained/run.dev.trec")  # other results can be made
    assert refusal(lambda: graph.jobs(f"results/{target}")).startswith(f"error: {line}")
