"""Compare our rankings with what people would run instead, on the same labels and the same queries.

    python benchmarks/peers.py results/msmarco/peers.tsv --seeds 1 2 --output results/peers.tsv

The tables are those of configs/peers.yaml (`make peers` makes them); their rows are compared. Beside them
stand the recipes of sentence-transformers, started from the same encoder with the same train queries, and the
usual sums of BM25 and that encoder. The library's stock settings are kept; nothing is tuned.

Writes a line for each data set, measure and row: the mean over seeds, the processor minutes of the row's
model and all that it needs (mining, BM25's runs; not the evaluation), and the gain of each of our rows over
the best stock training, over the best sum and over the start, with its interval and Holm's p over the data
set. A finished stock training is kept below `results/<dataset>/peers/`.
`<output>.queries.jsonl` has the value of each query.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measuring import processor_seconds

from condenser import program
from condenser.data.records import is_relevant, read_passages, read_qrels, read_queries, read_run
from condenser.data.subsets import read_subset
from condenser.evaluate.metrics import grades_of, measure_run, ranked
from condenser.evaluate.significance import summaries
from condenser.files import read_json, write_json
from condenser.manifest import record_of

MEASURES = ("MRR@10", "nDCG@10", "R@100")
DEPTH = 100  # hits of each ranking, as `hybrid` fuses
STATISTICS: dict[str, Any] = {"confidence": 0.95, "power": 0.8, "permutations": 10_000, "seed": 42}


class Recipe(NamedTuple):
    """A recipe of sentence-transformers: its loss of in-batch negatives, with mined ones or without."""

    epochs: int
    batch_size: int
    learning_rate: float
    num_mined: int = 0


STOCK = {  # the trainer's own epochs and rate; the first example of the library's guide
    "stock: three epochs, batches of 32, 5e-5": Recipe(3, 32, 5e-5),
    "stock: one epoch, batches of 16, 2e-5": Recipe(1, 16, 2e-5),
    "stock: three epochs, one mined negative": Recipe(3, 32, 5e-5, num_mined=1),
    "stock: one epoch, two mined negatives": Recipe(1, 32, 5e-5, num_mined=2),
}

START, RUN = "backbone-zeroshot", "run.{}.trec"
NOT_COUNTED = ("collect", "queries", "checkpoint", "subset", "tokens", "query_tokens", "lengths")

Run = Mapping[str, Mapping[str, float]]  # query_id -> doc_id -> score, best first
Values = dict[str, list[float]]  # of each measure, in the order of the judged queries


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="+", help="results/<dataset>/peers.tsv")
    parser.add_argument("--seeds", type=int, nargs="+", required=True, help="of the stock trainings")
    parser.add_argument(
        "--recipes", nargs="+", choices=STOCK, default=[*STOCK], help="of the stock trainings"
    )
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args(argv)
    frames, kept = [], []
    for table in given.tables:
        rows, minutes = measured_rows(table, given.recipes, given.seeds)
        frames.append(compared(table.parent.name, rows, minutes))
        for row, of_seeds in rows.items():
            kept += [{"dataset": table.parent.name, "row": row, **values} for values in of_seeds]
    frame = pd.concat(frames)
    frame.to_csv(given.output, sep="\t", index=False)
    lines = "".join(json.dumps(line) + "\n" for line in kept)
    given.output.with_name(given.output.name + ".queries.jsonl").write_text(lines)
    print(frame.to_string(index=False))


def measured_rows(
    table: Path, recipes: Sequence[str], seeds: Sequence[int]
) -> tuple[dict[str, list[Values]], dict[str, float]]:
    """The values of each row, one a seed, and its mean processor minutes; ours first."""
    rows: dict[str, list[Values]] = {}
    minutes: dict[str, list[float]] = {}
    files: dict[str, list[Path]] = {}
    manifest = record_of(table)
    assert manifest is not None, f"{table}: expected a table of the workflow"
    for file in manifest.inputs:
        if file.name.startswith("metrics."):
            files.setdefault(file.parent.parent.name, []).append(file)
    for system, metrics in files.items():
        rows[system] = [{name: read_json(file)["per_query"][name] for name in MEASURES} for file in metrics]
        minutes[system] = [minutes_behind(file) for file in metrics]
    data = Data(table.parent, split_of(metrics[0]))
    runs = [data.read(files[system][0].with_name(RUN.format(data.split))) for system in ("bm25", START)]
    for name, run in (("ranks", by_ranks(runs)), ("scores", by_scores(runs))):
        rows[f"BM25 and the start, added by {name}"] = [data.values(run)]
    for name in recipes:
        for seed in seeds:
            of_seed = stock_values(data, name, STOCK[name], seed)
            rows.setdefault(name, []).append(of_seed["values"])
            minutes.setdefault(name, []).append(of_seed["seconds"] / 60)
    return rows, {row: sum(values) / len(values) for row, values in minutes.items()}


def stock_values(data: Data, name: str, recipe: Recipe, seed: int) -> dict[str, Any]:
    """The values and the processor seconds of a recipe; an interrupted run goes on behind the last one."""
    slug = name.replace(": ", "-").replace(", ", "-").replace(" ", "_")
    file = data.folder / "peers" / f"{slug}.{data.split}.seed{seed}.json"
    if not file.is_file():
        print(f"{data.folder.name}: {name}, seed {seed}", flush=True)
        run, seconds = trained_run(data, recipe, seed)
        file.parent.mkdir(exist_ok=True)
        write_json(file, {"values": data.values(run), "seconds": seconds})
    of_seed: dict[str, Any] = read_json(file)
    return of_seed


def split_of(metrics: Path) -> str:
    """The split that a file of metrics is of.

    >>> split_of(Path("metrics.test.json"))
    'test'
    """
    return metrics.name.removeprefix("metrics.").removesuffix(".json")


class Data:
    """The texts and judgements of a data set, as the workflow collected them."""

    def __init__(self, folder: Path, split: str) -> None:
        self.folder, self.split = folder, split
        self.passages = {
            passage.doc_id: f"{passage.title} {passage.text}".strip()
            for passage in read_passages(folder / "data" / "collection.jsonl")
        }
        self.queries = self._queries(split)
        self.grades = grades_of(read_qrels(folder / "data" / f"qrels.{split}.tsv"))

    def _queries(self, split: str) -> dict[str, str]:
        return {
            one.query_id: one.text for one in read_queries(self.folder / "data" / f"queries.{split}.jsonl")
        }

    def labels(self, seed: int) -> list[tuple[str, str]]:
        """Train queries with a relevant passage each, those of the subset of a seed if there is one."""
        texts = self._queries("train")
        subsets = [*self.folder.glob(f"subsets/n*-seed{seed}.txt")]
        wanted = read_subset(subsets[0]) if subsets else texts.keys()
        pairs = {
            qrel.query_id: (texts[qrel.query_id], self.passages[qrel.doc_id])
            for qrel in read_qrels(self.folder / "data" / "qrels.train.tsv")
            if is_relevant(qrel.grade, 1) and qrel.query_id in wanted
        }
        return list(pairs.values())

    def read(self, run: Path) -> Run:
        hits: dict[str, dict[str, float]] = {}
        for hit in read_run(run):
            hits.setdefault(hit.query_id, {})[hit.doc_id] = hit.score
        return {query_id: dict([*scores.items()][:DEPTH]) for query_id, scores in hits.items()}

    def values(self, run: Run) -> Values:
        """The measures of a run, query by query."""
        rankings = (ranked(name, [*hits], [*hits.values()], self.grades) for name, hits in run.items())
        values, _ = measure_run(rankings, self.grades, measures=MEASURES, relevant_grade=1)
        return {name: [of_query[name] for of_query in values.values()] for name in MEASURES}


def best_first(scores: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(scores.items(), key=lambda hit: -hit[1])[:DEPTH])


def by_ranks(runs: Sequence[Run], k: int = 60) -> Run:
    """Reciprocal rank fusion (Cormack et al. 2009)."""
    return summed(
        [
            {q: {d: 1 / (k + rank) for rank, d in enumerate(hits, 1)} for q, hits in run.items()}
            for run in runs
        ]
    )


def by_scores(runs: Sequence[Run]) -> Run:
    """The sum of scores that run from 0, the last hit of a query, to 1, its first."""
    scaled: list[Run] = []
    for run in runs:
        of_run = {}
        for query, hits in run.items():
            low, high = min(hits.values()), max(hits.values())
            of_run[query] = {doc_id: (score - low) / ((high - low) or 1) for doc_id, score in hits.items()}
        scaled.append(of_run)
    return summed(scaled)


def summed(runs: Sequence[Run]) -> Run:
    total: dict[str, dict[str, float]] = {}
    for run in runs:
        for query, hits in run.items():
            for doc, score in hits.items():
                of_query = total.setdefault(query, {})
                of_query[doc] = of_query.get(doc, 0.0) + score
    return {query: best_first(scores) for query, scores in total.items()}


def trained_run(data: Data, recipe: Recipe, seed: int) -> tuple[Run, float]:
    """The hits of the start after a recipe of sentence-transformers, and the training's processor seconds."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.training_args import BatchSamplers
    from sentence_transformers.util import mine_hard_negatives

    before = processor_seconds()
    model = SentenceTransformer(str(data.folder / "models" / "backbone"), device="cpu")
    model.max_seq_length = 128
    queries, positives = zip(*data.labels(seed), strict=True)
    labels = Dataset.from_dict({"anchor": list(queries), "positive": list(positives)})
    if recipe.num_mined:
        labels = mine_hard_negatives(
            labels, model, corpus=[*data.passages.values()], num_negatives=recipe.num_mined,
            output_format="n-tuple", verbose=False,
        )  # fmt: skip
    with TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            folder, num_train_epochs=recipe.epochs, per_device_train_batch_size=recipe.batch_size,
            learning_rate=recipe.learning_rate, batch_sampler=BatchSamplers.NO_DUPLICATES, seed=seed,
            report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        loss = MultipleNegativesRankingLoss(model)
        SentenceTransformerTrainer(model, arguments, train_dataset=labels, loss=loss).train()
    seconds = processor_seconds() - before
    return ranked_by(model, data), seconds


def ranked_by(model: Any, data: Data) -> Run:
    """The first hits of every judged query."""
    names, texts = [*data.passages], [*data.passages.values()]
    asked = [query for query in data.queries if query in data.grades]
    queries = model.encode_query([data.queries[query] for query in asked], show_progress_bar=False)
    scores = np.asarray(queries) @ np.asarray(model.encode_document(texts, show_progress_bar=False)).T
    best = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    return {
        query: {names[row]: float(scores[number, row]) for row in rows}
        for number, (query, rows) in enumerate(zip(asked, best, strict=True))
    }


def minutes_behind(metrics: Path) -> float:
    """Processor minutes of a row's model and all that it needs, without the collection; else of its run."""
    model, run = metrics.with_name("model"), metrics.with_name(RUN.format(split_of(metrics)))
    waiting, seconds = [model / "model.safetensors" if model.is_dir() else run], dict[Path, float]()
    while waiting:
        record = record_of(waiting.pop())
        if record is None or record.path in seconds:
            continue
        waiting.extend(record.inputs)
        is_counted = (
            record.spec["rule"] not in NOT_COUNTED and f".{split_of(metrics)}." not in record.path.name
        )
        seconds[record.path] = is_counted * record.whole["processor_s"] * record.whole.get("processes", 1)
    return sum(seconds.values()) / 60


def compared(
    dataset: str, rows: Mapping[str, Sequence[Values]], minutes: Mapping[str, float]
) -> pd.DataFrame:
    """A line for each measure and row; of ours one for the best stock training and one for the best sum."""
    kinds = ([row for row in rows if row in STOCK], [row for row in rows if row not in minutes])
    ours = [row for row in rows if not any(row in kind for kind in kinds)]
    lines: list[dict[str, Any]] = []
    for measure in MEASURES:
        values = {row: np.array([seed[measure] for seed in of_row]) for row, of_row in rows.items()}
        best = [max(kind, key=lambda row: values[row].mean()) for kind in kinds]
        pairs = [(row, reference) for row in ours for reference in best]
        pairs += [(row, START) for row in rows if row != START]
        cells, tests = summaries(values, pairs, ends=(0.0, 1.0), **STATISTICS)
        for row, reference in [*pairs, (START, None)]:
            line = {"dataset": dataset, "measure": measure, "row": row, "mean": cells[row].mean}
            line |= {"seeds": len(rows[row]), "processor_minutes": minutes.get(row, 0.0)}
            if reference is not None:
                test = tests[row, reference]
                line |= {"compared_with": reference, "difference": test.difference, "low": test.low}
                line |= {"high": test.high, "holm_p": test.holm_p_value, "verdict": test.verdict}
            lines.append(line)
    return pd.DataFrame(lines).round(4)


if __name__ == "__main__":
    program.run(main)
