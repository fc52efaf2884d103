"""Updates of the jobs that compute on a GPU, on random tokens: inputs, what they compute, seconds, memory.

The jobs are pre-training, fine-tuning (`train`) and `encode`. All start from a backbone with new weights,
with a new head where they need one. An update ends when the norm of its gradient has arrived from the device;
on a GPU the optimiser may still run then, and counts for the next update. A block of an encoding ends when
its embeddings are on the processor.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jobs
import numpy as np
import torch
from measuring import peak_bytes
from torch import nn

from condenser import kinds
from condenser.blocks import FineTuning
from condenser.data.records import Query, TrainExample, write_examples, write_queries
from condenser.data.text_files import TextFiles
from condenser.data.tokens import Tokenizer, packed_counts
from condenser.files import save_npy
from condenser.model.backbone import new_backbone
from condenser.model.devices import Compute
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.nouns import Config
from condenser.settings import partly, plain
from condenser.shards import shard_files
from condenser.train.examples import TrainingFiles
from condenser.train.finetune import retriever_training
from condenser.train.loop import Machine, Run, StepRecord, train_to_folder, training_machine
from condenser.train.pretrain import pretraining

LEFT_OUT = 2  # first updates, in which memory is allocated and kernels are chosen
BERT_BASE = {
    "num_layers": 12, "hidden_size": 768, "intermediate_size": 3072, "num_heads": 12, "vocab_size": 30522,
    "max_positions": 512,
}  # fmt: skip


class Texts(NamedTuple):
    """Random texts, whose lengths are log-normal; all in tokens.

    Attributes:
        mean: of a text without its title.
        variation: the standard deviation of that, as a share of the mean.
        title: of every title, with its [SEP].
        sentence: the mean of a sentence.
    """

    mean: float
    variation: float
    title: int = 0
    sentence: int = 24

    def lengths(self, number: int, random: np.random.Generator) -> np.ndarray:
        """Lengths of so many texts, at least one token each."""
        spread = math.sqrt(math.log1p(self.variation**2))
        drawn = self.mean * random.lognormal(-(spread**2) / 2, spread, number)
        return np.maximum(1, np.rint(drawn)).astype(int)


TEXTS = {  # by `source` of a data set; means as condenser/pipeline/rates/sizes.tsv has them, all else assumed
    "msmarco": Texts(75, 0.45, title=9),
    "msmarco_doc": Texts(1520, 1.5, title=10),
    "hub_text": Texts(104, 1.16, title=5),  # 51 million paragraphs of Wikipedia, 2.3 million of BookCorpus
    "queries": Texts(7.5, 0.4),
    "full": Texts(126, 0, sentence=1260),  # every text is one block
}


def settings_of(job: str, config: Config, dataset: str = "msmarco") -> dict[str, Any]:
    """What a job is told: a model's entry, the recipe of a data set, or that with the block `encode`.

    A model that needs the head of another gets a new one of the same shape.
    """
    if job in ("train", "encode"):
        recipe: dict[str, Any] = plain(config.datasets[dataset].recipe_of())
        return recipe | plain(config.encode) if job == "encode" else recipe
    settings: dict[str, Any] = plain(config.models[job])
    entries = (plain(model) for model in config.models[job].chain)
    heads = (entry.get("new_head") or entry for entry in entries)
    head = next((head for head in heads if "skip_from" in head), None)
    if "new_head" in settings and head:
        settings = settings | {"new_head": {key: head[key] for key in ("skip_from", "num_head_layers")}}
    return settings


def as_read(settings: Mapping[str, Any]) -> Any:
    """Settings as a training reads them: a model's entry, or a recipe."""
    objective = settings.get("objective")
    block = kinds.load("objectives", objective).Settings if objective else FineTuning
    return partly(block, {"drop_last": False, "updates": None, **settings})


def write_inputs(folder: Path, config: Config, asked: Mapping[str, Any], counts: Mapping[str, int]) -> None:
    """Write a backbone, and random tokens that last for `counts` batches of each job, and one more.

    The backbone has the shape of the checkpoint below the first model of `asked`, of BERT-base where its
    entry has none. Texts are as `TEXTS` has them. Queries, examples and ids go with the tokens of `train`.
    """
    random = np.random.default_rng(config.seed)
    wanted = vars(config.models[next(name for name in asked if name in config.models)].root)
    shape = {name: wanted.get(name) or size for name, size in BERT_BASE.items()}
    texts = (f"w{number} w{number}" for number in range(shape["vocab_size"]))
    new_backbone(folder / "backbone", shape=shape, texts=texts, seed=config.seed)
    for job, settings in asked.items():
        home = config.models[job].corpus_for("msmarco") if job in config.models else "msmarco"
        num_rows = _rows_needed(job, settings, counts[job] + 1)
        write_random_texts(folder, job, TEXTS[config.datasets[home].source], num_rows, random)
        if job == "train":
            num_queries, sample = (counts[job] + 1) * settings["batch_size"], settings["negatives"]["sample"]
            write_random_tokens(folder, "queries.train", TEXTS["queries"], num_queries, random)
            write_queries(folder / "queries.jsonl", (Query(str(row), "") for row in range(num_queries)))
            drawn = (random.choice(num_rows, size=1 + sample, replace=False) for _ in range(num_queries))
            ids = (tuple(map(str, rows)) for rows in drawn)
            examples = (TrainExample(str(row), some[:1], some[1:]) for row, some in enumerate(ids))
            write_examples(folder / "examples.jsonl", examples)


def _rows_needed(job: str, settings: Mapping[str, Any], count: int) -> int:
    """Texts for `count` batches of a job."""
    if job == "encode":
        return count * settings["block_rows"] + 1  # a block ends when the next one begins
    if job == "train":
        passages = settings["batch_size"] * settings["passages_per_query"]
        return max(count * passages, 1 + settings["negatives"]["sample"])
    return 2 * count * settings["batch_size"]  # an objective may leave out short texts


def write_random_texts(
    folder: Path, job: str, texts: Texts, num_rows: int, random: np.random.Generator
) -> None:
    """The tokens and ids of a job's passages."""
    write_random_tokens(folder, f"{job}.0-of-1", texts, num_rows, random)
    (folder / f"{job}.doc_ids.txt").write_text("".join(f"{row}\n" for row in range(num_rows)))


def write_random_tokens(
    folder: Path, name: str, texts: Texts, num_rows: int, random: np.random.Generator
) -> None:
    """A token shard of such texts."""
    sentences = []
    for left in texts.lengths(num_rows, random).tolist():
        row = [texts.title]
        while left:
            row.append(min(left, max(1, round(texts.sentence * random.uniform(0.4, 1.6)))))
            left -= row[-1]
        sentences.append(row)
    lengths = np.array([length for row in sentences for length in row])
    tokenizer = Tokenizer(folder / "backbone")
    tokens = random.choice(tokenizer.random_ids, size=lengths.sum()).astype(tokenizer.dtype)
    parts = (tokens, packed_counts(lengths), packed_counts(np.array([len(row) for row in sentences])))
    for file, numbers in zip(shard_files(folder / name), parts, strict=True):
        save_npy(file, numbers)


class Update(NamedTuple):
    """What a job computed from `began` until `ended`, in seconds of `run_updates`' clock."""

    ended: float
    items: int
    tokens: int
    began: float  # NaN for the first update


class DoesNotFit(Exception):
    """The memory is too small for what was to be measured."""


class _Enough(Exception):
    """All updates that were asked for have been computed."""


def run_updates(
    job: str,
    folder: Path,
    settings: Mapping[str, Any],
    machine: Machine,
    *,
    count: int,
    seed: int,
    between: Callable[[StepRecord], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Update]:
    """The first `count` updates of a job, or blocks of an encoding.

    Args:
        between: called after each update of a training; no update's time.
        clock: seconds.

    Raises:
        DoesNotFit: the job needs more memory than there is.
        ValueError: too few texts are long enough for so many updates.
    """
    watch = _Watch(count, settings.get("block_rows", 0), between, clock)
    try:
        with _less_memory_refused():
            _run(job, folder, settings, machine, watch, seed=seed)
    except _Enough:
        return watch.updates
    except torch.OutOfMemoryError as error:
        raise DoesNotFit(str(error).partition("\n")[0]) from error
    raise ValueError(f"expected longer texts: {job} ended after {len(watch.updates)} updates.")


def _run(
    job: str, folder: Path, settings: Mapping[str, Any], machine: Machine, watch: _Watch, *, seed: int
) -> None:
    """Call the job on the files of `write_inputs`; only this function knows how."""
    if job == "encode":
        hook = nn.modules.module.register_module_forward_pre_hook(watch.on_forward)
        try:
            _encode(folder, settings, machine)
        finally:
            hook.remove()
        return
    backbone, tokens, work = folder / "backbone", folder / f"{job}.0-of-1", folder / "work"
    doc_ids = folder / f"{job}.doc_ids.txt"
    run = Run(
        # an epoch has at least as many updates as are measured
        as_read({**settings, "epochs": 1, "updates": None}),
        seed, machine.precision, machine.processes, fingerprint=job, work_folder=work,
        checkpoint_every_s=sys.maxsize, checkpoints_kept=1, bad_loss_patience=0, on_step=watch.on_step,
    )  # fmt: skip
    if job == "train":
        texts = TextFiles([tokens], [folder / "queries.train"], doc_ids, [folder / "queries.jsonl"])
        trainable = retriever_training(TrainingFiles([folder / "examples.jsonl"], texts), backbone, run)
    else:
        objective = kinds.load("objectives", settings["objective"]).training
        trainable = pretraining(objective, [tokens], backbone, run, title=job, doc_ids=doc_ids)
    train_to_folder(trainable, run, work / "model")


def _encode(folder: Path, settings: Mapping[str, Any], machine: Machine) -> None:
    """Encode the files of `write_inputs`."""
    compute = Compute(machine.processes.device, machine.precision)
    sizes = {name: settings[name] for name in ("batch_tokens", "block_rows")}
    backbone, tokens = folder / "backbone", folder / "encode.0-of-1"
    jobs.encode(backbone, tokens, compute, max_tokens=settings["lengths"]["passage"], **sizes)


@dataclass
class _Watch:
    """Collects `count` updates without changing them, then ends the job by raising `_Enough`."""

    count: int
    block_rows: int
    between: Callable[[StepRecord], None] | None
    clock: Callable[[], float]
    updates: list[Update] = field(default_factory=list)
    began: float = math.nan
    passes: list[Rows] = field(default_factory=list)  # of the current block

    def _note(self, items: int, tokens: int, record: StepRecord | None = None) -> None:
        self.updates.append(Update(self.clock(), items, tokens, self.began))
        if record is not None and self.between is not None:
            self.between(record)
        if len(self.updates) == self.count:
            raise _Enough
        self.began = self.clock()

    def on_step(self, record: StepRecord) -> None:
        """Note an update, as the hook of a training."""
        self._note(record.batch.num_items, record.batch.num_tokens, record)

    def on_forward(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Note the blocks of an encoding, as PyTorch's hook before every forward pass of a module.

        A block has ended when the first pass of the next one begins, so one more row must be encoded.
        """
        if isinstance(module, Retriever):
            if sum(len(rows.lengths) for rows in self.passes) == self.block_rows:
                done, self.passes = self.passes, []
                num_tokens = sum(rows.layout.num_tokens for rows in done)
                self._note(self.block_rows, num_tokens)
            self.passes.append(inputs[0])


@contextmanager
def _less_memory_refused() -> Iterator[None]:
    """Raise `DoesNotFit` when a training logs that it goes on with less memory."""
    log = logging.getLogger("condenser.train.memory")

    def refuse(record: logging.LogRecord) -> bool:
        raise DoesNotFit(f"does not fit: {record.getMessage()}")

    log.setLevel(logging.INFO)
    log.addFilter(refuse)
    try:
        yield
    finally:
        log.removeFilter(refuse)


def measure(
    job: str, folder: Path, settings: Mapping[str, Any], machine: dict[str, Any], *, count: int
) -> dict[str, float]:
    """The rates of an update of a job (of a block of an encoding), without the first two of `count`.

    Args:
        machine: device, precision and threads.

    Raises:
        DoesNotFit: the memory is too small.
    """
    with training_machine(**machine) as found:
        updates = run_updates(job, folder, settings, found, count=count, seed=0)
        memory = peak_bytes(found.processes.device)
    seconds = float(np.median(np.diff([update.ended for update in updates])[LEFT_OUT - 1 :]))
    updates = updates[LEFT_OUT:]
    items, tokens = (
        sum(numbers) / len(updates) / seconds
        for numbers in zip(*((update.items, update.tokens) for update in updates), strict=True)
    )
    return {
        "seconds": seconds, "items_per_s": items, "tokens_per_s": tokens,
        "memory_gb": memory / 1e9,
    }  # fmt: skip
