"""How the cost of each stage grows: seconds at 1, 2, 4 and 8 times a base size, a table and a picture.

    python benchmarks/growth.py --threads 1 --clock cpu --output docs/growth.svg --table docs/growth.tsv

Stages run as the programs run them, on made-up passages of docstrings' lengths (the default's collection,
repeated). `exponent` is the slope of log seconds over log size between the two largest sizes: 1 is linear.
"""

from __future__ import annotations

import argparse
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, cycle, islice
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import measuring
from measuring import ROOT, Form, load_config, processor_seconds, seconds_of, write_inputs

FACTORS = (1, 2, 4, 8)
Stage = Callable[[int], object]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--threads", type=int, required=True)
    add("--clock", choices=["wall", "cpu"], required=True, help="cpu: on a busy machine")
    add("--only", nargs="+", default=[], help="some stages, by their names")
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
        for stage, unit, base, run in stages(form):
            if given.only and stage not in given.only:
                continue
            run(base)  # warms up
            works = [partial(run, base * factor) for factor in FACTORS]
            seconds = [min(seconds_of(work, clock=clock) for _ in range(2)) for work in works]
            exponent = math.log(seconds[-1] / seconds[-2]) / math.log(2)
            rows.append(
                {"stage": stage, "base": base, "unit": unit, "seconds": seconds, "exponent": exponent}
            )
            print(*_cells(rows[-1]), sep="\t", flush=True)
    write_table(rows, given.table)
    draw(rows, given.output)


def stages(form: Form) -> list[tuple[str, str, int, Stage]]:
    """Name, unit of the size, base size, and the stage as a function of its size."""
    import numpy as np
    import torch
    from measurements.finetuning_step import write_training
    from search_scale import write_vectors
    from stepping import step_settings, write_step_inputs
    from steps import settings_of, shape_of
    from watched_stages import run_updates

    from condenser.data.records import (
        Qrel,
        Query,
        ScoredDoc,
        read_passages,
        read_queries,
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
    from condenser.retrieve.search import search_shard
    from condenser.train.distributed import joined
    from condenser.train.machine import training_machine
    from condenser.train.masked_texts import Stretches, masked_texts

    data, model, folder = form.inputs / "data", form.inputs / "model", form.work
    passages, queries = (
        list(read_passages(data / "collection.jsonl")),
        list(read_queries(data / "queries.train.jsonl")),
    )
    tokenizer = Tokenizer(model)
    torch.set_num_threads(form.threads)

    def collection(rows: int) -> tuple[Path, Path]:
        """The first rows of the collection repeated, each under an id of its own."""
        file, ids = folder / f"collection-{rows}.jsonl", folder / f"ids-{rows}.txt"
        if not file.exists():
            made = [
                type(one)(f"d{row}", one.title, one.text)
                for row, one in enumerate(islice(cycle(passages), rows))
            ]
            write_passages(file, made)
            ids.write_text("".join(f"{one.doc_id}\n" for one in made))
        return file, ids

    def asked(count: int) -> Path:
        file = folder / f"queries-{count}.jsonl"
        if not file.exists():
            write_queries(
                file, (Query(f"q{row}", one.text) for row, one in enumerate(islice(cycle(queries), count)))
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
            folder / "tokens-1024.0-of-1",
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
        shards = TokenShards([folder / "tokens-8192.0-of-1"])
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

    def bm25(count: int) -> None:
        search_bm25(
            folder / "index-16384",
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

    def metrics(count: int) -> None:
        run, qrels = folder / f"run-{count}.trec", folder / f"qrels-{count}.tsv"
        if not run.exists():
            write_qrels(qrels, (Qrel(f"q{row}", f"d{row % 500}", 1) for row in range(count)))
            hits = ((ScoredDoc(f"q{row}", f"d{rank}", -rank) for rank in range(1000)) for row in range(count))
            write_run(run, chain.from_iterable(hits), system="made-up")
        evaluate(
            run,
            qrels,
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
        settings = step_settings(stage, long=False, batch_size=32)
        inputs = write_step_inputs(form, stage, "msmarco_doc", num_rows=4 * 32 * FACTORS[-1])
        return training(stage, inputs, settings)

    def finetuning() -> Stage:
        write_training(form)
        return training("train", form.work, settings_of("train", load_config([]), "msmarco"))

    tokens(1024)
    return [
        ("tokenise", "passages", 1024, tokens),
        ("mask and batch", "blocks", 1024, mask),
        ("Condenser", "batches of 32", 1, pretraining("condenser")),
        ("coCondenser", "batches of 32", 1, pretraining("cocondenser")),
        ("fine-tuning", "batches of 16", 1, finetuning()),
        ("encode", "passages", 16, encode),
        ("search: passages", "passages", 16384, lambda rows: search(rows, 256)),
        ("search: queries", "queries", 128, lambda count: search(65536, count)),
        ("BM25 index", "passages", 2048, index),
        ("BM25 run", "queries", 250, bm25),
        ("metrics", "queries of 1,000 hits", 64, metrics),
        ("dry run", "shards", 8, jobs),
    ]


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["stage"],
        str(row["base"]),
        row["unit"],
        *(f"{s:.3g}" for s in row["seconds"]),
        f"{row['exponent']:.2f}",
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
