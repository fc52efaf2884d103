"""How the cost of each job grows: seconds at 1, 4, 16 and 64 times a base size, a table and a picture.

    python benchmarks/growth.py --corpus corpus.jsonl.gz --threads 1 --clock cpu --output docs/growth.svg \\
        --table docs/growth.tsv

Jobs run as the programs run them, on the texts of --corpus (BEIR's `corpus.jsonl`, plain or gzip) in passages
of 60 words, of which 131,072 are needed. `exponent` is the slope of log seconds over log size, by least
squares over all runs, with its 95 % interval: 1 is linear. What does not grow, such as the start of Java,
makes it less.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, cycle
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jobs
import matplotlib as mpl
import measuring
import numpy as np
import torch
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from measurements.finetuning_step import write_training
from measuring import ROOT, Form, load_config, seconds_of, write_inputs, write_tsv
from scipy import stats
from search_scale import search, write_vectors
from stepping import step_settings, write_step_inputs
from steps import run_updates, settings_of, shape_of

from condenser.data.audit import Thresholds, audit
from condenser.data.negatives import make_examples
from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    ScoredDoc,
    read_doc_ids,
    write_passages,
    write_qrels,
    write_queries,
    write_run,
)
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.evaluate.metrics import evaluate
from condenser.model.devices import set_up
from condenser.report.queries import Limits, Ranking, by_query
from condenser.retrieve.bm25 import index_collection
from condenser.retrieve.search import merged_run
from condenser.train.loop import training_machine

FACTORS = (1, 4, 16, 64)
COLUMNS = ("rule", "base", "unit", *(f"seconds_{factor}x" for factor in FACTORS), "exponent")
MEASURES = ["MRR@10", "R@1000"]
REPEATS = 2
PASSAGE_WORDS = 60
NUM_PASSAGES = 2048 * FACTORS[-1]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--threads", type=int, required=True)
    add("--clock", choices=["wall", "cpu"], required=True, help="cpu: on a busy machine")
    add("--only", nargs="+", default=[], help="some rules, by their names")
    add("--corpus", type=Path, required=True, help="real texts, at least 8 million words for all jobs")
    add("--inputs", type=Path, help="a folder of measuring.write_inputs, instead of a new one")
    add("--output", type=Path, required=True, help="the picture")
    add("--table", type=Path, required=True)
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        inputs, work = given.inputs or Path(name, "inputs"), Path(name, "work")
        form = Form(inputs, work, given.threads, False, "cpu", given.clock == "cpu")
        work.mkdir()
        if not given.inputs:
            write_inputs(inputs, threads=given.threads, long=False)
        torch.set_num_threads(form.threads)
        growth, rows, ratios = Growth(form, read_corpus(given.corpus)), [], {}
        for rule, unit, base, run in growth.rules():
            if given.only and rule not in given.only:
                continue
            run(base)  # warms up
            works = [partial(run, base * factor) for factor in FACTORS]
            seconds = [[seconds_of(work, clock=form.clock) for _ in range(REPEATS)] for work in works]
            best = [min(each) for each in seconds]
            exponent = "{:.2f} [{:.2f}, {:.2f}]".format(*fitted_exponent(FACTORS, seconds))
            cells = [rule, base, unit, *(f"{each:.3g}" for each in best), exponent]
            rows.append(dict(zip(COLUMNS, cells, strict=True)))
            ratios[rule] = [each / best[0] for each in best]
            print(*cells, sep="\t", flush=True)
    write_tsv(given.table, COLUMNS, rows)
    draw(ratios, given.output)


def fitted_exponent(factors: Sequence[int], seconds: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """The slope of log seconds over log size, and its 95 % interval by the t distribution."""
    sizes = np.repeat(np.log(factors), [len(each) for each in seconds])
    fit = stats.linregress(sizes, np.log(np.concatenate(seconds)))
    half = fit.stderr * stats.t.ppf(0.975, len(sizes) - 2)
    return fit.slope, fit.slope - half, fit.slope + half


def read_corpus(file: Path) -> list[str]:
    """The first passages of `PASSAGE_WORDS` words; shorter rests of texts are left out.

    Raises:
        ValueError: there are fewer.
    """
    passages: list[str] = []
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
        for line in lines:
            words = json.loads(line)["text"].split()
            whole = range(0, len(words) - PASSAGE_WORDS + 1, PASSAGE_WORDS)
            passages += (" ".join(words[begin : begin + PASSAGE_WORDS]) for begin in whole)
            if len(passages) >= NUM_PASSAGES:
                return passages[:NUM_PASSAGES]
    wanted = f"{NUM_PASSAGES:,} passages of {PASSAGE_WORDS} words"
    raise ValueError(f"{file}: expected {wanted}, got {len(passages):,}.")


class Growth:
    """The jobs as functions of their size, on the first passages of a corpus; inputs are made once."""

    def __init__(self, form: Form, texts: Sequence[str]) -> None:
        self.form, self.texts, self.folder, self.threads = form, texts, form.work, form.threads
        self.tokenizer = Tokenizer(form.inputs / "model")
        self.compute = set_up(device="cpu", precision="auto", threads=form.threads)

    def rules(self) -> list[tuple[str, str, int, Callable[[int], object]]]:
        """Name, unit of the size, base size, and the job."""
        for factor in FACTORS:
            self.index(2048 * factor)
        for rows in (2048, NUM_PASSAGES):
            self.tokens(rows)
        write_training(self.form)
        recipe = settings_of("train", load_config([])) | {
            "batch_size": 8
        }  # 1,000 queries are over 64 batches
        finetuning = self.training("train", self.folder, recipe)
        return [
            ("tokens", "passages", 2048, self.tokens),
            ("mask and batch", "blocks", 1024, self.mask),
            ("pretrain: Condenser", "batches of 8", 1, self.pretraining("condenser")),
            ("pretrain: coCondenser", "batches of 8", 1, self.pretraining("cocondenser")),
            ("train", "batches of 8", 1, finetuning),
            ("encode", "passages", 32, self.encode),
            ("search: passages", "passages", 2048, lambda rows: self.search(rows, 256)),
            ("search: queries", "queries", 128, lambda count: self.search(65536, count)),
            ("merge", "queries of 2 x 1,000 hits", 16, self.merge),
            ("bm25_index", "passages", 2048, self.index),
            ("bm25_run: passages", "passages", 2048, lambda rows: self.bm25(rows, 250)),
            ("bm25_run: queries", "queries", 128, lambda count: self.bm25(NUM_PASSAGES, count)),
            ("examples", "queries of 200 hits", 128, self.examples),
            ("metrics", "queries of 1,000 hits", 64, self.metrics),
            ("audit", "passages", 2048, self.audit),
            ("report: passages", "passages", 2048, lambda rows: self.report(rows, 250)),
            ("report: queries", "queries of 1,000 hits", 64, lambda count: self.report(NUM_PASSAGES, count)),
            ("dry run", "shards", 1, self.dry_run),
        ]

    def collection(self, rows: int) -> tuple[Path, Path]:
        """The first passages, and their ids."""
        file, ids = self.folder / f"collection-{rows}.jsonl", self.folder / f"ids-{rows}.txt"
        if not file.exists():
            write_passages(file, (Passage(f"d{row}", "", text) for row, text in enumerate(self.texts[:rows])))
            ids.write_text("".join(f"d{row}\n" for row in range(rows)))
        return file, ids

    def queries(self, count: int) -> tuple[Path, Path]:
        """Queries and judgements: eight words of the last passages, each judged relevant by a passage."""
        file, qrels = self.folder / f"queries-{count}.jsonl", self.folder / f"qrels-{count}.tsv"
        if not file.exists():
            texts = (" ".join(text.split()[8:16]) for text in self.texts[-count:])
            write_queries(file, (Query(f"q{row}", text) for row, text in enumerate(texts)))
            write_qrels(qrels, (Qrel(f"q{row}", f"d{row}", 1) for row in range(count)))
        return file, qrels

    def run(self, count: int, depth: int) -> Path:
        """A run whose hits are the first passages, in an order of each query's own."""
        file = self.folder / f"run-{count}-{depth}.trec"
        if not file.exists():
            hits = (
                (ScoredDoc(f"q{row}", f"d{(row + rank) % 2048}", -rank) for rank in range(depth))
                for row in range(count)
            )
            write_run(file, chain.from_iterable(hits), system="made-up")
        return file

    def vectors(self, kind: str, rows: int) -> Path:
        file = self.folder / f"{kind}-{rows}.npy"
        return file if file.exists() else write_vectors(file, rows, 384, seed=rows)

    def tokens(self, rows: int) -> None:
        jobs.tokenise(*self.collection(rows), self.folder / f"tokens-{rows}.0-of-1", self.tokenizer)

    def mask(self, rows: int) -> None:
        shards = TokenShards([self.folder / f"tokens-{NUM_PASSAGES}.0-of-1"])
        lengths = np.minimum(np.diff(shards.row_starts), 126)[:rows]
        jobs.mask(shards, lengths, self.tokenizer, rows_per_chunk=16)

    def encode(self, rows: int) -> None:
        model, tokens = self.form.inputs / "model", self.folder / "tokens-2048.0-of-1"
        jobs.encode(model, tokens, self.compute, rows=range(rows), block_rows=16)

    def search(self, rows: int, count: int) -> None:
        files = self.vectors("passages", rows), self.vectors("queries", count)
        search(*files, depth=100, block_rows=1024, threads=self.threads)

    def index(self, rows: int) -> None:
        folder = self.folder / f"index-{rows}"
        shutil.rmtree(folder, ignore_errors=True)
        index_collection(self.collection(rows)[0], folder, threads=self.threads, heap_mb=jobs.HEAP_MB)

    def bm25(self, rows: int, count: int) -> None:
        index, run = self.folder / f"index-{rows}", self.folder / "bm25.trec"
        jobs.bm25(index, self.queries(count)[0], run, depth=100, threads=self.threads)

    def examples(self, count: int) -> None:
        make_examples(
            self.run(count, 200), *self.queries(count), self.folder / "examples.made.jsonl", depth=200,
            relevant_grade=1, sample=30, positive_in_run=False, margin=None, wanted=None, seed=0,
            answering=set(),
        )  # fmt: skip

    def merge(self, count: int) -> None:
        shards = []
        for shard in range(2):
            rows, scores = (self.folder / f"{count}-{shard}.{part}.npy" for part in ("rows", "scores"))
            if not rows.exists():
                draw = np.random.default_rng(shard)
                found = draw.integers(2048 * shard, 2048 * (shard + 1), (count, 1000))
                np.save(rows, np.sort(found, axis=1))
                np.save(scores, -np.sort(draw.random((count, 1000), dtype=np.float32), axis=1))
            shards.append((rows, scores))
        query_ids, doc_ids = [f"q{row}" for row in range(count)], read_doc_ids(self.collection(4096)[1])
        merged = merged_run(shards, query_ids, doc_ids, depth=1000)
        write_run(self.folder / "merged.trec", merged, system="made-up")

    def audit(self, rows: int) -> None:
        settings, collection = load_config([]).audit, self.collection(rows)[0]
        thresholds = Thresholds(**vars(settings))
        nothing: dict[str, Any] = {"train_queries": None, "eval_queries": {}, "qrels": {}}
        audit(
            collection,
            **nothing,
            relevant_grade=1,
            thresholds=thresholds,
            lengths={},
            text_lengths={},
        )

    def metrics(self, count: int) -> Path:
        output = self.folder / f"metrics-{count}.json"
        files = self.run(count, 1000), self.queries(count)[1]
        evaluate(*files, output, system="made-up", measures=MEASURES, relevant_grade=1)
        return output

    def report(self, rows: int, count: int) -> None:
        """What a report reads of the texts; its other parts read a file for each job."""
        metrics = self.folder / f"metrics-{count}.json"
        ranking = Ranking(
            label="made-up", system="made-up", variant="seed42", seeds="", run=self.run(count, 1000),
            metrics=metrics if metrics.exists() else self.metrics(count),
        )  # fmt: skip
        queries, qrels = self.queries(count)
        by_query(
            [ranking], qrels=qrels, queries=queries, collection=self.collection(rows)[0], is_split=False,
            measures=MEASURES, limits=Limits(**vars(load_config([]).report)),
        )  # fmt: skip

    def dry_run(self, shards: int) -> None:
        command = [str(Path(sys.executable).with_name("snakemake")), "-n", "--quiet", "all", "--cores", "2"]
        command += ["--config", f"shards={shards}", "--", "results/msmarco/table2.tsv"]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True)

    def training(self, job: str, inputs: Path, settings: dict[str, Any]) -> Callable[[int], object]:
        shape = shape_of(inputs, settings)

        def run(batches: int) -> None:
            with training_machine(device="cpu", precision="auto", threads=self.threads) as machine:
                run_updates(job, inputs, settings, machine, count=batches, seed=0, shape=shape)

        return run

    def pretraining(self, job: str) -> Callable[[int], object]:
        settings = step_settings(job, long=False, batch_size=8)
        inputs = write_step_inputs(self.form, job, "msmarco_doc", num_rows=4 * 8 * FACTORS[-1])
        return self.training(job, inputs, settings)


def draw(ratios: dict[str, list[float]], file: Path) -> None:
    """Seconds over size, both as multiples of the base; the dashed line is linear."""
    mpl.rcParams["svg.hashsalt"] = "growth"
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    for (rule, of_rule), marker in zip(ratios.items(), cycle("osD^v<>P*X"), strict=False):
        axes.plot(FACTORS, of_rule, marker=marker, label=rule)
    axes.plot(FACTORS, FACTORS, "k--", label="linear")
    axes.set(xscale="log", yscale="log", xticks=FACTORS, yticks=FACTORS, xlabel="size", ylabel="seconds")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}x")
        axis.set_minor_formatter("")
    axes.legend(fontsize="small")
    figure.savefig(file, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    measuring.run(main)
