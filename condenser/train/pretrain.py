"""Pre-training with any objective: from token shards and the folder of a model to a new folder.

An objective (`condenser.objectives`) gives its model and its losses as plain functions, a `Training`. This
module makes masked batches, computes gradients chunk by chunk or through the gradient cache, and writes a
folder that the next training can start from: the backbone as a Hugging Face folder, its heads in files
beside the weights, and `losses.jsonl`, one line a step.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Protocol, Unpack, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from condenser.data.batches import length_chunks, num_steps, pack_texts, padded_width, step_items
from condenser.data.masking import mask_tokens
from condenser.data.randomness import stream_key
from condenser.data.records import count_doc_ids, read_doc_ids
from condenser.data.tokens import Tokenizer, TokenShards, refuse_other_ids
from condenser.files import atomic_folder
from condenser.loss.mlm import masked_cross_entropy_sum
from condenser.model.devices import autocast
from condenser.model.mlm_head import MLM_HEAD_FILE
from condenser.model.pretraining import Condenser
from condenser.train.checkpoint import LOG_NAME
from condenser.train.distributed import Processes
from condenser.train.gradient_cache import Chunk, contrastive_backward
from condenser.train.loop import Batch, LoopSettings, held_work_folder, log_totals, train
from condenser.train.memory import StepMemory

LOSSES_FILE = "losses.jsonl"
_ROWS_MASKED_AT_ONCE = 512  # numpy's calls cost little then, and their arrays still fit into a core's cache


@runtime_checkable
class Texts(Protocol):
    """A group of a batch's texts: `Stretches`, or what an objective makes of the shards itself.

    `positions` identifies the texts: a mask is a function of (seed, epoch, position).
    """

    @property
    def starts(self) -> Int[np.ndarray, " row"]:
        """Flat token positions, each in the row of the collection that the text comes from."""

    @property
    def lengths(self) -> Int[np.ndarray, " row"]:
        """Tokens without specials."""

    @property
    def positions(self) -> Int[np.ndarray, " row"]: ...

    def pack(
        self, shards: TokenShards, rows: Int[np.ndarray, " chunk"], tokenizer: Tokenizer
    ) -> tuple[Int[np.ndarray, "chunk token"], Int[np.ndarray, " chunk"]]:
        """`[CLS] tokens [SEP]` of some rows, padded together, and their lengths with specials."""


@dataclass(frozen=True)
class Stretches:
    """Texts that are stretches of tokens, each within one row of the collection."""

    starts: Int[np.ndarray, " row"]  # flat token positions
    lengths: Int[np.ndarray, " row"]
    positions: Int[np.ndarray, " row"]

    def pack(
        self, shards: TokenShards, rows: Int[np.ndarray, " chunk"], tokenizer: Tokenizer
    ) -> tuple[Int[np.ndarray, "chunk token"], Int[np.ndarray, " chunk"]]:
        """`[CLS] tokens [SEP]` of some rows, padded together, and their lengths with specials."""
        return pack_texts(
            shards,
            self.starts[rows],
            self.lengths[rows],
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
        )


@dataclass(frozen=True)
class MaskedRows:
    """Texts that are encoded together. They stay on the CPU until then."""

    input_ids: Int[Tensor, "row token"]
    attention_mask: Bool[Tensor, "row token"] | None  # None: no row is padded
    masked_positions: Int[Tensor, " masked"]  # flat positions in input_ids
    labels: Int[Tensor, " masked"]

    def to(self, device: torch.device) -> MaskedRows:
        """The same texts on a device."""
        mask = None if self.attention_mask is None else self.attention_mask.to(device, non_blocking=True)
        return MaskedRows(
            self.input_ids.to(device, non_blocking=True),
            mask,
            self.masked_positions.to(device, non_blocking=True),
            self.labels.to(device, non_blocking=True),
        )


@dataclass(frozen=True)
class Training:
    """A model, its texts and its losses, as an objective gives them.

    Attributes:
        model: has `save(folder, tokenizer_folder)` and `recompute_layers` (activation checkpointing).
        num_items: the items of an epoch, such as blocks or documents.
        counts: for the manifest.
        texts: `texts(items, epoch)` gives the texts of these items by group, a pure function. A group's
            representations go to `contrast` under its name.
        mask_probability: share of the tokens that are masked; 0 for none.
        loss_weights: weights of the losses that are computed chunk by chunk. Weight 0 leaves a loss out.
        losses: `losses(rows)` gives the representations of a chunk (None where there is no `contrast`) and
            those losses by name, each summed over the chunk's masked tokens.
        represent: `represent(rows)` gives the same representations alone: the first pass of the gradient
            cache. It draws the same dropout masks as `losses`.
        contrast: the loss of all representations of the batch, by group.
        contrastive_weight: the weight of `contrast`.
        gradient_cache: "always", "never", or "auto": for batches whose graphs do not fit in memory.
        memory_gb: memory for graphs on a CPU. On a GPU it is the memory that is free.
    """

    model: Any
    num_items: int
    counts: Mapping[str, int]
    texts: Callable[[np.ndarray, int], Mapping[str, Texts]]
    mask_probability: float
    loss_weights: Mapping[str, float]
    losses: Callable[[MaskedRows], tuple[Tensor | None, Mapping[str, Tensor]]]
    represent: Callable[[MaskedRows], Tensor] | None = None
    contrast: Callable[..., Tensor] | None = None
    contrastive_weight: float = 1.0
    gradient_cache: Literal["auto", "always", "never"] = "auto"
    memory_gb: float = 0.0


@dataclass(frozen=True)
class MaskedTexts:
    """One process's chunks of a step's texts, and the counts of the whole batch."""

    chunks: list[Chunk[MaskedRows]]
    num_rows: dict[str, int]  # by group
    num_masked: int


def pretrain(
    objective: Callable[..., Training],
    token_prefixes: Sequence[Path],
    initial: Path,
    output: Path,
    *,
    title: str,
    settings: Mapping[str, Any],
    doc_ids: Path,
    seed: int,
    precision: str,
    work_folder: Path,
    processes: Processes,
    **loop_settings: Unpack[LoopSettings],
) -> dict[str, int]:
    """Train the model that an objective makes from the folder `initial`; gives counts.

    A loss over masked tokens is the mean over all masked tokens of the whole batch, however the batch is
    cut into chunks and dealt to the processes. Spans of all processes are negatives of each other.

    Args:
        objective: the function `training` of a module of `condenser.objectives`.
        token_prefixes: the shards of the collection, in order.
        title: names the training in the log and its random streams.
        settings: the model's entry; `batch_size` (items an update, of all processes together),
            `rows_per_chunk` (texts computed at a time, of similar length) and `epochs` are read here.
        doc_ids: the ids of the collection's rows, for error messages.

    The other arguments are those of `condenser.train.loop.train`.

    Raises:
        ValueError: the collection has no text for this objective; also as `train`.
    """
    with held_work_folder(work_folder, processes):
        shards, tokenizer = TokenShards(token_prefixes), Tokenizer(initial)
        refuse_other_ids(shards, count_doc_ids(doc_ids), tokens=token_prefixes[0], ids=doc_ids)
        training = objective(initial, shards, tokenizer, settings, seed=seed)
        if training.num_items == 0:
            counts = ", ".join(f"{name} {count}" for name, count in training.counts.items())
            raise ValueError(
                f"{token_prefixes[0]}: expected texts to pre-train on, got none in {shards.num_rows} rows "
                f"({counts}). Look at the collection."
            )
        start = {name: weight.clone() for name, weight in training.model.backbone.named_parameters()}
        training.model.to(processes.device).train()
        steps = num_steps(training.num_items, batch_size=settings["batch_size"], epochs=settings["epochs"])

        def prepare(step: int) -> Batch[MaskedTexts]:
            epoch, _, items = step_items(
                training.num_items, batch_size=settings["batch_size"], step=step, seed=seed, stream=title
            )
            groups = training.texts(items, epoch)
            texts = masked_texts(
                shards,
                groups,
                tokenizer=tokenizer,
                mask_probability=training.mask_probability,
                rows_per_chunk=settings["rows_per_chunk"],
                seed=seed,
                epoch=epoch,
                step=step,
                processes=processes,
            )
            num_tokens = sum(int(group.lengths.sum()) + 2 * len(group.lengths) for group in groups.values())
            return Batch(texts, epoch, len(items), num_tokens, lambda: _ids_of(shards, groups, doc_ids))

        train(
            training.model,
            prepare,
            _backward(training, processes, precision=precision),
            num_steps=steps,
            use_loss_scale=precision == "fp16",
            work_folder=work_folder,
            processes=processes,
            **loop_settings,
            title=title,
        )
        if processes.is_first:
            mix_in(training.model.backbone, start, share=settings["initial_share"])
            with atomic_folder(output) as folder:
                training.model.save(folder, initial)
                head = initial / MLM_HEAD_FILE
                if head.is_file() and not (folder / MLM_HEAD_FILE).exists():  # trained without it
                    shutil.copyfile(head, folder / MLM_HEAD_FILE)
                shutil.copyfile(work_folder / LOG_NAME, folder / LOSSES_FILE)
        return {"rows": shards.num_rows, **training.counts, **log_totals(work_folder / LOG_NAME)}


@torch.no_grad()
def mix_in(model: nn.Module, others: Mapping[str, Tensor], *, share: float) -> None:
    """Replace each weight of a model by (1 - share) x itself + share x the other weight of its name.

    With the weights that a training started from, this keeps more of what they knew than the training alone.
    Source: WiSE-FT (Wortsman et al. 2022).
    """
    for name, weight in model.named_parameters():
        weight.copy_(torch.lerp(weight, others[name].to(weight), share))


def condenser_losses(model: Condenser, rows: MaskedRows) -> tuple[Tensor, dict[str, Tensor]]:
    """The vectors of a chunk, and the sums of the Condenser's two MLM losses (eq. 9-11)."""
    output = model(rows.input_ids, rows.attention_mask, rows.masked_positions)
    losses = {"head_mlm": masked_cross_entropy_sum(output.head_logits, rows.labels)}
    if output.late_logits is not None:
        losses["late_mlm"] = masked_cross_entropy_sum(output.late_logits, rows.labels)
    return output.vector, losses


def _backward(
    training: Training, processes: Processes, *, precision: str
) -> Callable[[MaskedTexts, int, float], dict[str, float]]:
    """The function that adds a step's gradients and gives its losses, for the loop."""
    model, device = training.model, processes.device
    weights = {name: weight for name, weight in training.loss_weights.items() if weight > 0}
    keeps_graphs = training.contrast is not None and training.gradient_cache != "always"
    memory = StepMemory(model, keeps_graphs=keeps_graphs)

    def weighted(losses: Mapping[str, Tensor], num_masked: int) -> dict[str, Tensor]:
        count = max(num_masked, 1)  # no token is masked if every word is longer than its row's budget
        return {name: losses[name] * (weight / count) for name, weight in weights.items()}

    def unweighted(totals: Mapping[str, float]) -> dict[str, float]:
        return {name: totals[name] / weight for name, weight in weights.items()}

    def by_chunks(texts: MaskedTexts, step: int, loss_scale: float) -> dict[str, float]:
        def losses_of(chunk: Chunk[MaskedRows]) -> Tensor:  # the logits are freed on return: they are large
            torch.manual_seed(chunk.seed)
            with autocast(device, precision):
                _, losses = training.losses(chunk.inputs.to(device))
                return torch.stack(list(weighted(losses, texts.num_masked).values()))

        def backward_pass() -> list[float]:
            sums = torch.zeros(len(weights), dtype=torch.float64, device=device)
            for chunk in texts.chunks:
                losses = losses_of(chunk)
                (losses.sum() * loss_scale).backward()
                sums += losses.detach()
            return sums.tolist()

        sums = processes.sum_floats(memory.fitting(backward_pass))
        totals = dict(zip(weights, sums, strict=True))
        return {"loss": sum(totals.values()), **unweighted(totals)}

    if training.contrast is None:
        return by_chunks
    assert training.represent is not None, "a contrast is of representations"
    contrast, represent = training.contrast, training.represent
    memory_bytes = _memory_for_graphs(model, device, memory_gb=training.memory_gb)

    def with_contrast(texts: MaskedTexts, step: int, loss_scale: float) -> dict[str, float]:
        fits = training.gradient_cache == "never" or graph_bytes(texts.chunks, model) <= memory_bytes
        figures = {}

        def encode(inputs: MaskedRows) -> Tensor:
            inputs = inputs.to(device)
            with autocast(device, precision):
                return represent(inputs)

        def encode_with_losses(inputs: MaskedRows) -> tuple[Tensor, Mapping[str, Tensor]]:
            inputs = inputs.to(device)
            with autocast(device, precision):
                representations, losses = training.losses(inputs)
                assert representations is not None, "a contrast is of representations"
                return representations, weighted(losses, texts.num_masked)

        def contrastive_loss(**representations: Tensor) -> Tensor:
            loss = contrast(**representations)
            figures["contrastive"] = loss.item()
            return training.contrastive_weight * loss

        totals = contrastive_backward(
            texts.chunks,
            encode,
            contrastive_loss,
            num_rows=texts.num_rows,
            dim=model.backbone.config.hidden_size,
            encode_with_losses=encode_with_losses if weights else None,
            loss_names=list(weights),
            keep_graphs=fits,
            memory=memory,
            processes=processes,
            scale=loss_scale,
        )
        figures["loss"] = sum(totals.values())
        return {**figures, **unweighted(totals)}

    return with_contrast


def masked_texts(
    shards: TokenShards,
    groups: Mapping[str, Texts],
    *,
    tokenizer: Tokenizer,
    mask_probability: float,
    rows_per_chunk: int,
    seed: int,
    epoch: int,
    step: int,
    processes: Processes,
) -> MaskedTexts:
    """This process's chunks of a masked batch, and the number of masked tokens in the whole batch.

    Every process masks the whole batch: that is cheap, and no counts need to be exchanged.
    """
    chunks: list[Chunk[MaskedRows]] = []
    num_masked = 0
    cuts = {
        name: length_chunks(group.lengths, rows_per_chunk=rows_per_chunk) for name, group in groups.items()
    }
    first_numbers = accumulate((len(cut) for cut in cuts.values()), initial=0)
    mine = processes.mine(sum(map(len, cuts.values())))
    at_once = max(1, _ROWS_MASKED_AT_ONCE // rows_per_chunk)
    for (name, group), first in zip(groups.items(), first_numbers, strict=False):
        for begin in range(0, len(cuts[name]), at_once):
            several = cuts[name][begin : begin + at_once]
            ids, whole = group.pack(shards, np.concatenate(several), tokenizer)
            masked_positions = labels = np.zeros(0, dtype=np.int64)
            if mask_probability > 0:
                masked = mask_tokens(
                    ids,
                    whole,
                    is_continuation=tokenizer.is_continuation,
                    random_ids=tokenizer.random_ids,
                    mask_id=tokenizer.mask_id,
                    probability=mask_probability,
                    max_predictions=ids.shape[1],  # BERT's limit of 20 is not the authors'
                    positions=group.positions[np.concatenate(several)],
                    seed=seed,
                    epoch=epoch,
                )
                ids, masked_positions, labels = masked.input_ids, masked.masked_positions, masked.labels
            num_masked += len(labels)
            parts = _cut(ids, whole, masked_positions, labels, sizes=[len(rows) for rows in several])
            for number, (rows, inputs) in enumerate(zip(several, parts, strict=True), start=first + begin):
                if number in mine:
                    chunk_seed = stream_key(seed, f"dropout of step {step}", number)
                    chunks.append(Chunk(name, torch.from_numpy(rows), inputs, chunk_seed))
    return MaskedTexts(chunks, {name: len(group.lengths) for name, group in groups.items()}, num_masked)


def _cut(
    ids: np.ndarray, whole: np.ndarray, masked_positions: np.ndarray, labels: np.ndarray, *, sizes: list[int]
) -> Iterator[MaskedRows]:
    """Masked rows in chunks of these sizes, each only as wide as its own longest row."""
    width, num_rows = ids.shape[1], np.array(sizes, dtype=np.int64)
    ends = np.cumsum(num_rows)
    begins = ends - num_rows
    longest, shortest = np.maximum.reduceat(whole, begins), np.minimum.reduceat(whole, begins)
    is_token = np.arange(width) < whole[:, None]
    masked_rows = masked_positions // width
    masked_ends = np.searchsorted(masked_rows, ends)
    first = 0
    for begin, end, most, least, last in zip(
        *(numbers.tolist() for numbers in (begins, ends, longest, shortest, masked_ends)), strict=True
    ):
        own = min(padded_width(most), width)
        shift = masked_rows[first:last] * (width - own) + begin * own
        yield MaskedRows(
            torch.from_numpy(ids[begin:end, :own].copy()),
            None if least >= own else torch.from_numpy(is_token[begin:end, :own].copy()),
            torch.from_numpy(masked_positions[first:last] - shift),
            torch.from_numpy(labels[first:last]),
        )
        first = last


def graph_bytes(chunks: Sequence[Chunk[MaskedRows]], model: Any) -> int:
    """An estimate, in bytes, of the memory for the graphs of all these chunks at once, in float32.

    Per token and layer: 20 vectors of the hidden size (inputs, queries, keys, values, context, both
    dropout masks, LayerNorms, the four-fold feed-forward before and after its activation) and three
    attention rows a head. Per masked token: three times the vocabulary (logits, their softmax, the
    gradient) for each of the two heads.
    """
    config = model.backbone.config
    num_layers = config.num_hidden_layers + len(getattr(model, "head", []))
    vectors = 12 * config.hidden_size + 2 * config.intermediate_size
    numbers = 0
    for chunk in chunks:
        num_tokens, width = chunk.inputs.input_ids.numel(), chunk.inputs.input_ids.shape[1]
        numbers += num_tokens * num_layers * (vectors + 3 * config.num_attention_heads * width)
        numbers += len(chunk.inputs.labels) * 3 * 2 * config.vocab_size
    return 4 * numbers


def _memory_for_graphs(model: nn.Module, device: torch.device, *, memory_gb: float) -> int:
    if device.type != "cuda":
        return int(memory_gb * 1e9)
    free, _ = torch.cuda.mem_get_info(device)
    to_come = 3 * 4 * sum(weight.numel() for weight in model.parameters())  # gradients, two moments
    return int(0.8 * (free - to_come))


def _ids_of(shards: TokenShards, groups: Mapping[str, Texts], doc_ids: Path) -> dict[str, list[str]]:
    """The documents of a batch, each once, in the batch's order.

    The ids are read only now: a training holds row numbers, not ids.
    """
    starts = np.concatenate([group.starts for group in groups.values()])
    rows = np.searchsorted(shards.row_starts, starts, side="right") - 1
    ids = read_doc_ids(doc_ids)
    return {"documents": list(dict.fromkeys(ids[row] for row in rows.tolist()))}
