"""Measure the stages that compute on a GPU: seconds of an update, share of the peak, memory.

    python benchmarks/steps.py --folder /tmp/steps --configfile configs/paper.yaml --dataset msmarco \\
        --updates 22 --blocks 12 --device cuda --precisions bf16 fp32 --threads 8 --output steps.tsv

The stages themselves run, with the settings of config.yaml under the given files, on random tokens:
`pretrain_condenser`, `pretrain_cocondenser` (with the gradient cache, and without it where that
fits), `train_retriever` and `encode_shard`. Their texts are as long as the plan assumes of the data
set (docs/plan.md), or as `--tokens` and `--variation` say; the backbone has the configuration's shape
and new weights, or is that of `--initial`. No network. The folder is made, holds two models, a checkpoint
and the embeddings at most, and is removed.

Each measurement has a fresh process. Writes one line a measurement, the table anew after each; means
and rates are of an update (of encoding: of a block of rows), the first two left out:

    items, tokens        blocks, documents, queries or passages, and real tokens: specials, no padding
    flops                of matrix products, padding included (condenser.pipeline.costs.arithmetic)
    median_s, best_s     from the end of one update to that of the next; checkpoints are left out
    items_per_s, tokens_per_s, share_of_peak     by the median
    product_flops_per_s  of one large matrix product, best of 1.5 s in the same process: the peak
    memory_bytes         most that tensors held on a GPU; on a CPU ru_maxrss of the process
    note                 why there is no measurement

An update ends when its gradient's norm has come from the device: AdamW, which a GPU may still be at
by then, falls into the next one's time. A block ends when its embeddings are on the processor.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import string
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from condenser import program

if TYPE_CHECKING:
    import numpy as np

    from condenser.data.tokens import Tokenizer
    from condenser.pipeline.costs.arithmetic import Chunk, Shape
    from condenser.pipeline.costs.texts import Texts

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "condenser" / "pipeline" / "costs" / "tables"
LEFT_OUT = 2  # updates before the first that counts: memory is taken, kernels are chosen
STAGES = {"condenser": "blocks", "cocondenser": "documents", "retriever": "queries", "encode": "passages"}
COLUMNS = (
    "stage", "gradient_cache", "precision", "device", "threads", "torch", "updates", "items", "tokens",
    "flops", "median_s", "best_s", "items_per_s", "tokens_per_s", "product_flops_per_s", "share_of_peak",
    "memory_bytes", "note",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="a new one, for inputs and results")
    parser.add_argument(
        "--configfile", type=Path, nargs="*", default=[ROOT / "configs" / "paper.yaml"],
        help="over config.yaml, in order; configs/paper.yaml",
    )  # fmt: skip
    parser.add_argument("--dataset", default="msmarco", help="whose texts' lengths; msmarco")
    parser.add_argument("--tokens", type=float, help="mean of a passage, in place of the data set's")
    parser.add_argument(
        "--variation", type=float, default=0.0, help="of --tokens: standard deviation over mean; 0"
    )
    parser.add_argument("--initial", type=Path, help="a Hugging Face folder, in place of new weights")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--caches", nargs="+", choices=["always", "never"], default=["always", "never"])
    parser.add_argument("--updates", type=int, required=True, help="of a training")
    parser.add_argument("--blocks", type=int, required=True, help="of encode.block_rows passages")
    parser.add_argument("--device", required=True, choices=["auto", "cpu", "cuda"])
    parser.add_argument("--precisions", required=True, nargs="+", choices=["auto", "fp32", "bf16", "fp16"])
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args(argv)
    if min(arguments.updates, arguments.blocks) <= LEFT_OUT:
        raise ValueError(f"--updates, --blocks: expected more than {LEFT_OUT}, which are left out.")
    config = load_config(arguments.configfile)
    counts = dict.fromkeys(STAGES, arguments.updates) | {"encode": arguments.blocks}
    arguments.folder.mkdir(parents=True)
    measured: list[dict[str, Any]] = []
    try:
        in_fresh_process(
            make_inputs,
            arguments.folder,
            config,
            counts={stage: counts[stage] for stage in arguments.stages},
            dataset=arguments.dataset,
            initial=arguments.initial,
            mean_tokens=arguments.tokens,
            variation=arguments.variation,
        )
        for precision in arguments.precisions:
            for stage in arguments.stages:
                for cache in arguments.caches if stage == "cocondenser" else [""]:
                    asked = {"stage": stage, "gradient_cache": cache, "precision": precision}
                    found = measure_apart(
                        arguments.folder,
                        config,
                        **asked,
                        count=counts[stage],
                        device=arguments.device,
                        threads=arguments.threads,
                    )
                    measured.append({**asked, "threads": arguments.threads, **found})
                    write_table(measured, arguments.output)
    finally:
        shutil.rmtree(arguments.folder)
    print(readable(measured))


def load_config(overlays: Sequence[Path]) -> dict[str, Any]:
    """config.yaml under the given files, merged and validated as by the workflow."""
    import yaml
    from snakemake.utils import update_config

    from condenser.config import validated

    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    for overlay in overlays:
        update_config(config, yaml.safe_load(overlay.read_text()) or {})
    return validated(config)


def in_fresh_process(work: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """What `work` gives in a process of its own, whose memory is nobody else's.

    (Linux begins a new program's ru_maxrss with what the process that starts it holds: this one
    imports no PyTorch.)
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *arguments, **settings).result()


def measure_apart(folder: Path, config: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """What `measure` gives in a fresh process, or a note that says what became of that."""
    try:
        return in_fresh_process(measure, folder, config, **settings)
    except BrokenProcessPool:
        return {"note": "does not fit: its process was killed. Is the machine's memory full?"}
    finally:
        shutil.rmtree(folder / "work", ignore_errors=True)


# -- inputs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """Where the made-up files are, in the layout of the stages that would have made them."""

    folder: Path

    @property
    def backbone(self) -> Path:
        return self.folder / "backbone"

    @property
    def query_tokens(self) -> Path:
        return self.folder / "queries.train"

    @property
    def queries(self) -> Path:
        return self.folder / "queries.train.jsonl"

    @property
    def examples(self) -> Path:
        return self.folder / "examples.jsonl"

    def tokens(self, stage: str) -> Path:
        """Of the texts that a stage takes: each has its own, as many as it needs."""
        return self.folder / f"{stage}.0-of-1"

    def doc_ids(self, stage: str) -> Path:
        """Of these texts."""
        return self.folder / f"{stage}.doc_ids.txt"


def make_inputs(
    folder: Path,
    config: dict[str, Any],
    *,
    counts: Mapping[str, int],
    dataset: str,
    initial: Path | None,
    mean_tokens: float | None,
    variation: float,
) -> None:
    """Write a backbone, and random tokens for so many whole batches (`counts`) of each stage."""
    import numpy as np

    from condenser.data.tokens import Tokenizer
    from condenser.pipeline.costs.sizes import Counted, collection_size, query_size
    from condenser.pipeline.costs.tables import read_tables
    from condenser.pipeline.costs.texts import assumed_texts

    tables, inputs = read_tables(TABLES), Inputs(folder)
    make_backbone(inputs.backbone, config, initial=initial)
    tokenizer, random = Tokenizer(inputs.backbone), np.random.default_rng(config["seed"])
    for stage, count in counts.items():
        corpus = config[stage]["corpus"] if stage in ("condenser", "cocondenser") else "collection"
        if mean_tokens is None:
            name = dataset if corpus == "collection" else corpus
            texts = collection_size(config, name, Counted({}), tables, num_shards=1).texts
        else:
            row = tables.collections["msmarco"]
            texts = assumed_texts(
                1,
                mean_tokens=mean_tokens,
                variation=variation,
                sentence_tokens=float(row["sentence_tokens"]),
                title_tokens=0,
            )
        least, num_items = items_of(config, stage, count)
        rows = draw_rows(texts, least, num_items, random)
        write_random_tokens(inputs.tokens(stage), texts, rows, tokenizer, random)
        inputs.doc_ids(stage).write_text("".join(f"{row}\n" for row in range(len(rows))))
        if stage == "retriever":
            split = config["datasets"][dataset]["train_split"]
            num_queries = count * config["finetune"]["batch_size"]
            texts = query_size(config, dataset, split, Counted({}), tables, num_passages=len(rows)).texts
            asked = draw_rows(texts, 0, num_queries, random)
            write_random_tokens(inputs.query_tokens, texts, asked, tokenizer, random)
            write_examples_for(
                inputs, num_queries, len(rows), sample=config["negatives"]["sample"], random=random
            )


def make_backbone(folder: Path, config: Mapping[str, Any], *, initial: Path | None) -> None:
    """A backbone of the configuration's shape with new weights, or the one in `initial`."""
    from condenser.model.backbone import prepare_backbone
    from condenser.pipeline.costs.sizes import backbone_shape
    from condenser.pipeline.costs.tables import read_tables

    shape = None
    if initial is None:
        found = backbone_shape(config, read_tables(TABLES))
        shape = {
            "hidden_size": found.dim,
            "num_layers": found.num_layers,
            "num_heads": found.num_heads,
            "intermediate_size": found.feed_forward,
            "vocab_size": found.vocab_size,
            "max_positions": found.max_positions,
        }
    prepare_backbone(
        "folder" if initial else "scratch",
        folder,
        seed=config["seed"],
        hub_id=None,
        revision=None,
        mirror=None,
        path=initial,
        shape=shape,
        texts=made_up_words(shape["vocab_size"]) if shape else None,
    )


def made_up_words(count: int) -> Iterator[str]:
    """Words of five letters, each twice: a vocabulary of `count` pieces can be learnt from so many.

    >>> list(made_up_words(2))
    ['aaaaa aaaaa', 'pslaa pslaa']
    """
    for number in range(count):
        code = number * 7919 % 26**5  # 7919 is prime: no word comes again
        word = "".join(string.ascii_lowercase[code // 26**place % 26] for place in range(5))
        yield f"{word} {word}"


def items_of(config: Mapping[str, Any], stage: str, count: int) -> tuple[int, int]:
    """Tokens that make a text an item of the stage, and how many items `count` batches of it take."""
    if stage == "condenser":
        return 1, count * config["condenser"]["batch_size"]
    if stage == "cocondenser":
        return 2 * config["cocondenser"]["min_span_tokens"], count * config["cocondenser"]["batch_size"]
    if stage == "retriever":
        passages = config["finetune"]["batch_size"] * config["finetune"]["passages_per_query"]
        return 0, max(count * passages, 1 + config["negatives"]["sample"])
    return 0, count * config["encode"]["block_rows"]


def draw_rows(texts: Texts, least: int, num_items: int, random: np.random.Generator) -> np.ndarray:
    """Rows of the sample `texts`, drawn by weight until `num_items` have `least` tokens or more."""
    import numpy as np

    is_item = np.array([sum(row) >= least for row in texts.sentences])
    if not is_item.any():
        raise ValueError(
            f"texts: expected some of {least} tokens or more, got none. Give longer ones: --tokens."
        )
    shares = np.array(texts.weights) / sum(texts.weights)
    rows = np.zeros(0, dtype=np.int64)
    while is_item[rows].sum() < num_items:
        rows = np.concatenate([rows, random.choice(len(shares), size=num_items, p=shares)])
    return rows[: np.searchsorted(np.cumsum(is_item[rows]), num_items) + 1]


def write_random_tokens(
    prefix: Path, texts: Texts, rows: np.ndarray, tokenizer: Tokenizer, random: np.random.Generator
) -> None:
    """A token shard whose rows have the titles and sentences of these rows, in length."""
    import numpy as np

    from condenser.data.tokens import shard_files
    from condenser.files import save_npy

    sentences = [[texts.titles[row], *texts.sentences[row]] for row in rows]
    lengths = np.array([length for row in sentences for length in row], dtype=np.uint16)
    tokens = random.choice(tokenizer.random_ids, size=int(lengths.sum(dtype=np.int64))).astype(
        tokenizer.dtype
    )
    nums = np.array([len(row) for row in sentences], dtype=np.uint16)
    for file, numbers in zip(shard_files(prefix), (tokens, lengths, nums), strict=True):
        save_npy(file, numbers)


def write_examples_for(
    inputs: Inputs, num_queries: int, num_passages: int, *, sample: int, random: np.random.Generator
) -> None:
    """Queries by id, and an example for each: one positive and `sample` negatives, drawn."""
    from condenser.data.records import Query, TrainExample, write_examples, write_queries

    write_queries(inputs.queries, (Query(str(row), "") for row in range(num_queries)))
    drawn = (random.choice(num_passages, size=1 + sample, replace=False) for _ in range(num_queries))
    names = ([str(row) for row in rows] for rows in drawn)
    write_examples(
        inputs.examples,
        (TrainExample(str(row), tuple(ids[:1]), tuple(ids[1:])) for row, ids in enumerate(names)),
    )


# -- measuring ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Update:
    """What is computed between two moments; `tokens` are real ones, specials included."""

    items: int
    tokens: int
    chunks: list[Chunk]


class DoesNotFit(Exception):
    """Memory is too small for what was to be measured."""


class Watch:
    """When the updates of a stage ended, and what they were; changes nothing that the stage computes.

    `times` begins with the moment before the first update. `at_end` is called with an update's items.
    """

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.times: list[float] = []
        self.at_end: Callable[[int], None] = lambda _: None

    def clock(self) -> type:
        """A `Progress` that notes when it is advanced."""
        from condenser.progress import Progress

        watch = self

        class Clock(Progress):
            def __init__(self, *arguments: Any, **settings: Any) -> None:
                super().__init__(*arguments, **settings)
                watch.times.append(time.perf_counter())

            def advance(self, count: int = 1, *, note: str = "") -> None:
                watch.times.append(time.perf_counter())
                watch.at_end(count)
                super().advance(count, note=note)

        return Clock

    @contextmanager
    def on_training(self, module: ModuleType, *, graph_bytes: float | None) -> Iterator[None]:
        """Watch a training of condenser.train's `module`; its first batch's graphs must fit, if told."""
        from condenser.pipeline.costs.arithmetic import Chunk
        from condenser.train import loop, pretrain
        from condenser.train.memory import StepMemory

        def memory_of(model: Any, *, keeps_graphs: bool) -> StepMemory:
            memory = StepMemory(model, keeps_graphs=keeps_graphs)

            def refuse_less(_: int) -> None:
                if memory.keeps_graphs != keeps_graphs or model.recompute_layers:
                    raise DoesNotFit("does not fit: memory was full, and the stage went on with less at once")

            self.at_end = refuse_less
            return memory

        def noting(model: Any, prepare: Callable[[int], Any], *arguments: Any, **settings: Any) -> None:
            if graph_bytes is not None:
                needed = pretrain.graph_bytes(prepare(0).content.chunks, model)
                if needed > graph_bytes:
                    raise DoesNotFit(f"does not fit: graphs of {needed / 1e9:.3g} GB, memory_gb says less")

            def prepare_and_note(step: int) -> Any:
                batch = prepare(step)
                chunks = []
                for chunk in batch.content.chunks:
                    num_rows, width = chunk.inputs.input_ids.shape
                    chunks.append(Chunk(num_rows, width, len(getattr(chunk.inputs, "labels", ()))))
                self.updates.append(Update(batch.num_items, batch.num_tokens, chunks))
                return batch

            train(model, prepare_and_note, *arguments, **settings)

        train = loop.train
        with (
            mock.patch.object(loop, "Progress", self.clock()),
            mock.patch.object(module, "StepMemory", memory_of),
            mock.patch.object(module, "train", noting),
        ):
            yield

    @contextmanager
    def on_encoding(self) -> Iterator[None]:
        """Watch an encoding; its updates are blocks."""
        from condenser.data.batches import pack_texts
        from condenser.pipeline.costs.arithmetic import Chunk
        from condenser.retrieve import encode

        lengths, chunks = [], []

        def packing(*arguments: Any, **settings: Any) -> Any:
            ids, whole = pack_texts(*arguments, **settings)
            lengths.append(int(whole.sum()))
            chunks.append(Chunk(len(ids), ids.shape[1], 0))
            return ids, whole

        def note(count: int) -> None:
            self.updates.append(Update(count, sum(lengths), list(chunks)))
            lengths.clear()
            chunks.clear()

        self.at_end = note
        with (
            mock.patch.object(encode, "Progress", self.clock()),
            mock.patch.object(encode, "pack_texts", packing),
        ):
            yield


def measure(
    folder: Path,
    config: dict[str, Any],
    *,
    stage: str,
    gradient_cache: str,
    precision: str,
    count: int,
    device: str,
    threads: int,
) -> dict[str, Any]:
    """Run `count` updates of a stage in this process; gives the columns that are known only then."""
    import numpy as np
    import torch

    from condenser.model.devices import (
        choose_device,
        choose_precision,
        claim_visible_gpus,
        make_deterministic,
    )
    from condenser.model.dropout import dropout
    from condenser.pipeline.costs.measure import measure_device
    from condenser.pipeline.costs.sizes import backbone_shape
    from condenser.pipeline.costs.tables import read_tables

    if device != "cpu":
        claim_visible_gpus(count=1)
    make_deterministic(threads=threads)
    place = choose_device(device)
    kind = choose_precision(precision, place)
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else "cpu"
    facts = {"precision": kind, "device": name, "torch": torch.__version__}
    inputs, watch = Inputs(folder), Watch()
    settings: dict[str, Any] = {"count": count, "device": place.type, "precision": kind, "threads": threads}
    try:
        if stage == "encode":
            run_encoding(inputs, config, watch, **settings)
        else:
            run_training(inputs, config, watch, stage=stage, gradient_cache=gradient_cache, **settings)
    except (DoesNotFit, torch.OutOfMemoryError) as error:
        return {**facts, "note": str(error).partition("\n")[0]}
    if place.type == "cuda":
        memory = torch.cuda.max_memory_allocated(place)
    else:
        memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    product = measure_device(
        place, precision=kind, threads=threads, clock=time.perf_counter, dropout=dropout
    ).flops_per_s
    seconds, updates = np.diff(watch.times)[LEFT_OUT:], watch.updates[LEFT_OUT:]
    assert len(seconds) == len(updates) == count - LEFT_OUT
    backbone = {"source": "folder", "path": inputs.backbone}
    shape = backbone_shape({"backbone": backbone}, read_tables(TABLES))
    items, tokens, flops = np.mean(
        [
            (one.items, one.tokens, flops_of(one, shape, config, stage=stage, gradient_cache=gradient_cache))
            for one in updates
        ],
        axis=0,
    ).tolist()
    median = float(np.median(seconds))
    return {
        **facts,
        "updates": len(updates),
        "items": items,
        "tokens": tokens,
        "flops": flops,
        "median_s": median,
        "best_s": float(seconds.min()),
        "items_per_s": items / median,
        "tokens_per_s": tokens / median,
        "product_flops_per_s": product,
        "share_of_peak": flops / median / product,
        "memory_bytes": memory,
    }


def run_training(
    inputs: Inputs,
    config: Mapping[str, Any],
    watch: Watch,
    *,
    stage: str,
    gradient_cache: str,
    count: int,
    device: str,
    precision: str,
    threads: int,
) -> None:
    """`count` updates of a training, with its block of the configuration."""
    from condenser.data.batches import num_steps
    from condenser.data.blocks import pack_blocks
    from condenser.data.spans import span_documents
    from condenser.data.tokens import TokenShards
    from condenser.train import finetune, pretrain
    from condenser.train.machine import training_machine

    block = dict(config["finetune" if stage == "retriever" else stage])
    block.pop("corpus", None)
    prefixes, work = [inputs.tokens(stage)], inputs.folder / "work"
    if stage == "condenser":
        limits = {name: block[name] for name in ("max_tokens", "short_probability")}
        num_items = len(pack_blocks(TokenShards(prefixes), seed=config["seed"], **limits))
    elif stage == "cocondenser":
        num_items = len(span_documents(TokenShards(prefixes), min_tokens=block["min_span_tokens"]))
    else:
        num_items = count * block["batch_size"]
    block["epochs"] = count / num_steps(num_items, batch_size=block["batch_size"], epochs=1)
    with training_machine(device=device, precision=precision, threads=threads) as machine:
        settings = {
            **block,
            "doc_ids": inputs.doc_ids(stage),
            "seed": config["seed"],
            "precision": machine.precision,
            "work_folder": work / "checkpoints",
            "processes": machine.processes,
            "fingerprint": stage,
            "checkpoint_every_s": sys.maxsize,
            "checkpoints_kept": 1,
            "bad_loss_patience": config["safety"]["bad_loss_patience"],
        }
        if stage == "condenser":
            with watch.on_training(pretrain, graph_bytes=None):
                pretrain.pretrain_condenser(prefixes, inputs.backbone, work / "model", **settings)
        elif stage == "cocondenser":
            for name in ("skip_from", "num_head_layers", "late_mlm_weight"):
                settings[name] = config["condenser"][name]
            settings |= {"gradient_cache": gradient_cache, "missing_head": "random"}
            is_tight = device == "cpu" and gradient_cache == "never"  # a GPU says itself when it is full
            with watch.on_training(pretrain, graph_bytes=1e9 * block["memory_gb"] if is_tight else None):
                pretrain.pretrain_cocondenser(prefixes, inputs.backbone, work / "model", **settings)
        else:
            with watch.on_training(finetune, graph_bytes=None):
                finetune.train_retriever(
                    [inputs.examples],
                    inputs.backbone,
                    work / "model",
                    collection_tokens=prefixes,
                    query_tokens=inputs.query_tokens,
                    queries=inputs.queries,
                    query_length=config["lengths"]["query"],
                    passage_length=config["lengths"]["passage"],
                    keep_graphs=True,
                    **settings,
                )


def run_encoding(
    inputs: Inputs,
    config: Mapping[str, Any],
    watch: Watch,
    *,
    count: int,
    device: str,
    precision: str,
    threads: int,
) -> None:
    """Encode `count` blocks of passages with the backbone."""
    from condenser.retrieve import encode

    work, block = inputs.folder / "work", config["encode"]
    with watch.on_encoding():
        counts, _ = encode.encode_shard(
            inputs.backbone,
            [inputs.tokens("encode")],
            work / "embeddings.npy",
            shard="0-of-1",
            max_tokens=config["lengths"]["passage"],
            batch_tokens=block["batch_tokens"],
            block_rows=block["block_rows"],
            threads=threads,
            device=device,
            precision=precision,
            work_folder=work / "blocks",
            name_of_row=str,
        )
    assert counts["rows"] == count * block["block_rows"]


def flops_of(
    update: Update, shape: Shape, config: Mapping[str, Any], *, stage: str, gradient_cache: str
) -> float:
    """Operations of an update, as docs/plan.md counts them."""
    from condenser.pipeline.costs import arithmetic

    encoder = sum(arithmetic.encoder_flops(shape, chunk) for chunk in update.chunks)
    if stage == "encode":
        return encoder
    if stage == "retriever":
        pairs = update.items * update.items * config["finetune"]["passages_per_query"]
        return arithmetic.TRAINING_PASSES * (encoder + 2 * pairs * shape.dim)
    head, late = config["condenser"]["num_head_layers"], config["condenser"]["late_mlm_weight"] > 0
    forward = sum(
        arithmetic.condenser_flops(shape, chunk, num_head_layers=head, use_late_mlm=late)
        for chunk in update.chunks
    )
    if stage == "condenser":
        return arithmetic.TRAINING_PASSES * forward
    pairs = (2 * update.items) ** 2
    first_pass = encoder if gradient_cache == "always" else 0.0
    return arithmetic.TRAINING_PASSES * (forward + 2 * pairs * shape.dim) + first_pass


# -- telling -----------------------------------------------------------------------------------


def write_table(measured: Sequence[Mapping[str, Any]], output: Path) -> None:
    """Write all measurements there are."""
    from condenser.files import atomic_write

    def cell(value: Any) -> str:
        return f"{value:.6g}" if isinstance(value, float) else str(value)

    lines = [COLUMNS, *([cell(row.get(name, "")) for name in COLUMNS] for row in measured)]
    with atomic_write(output) as file:
        file.write("".join("\t".join(cells) + "\n" for cells in lines).encode())


def readable(measured: Sequence[Mapping[str, Any]]) -> str:
    """The measurements for a person."""
    lines: list[tuple[str, ...]] = [
        ("stage", "precision", "s an update", "best", "items/s", "tokens/s", "of the peak", "GB", "items are")
    ]
    for row in measured:
        name = f"{row['stage']}, cache {row['gradient_cache']}" if row["gradient_cache"] else row["stage"]
        if "note" in row:
            lines.append((name, row["precision"], *[""] * 6, row["note"]))
            continue
        lines.append(
            (
                *(name, row["precision"]),
                *(f"{row[column]:.4g}" for column in ("median_s", "best_s")),
                *(f"{row[column]:,.1f}" for column in ("items_per_s", "tokens_per_s")),
                f"{row['share_of_peak']:.1%}",
                f"{row['memory_bytes'] / 1e9:.2f}",
                STAGES[row["stage"]],
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


if __name__ == "__main__":
    program.run(main)
