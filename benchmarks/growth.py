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
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import measuring
from measuring import ROOT, Form, load_config, processor_seconds, seconds_of, write_inputs

FACTORS = (1, 4, 16, 64)
REPEATS = 2
PASSAGE_WORDS = 60
Stage = Callable[[int], object]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--threads", type=int, required=True)
    add("--clock", choices=["wall", "cpu"], required=True, help="cpu: on a busy machine")
    add("--only", nargs="+", default=[], help="some stages, by their names")
    add("--corpus", type=Path, required=True, help="real texts, at least 8 million words for all jobs")
    add("--inputs", type=Path, help="a folder of measuring.write_inputs, instead of a new one")
    add("--output", type=Path, required=True, help="the picture")
    add("--table", type=Path, required=True)
    given = parser.parse_args(argv)
    clock = processor_seconds if given.clock == "cpu" else perf_counter
    with tempfile.TemporaryDirectory() as name:
        form = Form(
            given.inputs or Path(name, "inputs"),
            Path(name, "work"),
            given.threads,
            False,
            "cpu",
            given.clock == "cpu",
        )
        form.work.mkdir()
        if not given.inputs:
            write_inputs(form.inputs, threads=given.threads, long=False)
        rows = []
        for stage, unit, base, run in stages(form, given.corpus):
            if given.only and stage not in given.only:
                continue
            run(base)  # warms up
            works = [partial(run, base * factor) for factor in FACTORS]
            seconds = [[seconds_of(work, clock=clock) for _ in range(REPEATS)] for work in works]
            rows.append(
                {"stage": stage, "base": base, "unit": unit}
                | {"seconds": [min(each) for each in seconds], "exponent": fitted_exponent(FACTORS, seconds)}
            )
            print(*_cells(rows[-1]), sep="\t", flush=True)
    write_table(rows, given.table)
    draw(rows, given.output)


def fitted_exponent(factors: Sequence[int], seconds: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """The slope of log seconds over log size, and its 95 % interval by the t distribution."""
    import numpy as np
    from scipy import stats

    sizes = np.repeat(np.log(factors), [len(each) for each in seconds])
    fit = stats.linregress(sizes, np.log(np.concatenate(seconds)))
    half = fit.stderr * stats.t.ppf(0.975, len(sizes) - 2)
    return fit.slope, fit.slope - half, fit.slope + half


def read_corpus(file: Path, *, count: int) -> list[str]:
    """The first `count` passages of `PASSAGE_WORDS` words; shorter rests of texts are left out.

    Raises:
        ValueError: there are fewer.
    """
    import gzip
    import json

    passages: list[str] = []
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
        for line in lines:
            words = json.loads(line)["text"].split()
            whole = range(0, len(words) - PASSAGE_WORDS + 1, PASSAGE_WORDS)
            passages += (" ".join(words[begin : begin + PASSAGE_WORDS]) for begin in whole)
            if len(passages) >= count:
                return passages[:count]
    raise ValueError(f"{file}: expected {count:,} passages of {PASSAGE_WORDS} words, got {len(passages):,}.")


def stages(form: Form, corpus: Path) -> list[tuple[str, str, int, Stage]]:
    """Name, unit of the size, base size, and the stage as a function of its size."""
    import numpy as np
    import torch
    from measurements.finetuning_step import write_training
    from search_scale import write_vectors
    from stepping import step_settings, write_step_inputs
    from steps import settings_of, shape_of
    from watched_stages import run_updates

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
    from condenser.data.tokens import Tokenizer, TokenShards, tokenise_collection
    from condenser.evaluate.metrics import evaluate
    from condenser.model.devices import set_up
    from condenser.retrieve.bm25 import index_collection, search_bm25
    from condenser.retrieve.encode import encode_texts
    from condenser.retrieve.search import merged_run, search_shard
    from condenser.train.distributed import joined
    from condenser.train.machine import training_machine
    from condenser.train.masked_texts import Stretches, masked_texts

    model, folder = form.inputs / "model", form.work
    texts = read_corpus(corpus, count=2048 * FACTORS[-1])
    tokenizer = Tokenizer(model)
    torch.set_num_threads(form.threads)

    def collection(rows: int) -> tuple[Path, Path]:
        """The first passages."""
        file, ids = folder / f"collection-{rows}.jsonl", folder / f"ids-{rows}.txt"
        if not file.exists():
            write_passages(file, (Passage(f"d{row}", "", text) for row, text in enumerate(texts[:rows])))
            ids.write_text("".join(f"d{row}\n" for row in range(rows)))
        return file, ids

    def asked(count: int) -> Path:
        """As many queries: eight words of the last passages, each judged relevant by its passage."""
        file = folder / f"queries-{count}.jsonl"
        if not file.exists():
            asked_of = texts[-count:]
            write_queries(
                file, (Query(f"q{row}", " ".join(text.split()[8:16])) for row, text in enumerate(asked_of))
            )
            write_qrels(
                folder / f"qrels-{count}.tsv", (Qrel(f"q{row}", f"d{row}", 1) for row in range(count))
            )
        return file

    def vectors(kind: str, rows: int) -> Path:
        file = folder / f"{kind}-{rows}.npy"
        if not file.exists():
            write_vectors(file, rows, 384, seed=rows)
        return file

    def tokens(rows: int) -> Path:
        file, ids = collection(rows)
        prefix = folder / f"tokens-{rows}.0-of-1"
        tokenise_collection(
            file,
            ids,
            prefix,
            tokenizer,
            shard="0-of-1",
            multiple_of=1024,
            leading_separator=False,
            batch_size=512,
        )
        return prefix

    compute = set_up(device="cpu", precision="auto", threads=form.threads)

    def encode(rows: int) -> None:
        work = folder / "encode"
        shutil.rmtree(work, ignore_errors=True)
        encode_texts(
            model,
            folder / "tokens-2048.0-of-1",
            folder / "embeddings.npy",
            rows=range(rows),
            role="passage",
            max_tokens=128,
            batch_tokens=16384,
            block_rows=16,
            compute=compute,
            work_folder=work,
            name_of_row=str,
        )

    def mask(rows: int) -> None:
        shards = TokenShards([folder / "tokens-131072.0-of-1"])
        lengths = np.minimum(np.diff(shards.row_starts), 126)[:rows]
        texts = Stretches(shards.row_starts[:rows], lengths, positions=np.arange(rows))
        with joined("cpu", timeout_s=60) as processes:
            masked_texts(
                shards,
                {"blocks": texts},
                tokenizer=tokenizer,
                mask_probability=0.15,
                rows_per_chunk=16,
                seed=0,
                epoch=0,
                step=0,
                processes=processes,
            )

    def search(rows: int, count: int) -> None:
        search_shard(
            vectors("passages", rows),
            vectors("queries", count),
            folder / "rows.npy",
            folder / "scores.npy",
            first_row=0,
            depth=100,
            block_rows=1024,
            threads=form.threads,
            work_folder=folder / "search",
        )
        shutil.rmtree(folder / "search")

    def index(rows: int) -> None:
        place = folder / f"index-{rows}"
        shutil.rmtree(place, ignore_errors=True)
        index_collection(collection(rows)[0], place, threads=form.threads, heap_mb=1000)

    def bm25(rows: int, count: int) -> None:
        search_bm25(
            folder / f"index-{rows}",
            asked(count),
            folder / "bm25.trec",
            k1=0.82,
            b=0.68,
            depth=100,
            threads=form.threads,
            heap_mb=1000,
            work_folder=folder / "bm25",
            system="bm25",
        )
        shutil.rmtree(folder / "bm25")

    def hits_of(count: int, depth: int) -> Path:
        """A run whose hits are the first passages, in an order of each query's own."""
        run = folder / f"run-{count}-{depth}.trec"
        if not run.exists():
            asked(count)
            hits = (
                (ScoredDoc(f"q{row}", f"d{(row + rank) % 2048}", -rank) for rank in range(depth))
                for row in range(count)
            )
            write_run(run, chain.from_iterable(hits), system="made-up")
        return run

    def examples(count: int) -> None:
        make_examples(
            hits_of(count, 200),
            asked(count),
            folder / f"qrels-{count}.tsv",
            folder / "examples.jsonl",
            depth=200,
            sample=30,
            positive_in_run=False,
            margin=None,
            wanted=None,
            seed=0,
            answering=set(),
        )

    def merge(count: int) -> None:
        shards = []
        for shard in range(2):
            rows, scores = folder / f"{count}-{shard}.rows.npy", folder / f"{count}-{shard}.scores.npy"
            if not rows.exists():
                draw = np.random.default_rng(shard)
                found = draw.integers(2048 * shard, 2048 * (shard + 1), (count, 1000))
                np.save(rows, np.sort(found, axis=1))
                np.save(scores, -np.sort(draw.random((count, 1000), dtype=np.float32), axis=1))
            shards.append((rows, scores))
        query_ids = [f"q{row}" for row in range(count)]
        doc_ids = read_doc_ids(collection(4096)[1])
        write_run(
            folder / "merged.trec", merged_run(shards, query_ids, doc_ids, depth=1000), system="made-up"
        )

    def audit_passages(rows: int) -> None:
        settings = load_config([])["audit"]
        audit(
            collection(rows)[0],
            train_queries=None,
            eval_queries={},
            qrels=[],
            examples={},
            runs={},
            thresholds=Thresholds(**{key: settings[key] for key in Thresholds._fields}),
        )

    def metrics(count: int) -> None:
        evaluate(
            hits_of(count, 1000),
            folder / f"qrels-{count}.tsv",
            folder / "metrics.json",
            system="made-up",
            measures=["MRR@10", "R@1000"],
            relevant_grade=1,
        )

    def jobs(shards: int) -> None:
        command = [str(Path(sys.executable).with_name("snakemake")), "-n", "--quiet", "all", "--cores", "2"]
        command += ["--config", f"shards={shards}", "--", "results/msmarco/table2.tsv"]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True)

    def training(stage: str, inputs: Path, settings: dict[str, Any]) -> Stage:
        def run(batches: int) -> None:
            with training_machine(device="cpu", precision="auto", threads=form.threads) as machine:
                shape = shape_of(inputs, settings)
                run_updates(stage, inputs, settings, machine, count=batches, seed=0, shape=shape)

        return run

    def pretraining(stage: str) -> Stage:
        settings = step_settings(stage, long=False, batch_size=8)
        inputs = write_step_inputs(form, stage, "msmarco_doc", num_rows=4 * 8 * FACTORS[-1])
        return training(stage, inputs, settings)

    def finetuning() -> Stage:
        write_training(form)
        return training("train", form.work, settings_of("train", load_config([]), "msmarco"))

    sizes = [2048 * factor for factor in FACTORS]
    most = sizes[-1]
    for rows in sizes:
        index(rows)
    for rows in (sizes[0], most):
        tokens(rows)
    return [
        ("tokens", "passages", 2048, tokens),
        ("mask and batch", "blocks", 1024, mask),
        ("pretrain: Condenser", "batches of 8", 1, pretraining("condenser")),
        ("pretrain: coCondenser", "batches of 8", 1, pretraining("cocondenser")),
        ("train", "batches of 16", 1, finetuning()),
        ("encode", "passages", 32, encode),
        ("search: passages", "passages", 2048, lambda rows: search(rows, 256)),
        ("search: queries", "queries", 128, lambda count: search(65536, count)),
        ("merge", "queries of 2 x 1,000 hits", 16, merge),
        ("bm25_index", "passages", 2048, index),
        ("bm25_run: passages", "passages", 2048, lambda rows: bm25(rows, 250)),
        ("bm25_run: queries", "queries", 128, lambda count: bm25(most, count)),
        ("examples", "queries of 200 hits", 128, examples),
        ("metrics", "queries of 1,000 hits", 64, metrics),
        ("audit", "passages", 2048, audit_passages),
        ("dry run", "shards", 1, jobs),
    ]


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["stage"],
        str(row["base"]),
        row["unit"],
        *(f"{s:.3g}" for s in row["seconds"]),
        "{:.2f} [{:.2f}, {:.2f}]".format(*row["exponent"]),
    ]


def write_table(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """One line a stage."""
    from condenser.files import atomic_write

    header = ["stage", "base", "unit", *(f"seconds_{factor}x" for factor in FACTORS), "exponent"]
    lines = [header, *map(_cells, rows)]
    with atomic_write(file) as out:
        out.write("".join("\t".join(line) + "\n" for line in lines).encode())


def draw(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """Seconds over size, both as multiples of the base; the dashed line is linear."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "growth"
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    for row, marker in zip(rows, "osD^v<>P*X", strict=False):
        axes.plot(
            FACTORS, [one / row["seconds"][0] for one in row["seconds"]], marker=marker, label=row["stage"]
        )
    axes.plot(FACTORS, FACTORS, "k--", label="linear")
    axes.set(xscale="log", yscale="log", xticks=FACTORS, yticks=FACTORS, xlabel="size", ylabel="seconds")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}x")
        axis.set_minor_formatter("")
    axes.legend(fontsize="small")
    figure.savefig(file, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    measuring.run(main)
