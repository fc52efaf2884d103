"""Pre-training with any objective: from token shards and the folder of a model to a new folder.

An objective (`condenser.objectives`) gives its model and its losses as plain functions, a `Training`. This
module computes gradients chunk by chunk or through the gradient cache, and writes a folder that the next
training can start from: the backbone as a Hugging Face folder, its heads in files beside the weights.
`condenser.train.masked_texts` makes the batches.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from condenser.data.tokens import Tokenizer, TokenShards
from condenser.loss.mlm import masked_cross_entropy_sum
from condenser.model.devices import autocast
from condenser.model.mlm_head import MLM_HEAD_FILE
from condenser.model.pretraining import Condenser
from condenser.model.rows import Rows
from condenser.nouns import Pretraining
from condenser.settings import LONGER_TEXTS
from condenser.train.chunks import Chunk
from condenser.train.distributed import Processes
from condenser.train.gradient_cache import batch_backward
from condenser.train.loop import Batch, Run, Trainable
from condenser.train.masked_texts import MaskedRows, MaskedTexts, Texts, ids_of, masked_texts
from condenser.train.memory import StepMemory, graph_bytes, memory_for_graphs
from condenser.train.step import chunk_backward
from condenser.train.weights import copied_weights, mix_in


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
        losses: `losses(texts)` gives the representations of a chunk (None where there is no `contrast`) and
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
    represent: Callable[[Rows], Tensor] | None = None
    contrast: Callable[..., Tensor] | None = None
    contrastive_weight: float = 1.0
    gradient_cache: Literal["auto", "always", "never"] = "auto"
    memory_gb: float = 0.0


def pretraining(
    objective: Callable[..., Training],
    token_prefixes: Sequence[Path],
    initial: Path,
    run: Run[Pretraining],
    *,
    title: str,
    doc_ids: Path,
) -> Trainable[MaskedTexts]:
    """Pre-training of the model that an objective makes from the folder `initial`.

    A loss over masked tokens is the mean over all masked tokens of the whole batch, however the batch is
    cut into chunks and dealt to the processes. Spans of all processes are negatives of each other.

    Args:
        objective: the function `training` of a module of `condenser.objectives`.
        token_prefixes: the shards of the collection, in order.
        run: its settings are the model's entry; `rows_per_chunk` (texts computed at a time, of similar
            length) and `initial_share` are read here.
        title: names the training in the log and its random streams.
        doc_ids: the ids of the collection's rows, for error messages.

    Raises:
        ValueError: the collection has no text for this objective.
    """
    settings, processes = run.settings, run.processes
    shards, tokenizer = TokenShards(token_prefixes), Tokenizer(initial)
    training = objective(initial, shards, tokenizer, settings, seed=run.seed)
    if training.num_items == 0:
        counts = ", ".join(f"{name} {count}" for name, count in training.counts.items())
        raise ValueError(
            f"{token_prefixes[0]}: expected texts to pre-train on, got none in {shards.num_rows} rows "
            f"({counts}). {LONGER_TEXTS.capitalize()}."
        )
    encoder = nn.ModuleList(filter(None, (training.model.backbone, training.model.projection)))
    start = copied_weights(encoder)
    training.model.to(processes.device).train()

    def prepare(step: int) -> Batch[MaskedTexts]:
        epoch, items = run.items_of(step, training.num_items, stream=title)
        groups = training.texts(items, epoch)
        texts = masked_texts(
            shards,
            groups,
            tokenizer=tokenizer,
            mask_probability=training.mask_probability,
            rows_per_chunk=settings.rows_per_chunk,
            seed=run.seed,
            epoch=epoch,
            step=step,
            processes=processes,
        )
        num_tokens = sum(int(group.lengths.sum()) + 2 * len(group.lengths) for group in groups.values())
        return Batch(
            texts,
            epoch,
            len(items),
            num_tokens,
            lambda: ids_of(shards, groups, doc_ids),
            training.num_items,
        )

    def save(folder: Path) -> None:
        mix_in(encoder, start, share=settings.initial_share)
        training.model.save(folder, initial)
        head = initial / MLM_HEAD_FILE
        if head.is_file() and not (folder / MLM_HEAD_FILE).exists():  # trained without it
            shutil.copyfile(head, folder / MLM_HEAD_FILE)

    return Trainable(
        title=title,
        model=training.model,
        num_items=training.num_items,
        prepare=prepare,
        backward=_backward(training, processes, precision=run.precision),
        save=save,
        counts={"rows": shards.num_rows, **training.counts},
    )


def condenser_losses(model: Condenser, texts: MaskedRows) -> tuple[Tensor, dict[str, Tensor]]:
    """The vectors of a chunk, and the sums of the Condenser's MLM losses (eq. 9-11) that it has."""
    output = model(texts.rows, texts.masked)
    logits = {"head_mlm": output.head_logits, "late_mlm": output.late_logits}
    losses = {
        name: masked_cross_entropy_sum(of_loss, texts.labels)
        for name, of_loss in logits.items()
        if of_loss is not None
    }
    return output.vector, losses


def _backward(
    training: Training, processes: Processes, *, precision: str
) -> Callable[[MaskedTexts, float], dict[str, float]]:
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

    def by_chunks(texts: MaskedTexts, loss_scale: float) -> dict[str, float]:
        def losses_of(chunk: Chunk[MaskedRows]) -> Tensor:  # the logits are freed on return: they are large
            with autocast(device, precision):
                _, losses = training.losses(chunk.inputs.to(device))
                return torch.stack(list(weighted(losses, texts.num_masked).values()))

        sums = chunk_backward(
            texts.chunks,
            losses_of,
            num_losses=len(weights),
            memory=memory,
            processes=processes,
            scale=loss_scale,
        )
        totals = dict(zip(weights, sums, strict=True))
        return {"loss": sum(totals.values()), **unweighted(totals)}

    if training.contrast is None:
        return by_chunks
    assert training.represent is not None, "a contrast is of representations"
    contrast, represent = training.contrast, training.represent
    memory_bytes = memory_for_graphs(model, device, memory_gb=training.memory_gb)

    def with_contrast(texts: MaskedTexts, loss_scale: float) -> dict[str, float]:
        fits = training.gradient_cache == "never" or graph_bytes(texts.chunks, model) <= memory_bytes
        figures = {}

        def encode(chunk: Chunk[MaskedRows]) -> Tensor:
            rows = chunk.inputs.rows.to(device)
            with autocast(device, precision):
                return represent(rows)

        def encode_with_losses(chunk: Chunk[MaskedRows]) -> tuple[Tensor, Mapping[str, Tensor]]:
            inputs = chunk.inputs.to(device)
            with autocast(device, precision):
                representations, losses = training.losses(inputs)
                assert representations is not None, "a contrast is of representations"
                return representations, weighted(losses, texts.num_masked)

        def contrastive_loss(**representations: Tensor) -> Tensor:
            loss = contrast(**representations)
            figures["contrastive"] = loss.item()
            return training.contrastive_weight * loss

        totals = batch_backward(
            texts.chunks,
            encode,
            contrastive_loss,
            num_rows=texts.num_rows,
            width=model.dim,
            memory=memory,
            processes=processes,
            scale=loss_scale,
            encode_with_losses=encode_with_losses if weights else None,
            loss_names=list(weights),
            keep_graphs=fits,
        )
        figures["loss"] = sum(totals.values())
        return {**figures, **unweighted(totals)}

    return with_contrast
