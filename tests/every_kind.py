"""An overlay of the tiny configuration with every kind of row, and the small files that it names."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import yaml
from graphs import Graph
from made import make
from runs import ROOT, copied
from small_generators import write_generator

from condenser.settings import merged

NAME = "every_kind.yaml"
TINY = {"source": "beir", "path": "tests/data/tiny", "train_split": "train", "eval_split": "dev"}
ABOVE, BELOW = 0.5, 0.1  # the tiny teacher is not sure
NUM_NEW = 40  # queries of the log that are new; one is a train query in capitals
EXPANDED = 7  # the passage that is found by its expansion alone


def _second_recipe() -> dict[str, Any]:
    """Fine-tuning for the split documents, with some held-out queries."""
    files = (ROOT / "config.yaml", ROOT / "configs" / "tiny.yaml")
    first, tiny = (yaml.safe_load(file.read_text())["recipes"]["marco"] for file in files)
    held_out = {"share": 0.1, "least": 4, "most": 50}
    lengths, depth = {"query": 16, "passage": 32}, {"train": 40, "eval": 300}
    return merged(merged(first, tiny), {"held_out": held_out, "lengths": lengths, "depth": depth})


def _retriever(initial: str, *negatives: str, **more: Any) -> dict[str, Any]:
    learnt = {"negatives": list(negatives)} if negatives else {"train": False}
    return {"kind": "biencoder", "initial": initial, **learnt, **more}


def _reranker(candidates: str, *, above: float | None = None, **more: Any) -> dict[str, Any]:
    entry = {"kind": "crossencoder", "initial": "backbone", "negatives": [candidates], "depth": 20}
    recipe = {**_denoising(above), "learning_rate": 3.0e-3, "epochs": 8}  # else all pairs have the same score
    return {**entry, "candidates": candidates, "loss": "pointwise", "recipe": recipe, **more}


def _denoising(above: float | None) -> dict[str, Any]:
    return {"negatives": {"denoise": {"negative_below": BELOW, "positive_above": above}}}


def _bm25(**more: Any) -> dict[str, Any]:
    return {"kind": "bm25", "k1": 0.9, "b": 0.4, **more}


def _mix(*parts: str, **more: Any) -> dict[str, Any]:
    return {"kind": "fusion", "of": list(parts), "method": "convex", "depth": 20, **more}


def _rows(*rows: str, **more: Any) -> dict[str, Any]:
    return {"rows": [*rows], "measures": ["MRR@10"], **more}


LEARNT = {"weights": "learnt", "least_queries": 10}
LABELS = {"teacher": "labeller", "queries": "log"}
LATE = {"kind": "late", "initial": "backbone", "candidates": ["bm25"], "depth": 20}
TRAINED_LATE = {**LATE, "train": True, "negatives": ["bm25"]}
OF_SYSTEM = {"objective": "checkpoint", "source": "system", "dataset": "tiny"}
SMALL = {"max_tokens": 40, "rows_per_chunk": 9}

OVERLAY: dict[str, Any] = {
    "datasets": {
        "tiny": {**TINY, "queries": {"log": "log.tsv"}},
        "mine": {**TINY, "path": "mine", "bad_rows": "skip",
                 "other_eval_splits": {"late": {"measures": ["nDCG@10"]}}},
        "split": {**TINY, "documents": "tiny", "recipe": "split", "split": {"words": 20, "stride": 10}},
        "judged": {**TINY, "train_split": None},
        "texts": {**TINY, "path": "texts", "train_split": None, "eval_split": None,
                  "queries": {"log": "log.tsv"}},
        "stsb": {"path": ".", "documents": "tiny"},
        "official": {"source": "msmarco", "unjudged": "rest"},
    },
    "models": {
        "encoder": {"objective": "checkpoint", "source": "embedded"},  # a tiny one: all scores alike
        "each": {"objective": "mlm", "initial": "backbone", "corpus": "collection", "seed": "each"},
        "moved": {**OF_SYSTEM, "system": "cocondenser-round1"},
        "again": {"objective": "condenser", "initial": "moved"},
        "two": {**OF_SYSTEM, "system": "condenser-untied"},
    },
    "systems": {
        "distilled": {"recipe": {"updates": 4}},
        "encoder-zeroshot": _retriever("encoder"),
        "each-zeroshot": _retriever("each"),
        "each-round1": _retriever("each", "bm25"),
        "next": _retriever("cocondenser-round1", "cocondenser-round1"),
        "moved-zeroshot": _retriever("moved"),
        "moved-tuned": _retriever("moved", "bm25"),
        "again-zeroshot": _retriever("again"),
        "two-zeroshot": _retriever("two"),
        "two-tuned": _retriever("two", "bm25", recipe={"tied": False}),
        "souped": _retriever("backbone", "bm25", recipe={"soup": 2}),
        "late": {"depth": 20},
        "projected": {**TRAINED_LATE, "dim": 16, "special_tokens": False, "punctuation": False},
        "exact": {**TRAINED_LATE, "dim": 16, "match": "exact"},
        "first": {**TRAINED_LATE, "match": "first", "first_states": 3},
        "hybrid": {"depth": 30},
        "inner": _mix("late", "bm25", **LEARNT),
        "outer": _mix("inner", "learnt", **LEARNT),
        "teacher": _reranker("backbone-round1", above=ABOVE),
        "denoised": _retriever("backbone", "teacher"),
        "labeller": {"kind": "crossencoder", "initial": "teacher", "train": False, "candidates": "denoised",
                     "depth": 20, "recipe": _denoising(ABOVE)},
        "augmented": _retriever("backbone", "teacher", pseudo_labels=LABELS),
        "shallow": _reranker("encoder-zeroshot", depth=1),
        "predicted": _bm25(expanded_passages="predicted", expanded_queries="contexts"),
        "own": _bm25(expanded_passages="queries-own", expanded_queries="answers-own"),
        "deepct": _bm25(expanded_passages="weights"),
        "learnt": _retriever("cocondenser", "bm25", "encoder-zeroshot"),
        "pairs": _reranker("encoder-zeroshot", depth=10),
        "tokens": {**LATE, "initial": "encoder", "candidates": ["bm25", "encoder-zeroshot"], "depth": 100},
        "mixed": _mix("bm25", "encoder-zeroshot", "tokens", depth=100),
        "vectors": {"kind": "word_vectors", "path": "vectors.txt"},
    },
    "expansions": {
        "predicted": {"files": {"tiny": "predicted.tsv"}, "by": "id"},
        "contexts": {"files": {"tiny/dev": "contexts.jsonl"}, "by": "id", "field": "answers"},
        "queries-own": {"generated": {"model": "generator", "samples": 3, "top_k": 10, "max_tokens": 9,
                                      "max_input_tokens": 40, "rows_per_chunk": 9, "prefix": "ask: "}},
        "answers-own": {"generated": {"model": "generator", "samples": 1, "max_tokens": 9,
                                      "max_input_tokens": 40, "rows_per_chunk": 9}},
        "weights": {
            "weights": 100,
            "trained": {"initial": "backbone", **SMALL, "batch_size": 8, "epochs": 1, "learning_rate": 1.0e-3,
                        "weight_decay": 0.01, "warmup_ratio": 0.1, "max_grad_norm": 1.0},
        },
    },
    "recipes": {"split": _second_recipe(), "stsb": {"epochs": 1, "max_tokens": 32}},
    "tables": {
        "sizes": _rows("bm25", "cocondenser-round1", train_queries=[30, 90, "all"], seeds=[42, 7]),
        "spread": _rows("backbone-zeroshot", "each-zeroshot", "each-round1", train_queries=[30],
                        seeds=[1, 2]),
        "free": _rows("backbone-zeroshot", "bm25", "late", "hybrid", "distilled", "predicted", "own"),
        "table3": _rows("cocondenser-round2", "rerank-backbone", "rerank-condenser", "rerank-ensemble",
                        "mixed-backbone"),
        "learnt": _rows("projected", "exact", "first", "next", "condenser-untied", "two-zeroshot",
                        "two-tuned", "souped", "denoised", "augmented", "deepct"),
        "brief": _rows("bm25", "backbone-zeroshot"),
        "moved": _rows("backbone-zeroshot", "moved-zeroshot", "moved-tuned", "again-zeroshot"),
        "places": _rows(
            *("bm25", "backbone-zeroshot", "backbone-round1"), optional=["nowhere"],
            published=["condenser_table6"],
            measures=["MRR@10", "mine/MRR@10", "mine/late/nDCG@10", "nowhere/hits@5"],
        ),
        "split": _rows("bm25", "encoder-zeroshot", "learnt", "pairs", "tokens", "mixed", "outer",
                       measures=["MRR@10", "R@100"]),
        "low_data": {"by_dataset": {"stsb": {"train_queries": [12, "all"], "seeds": [1]}}},
    },
    "figures": {
        "attention": {"kind": "attention_entropy", "passages": 50, "seed": 1,
                      "panels": {"coCondenser": ["cocondenser-zeroshot", "cocondenser-round1"]}},
        "by_size": {"kind": "train_size", "table": "sizes"},
    },
}  # fmt: skip

TARGETS = [
    *(f"results/tiny/{name}.tsv" for name in ("sizes", "spread", "free", "table3", "learnt", "places")),
    *(f"results/tiny/{name}.svg" for name in ("attention", "by_size", "loss_curve", "costs")),
    *("results/tiny/sizes.tests.tsv", "results/tiny/places.tests.tsv", "results/tiny/audit.tsv"),
    *("results/mine/moved.tsv", "results/split/split.tsv", "results/split/audit.tsv"),
    *("results/judged/brief.tsv", "results/texts/adapt.tsv", "results/stsb/train_size.svg"),
    "results/split/systems/shallow/seed42/examples.jsonl",
    *(f"results/texts/systems/{name}/untrained/run.log.trec" for name in ("bm25", "backbone-zeroshot")),
    "results/stsb/systems/vectors/untrained/metrics.test.json",
]

OTHER_TARGETS = [  # with these there is a job of every rule
    *("results/tiny/table2.record.json", "results/tiny/table2.plan.H200.tsv", "results/tiny/report.html"),
    "results/tiny/systems/encoder-zeroshot/untrained/export/agreement.json",
    "results/official/queries/rest/counts.json",
]


def write_files(folder: Path) -> None:
    """Write the overlay and what it names into a checkout."""
    (folder / NAME).write_text(yaml.safe_dump(OVERLAY))
    tiny = folder / "tests" / "data" / "tiny"
    rows = [json.loads(line) for line in (tiny / "queries.jsonl").read_text().splitlines()]
    asked = [row["text"] for row in rows]
    log = [*(f"{text} again" for text in asked[:NUM_NEW]), asked[0].upper()]
    (folder / "log.tsv").write_text("".join(f"new-{number}\t{text}\n" for number, text in enumerate(log)))

    passages = (tiny / "corpus.jsonl").read_text().splitlines(keepends=True)
    expanded = json.loads(passages[EXPANDED])["_id"]
    (folder / "predicted.tsv").write_text(f"{expanded}\tzeppelin zeppelin\nnone\tx\n")
    contexts = [json.dumps({"id": row["_id"], "answers": ["zeppelin"] * 50}) for row in rows]
    (folder / "contexts.jsonl").write_text("\n".join(contexts) + "\n")
    write_generator("t5", folder / "generator")

    # the first two thirds of the tiny collection, so that its own vocabulary would be another
    shutil.copytree(tiny, folder / "mine")
    (folder / "mine" / "corpus.jsonl").write_text("".join(passages[:160]))
    header, *judged = (tiny / "qrels" / "dev.tsv").read_text().splitlines(keepends=True)
    (folder / "mine" / "qrels" / "late.tsv").write_text("".join([header, *judged[:20]]))
    (folder / "texts").mkdir()
    shutil.copy(tiny / "corpus.jsonl", folder / "texts")

    words = ["brain", "heart", "liver", "lung", "skin", "bone", "blood", "nerve", "muscle", "eye"]
    for split, count in (("train", 24), ("test", 12)):
        pairs = [
            (f"What is the {words[row % 10]}?", f"The {words[(row * 3) % 10]} is that.", f"{row % 6}.0")
            for row in range(count)
        ]
        with (folder / f"stsb-en-{split}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(pairs)
    vectors = [f"{word} {row}.0 1.0 0.5" for row, word in enumerate(words)]
    (folder / "vectors.txt").write_text("\n".join(vectors) + "\n")


def load(root: Path, folder: Path, overlay: dict[str, Any] | None = None) -> Graph:
    """The graph of all of it, with another overlay above, from a folder with the files that it names."""
    tiny = yaml.safe_load((root / "configs" / "tiny.yaml").read_text())
    return Graph(root, folder, merged(merged(tiny, OVERLAY), overlay or {}))


def make_every_kind(golden: Path, folder: Path) -> None:
    """Make all of it in a copy of the finished tiny run."""
    copied(golden, folder)
    write_files(folder)
    make(folder, *TARGETS, overlays=[NAME])
