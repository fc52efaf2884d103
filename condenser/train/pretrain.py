"""The two pre-trainings: Condenser on blocks of text, coCondenser on pairs of spans.

Both take token shards and the folder to begin from, and leave a folder that the next stage begins
from: the backbone as a Hugging Face folder, both heads beside it, and `losses.jsonl`, one line a
step.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from condenser.data.batches import length_chunks, num_steps, pack_texts, step_items
from condenser.data.blocks import block_windows, pack_blocks
from condenser.data.masking import mask_tokens
from condenser.data.randomness import stream_key
from condenser.data.records import count_doc_ids, read_doc_ids
from condenser.data.spans import sample_spans, span_documents
from condenser.data.tokens import Tokenizer, TokenShards, refuse_other_ids
from condenser.files import atomic_folder
from condenser.loss.contrastive import span_contrastive_loss
from condenser.loss.mlm import masked_cross_entropy_sum
from condenser.model.devices import autocast
from condenser.model.layers import padding_mask
from condenser.model.pretraining import Condenser, CondenserOutput
from condenser.train.checkpoint import LOG_NAME
from condenser.train.distributed import Processes
from condenser.train.gradient_cache import Chunk, contrastive_backward
from condenser.train.loop import Batch, LoopSettings, held_work_folder, log_totals, train
from condenser.train.memory import StepMemory

LOSSES_FILE = "losses.jsonl"


@dataclass(frozen=True)
class MaskedRows:
    """Masked texts that are computed together, on the CPU until they are."""

    input_ids: Int[Tensor, "row token"]
    attention_mask: Bool[Tensor, "row token"] | None
    masked_positions: Int[Tensor, " masked"]  # flat positions in input_ids
    labels: Int[Tensor, " masked"]

    def to(self, device: torch.device) -> MaskedRows:
        """The same on the device that computes them."""
        mask = None if self.attention_mask is None else self.attention_mask.to(device, non_blocking=True)
        return MaskedRows(
            self.input_ids.to(device, non_blocking=True),
            mask,
            self.masked_positions.to(device, non_blocking=True),
            self.labels.to(device, non_blocking=True),
        )


@dataclass(frozen=True)
class MaskedTexts:
    """One process's chunks of a step's masked texts, and what the whole batch counts."""

    chunks: list[Chunk[MaskedRows]]
    num_rows: int
    num_masked: int


def pretrain_condenser(
    token_prefixes: Sequence[Path],
    initial: Path,
    output: Path,
    *,
    doc_ids: Path,
    skip_from: int,
    num_head_layers: int,
    late_mlm_weight: float,
    max_tokens: int,
    short_probability: float,
    mask_probability: float,
    batch_size: int,
    rows_per_chunk: int,
    epochs: int | float,
    seed: int,
    precision: str,
    work_folder: Path,
    processes: Processes,
    **loop_settings: Unpack[LoopSettings],
) -> dict[str, int]:
    """Pre-train the backbone in `initial`, with a new Condenser head, on blocks; gives counts.

    The loss of a step is the head's masked language model plus `late_mlm_weight` times the last
    layer's, each the mean over all masked tokens of the whole batch, however it is cut into chunks
    and dealt to processes. Source: Condenser, §3 and §4.1, eq. 11.

    Args:
        token_prefixes: the shards of the collection, in order.
        doc_ids: the ids of its rows, to name texts by.
        batch_size: blocks an update, of all processes together.
        rows_per_chunk: blocks computed at a time, of like length.

    The rest is named as in the config's block `condenser` or as in `condenser.train.loop.train`.
    """
    with held_work_folder(work_folder, processes):
        shards, tokenizer = TokenShards(token_prefixes), Tokenizer(initial)
        refuse_other_ids(shards, count_doc_ids(doc_ids), tokens=token_prefixes[0], ids=doc_ids)
        blocks = pack_blocks(shards, max_tokens=max_tokens, short_probability=short_probability, seed=seed)
        if len(blocks) == 0:
            raise ValueError(
                f"{token_prefixes[0]}: expected texts to pre-train on, "
                f"got {shards.num_rows} rows, all empty. Look into the collection."
            )
        model = Condenser.load(
            initial,
            num_head_layers=num_head_layers,
            skip_from=skip_from,
            use_late_mlm=late_mlm_weight > 0,
            missing_head="random",
            seed=seed,
            dropout=None,
        )
        model.to(processes.device).train()
        memory = StepMemory(model, keeps_graphs=False)

        def prepare(step: int) -> Batch[MaskedTexts]:
            epoch, _, items = step_items(
                len(blocks), batch_size=batch_size, step=step, seed=seed, stream="condenser"
            )
            starts, lengths = block_windows(blocks, items, max_tokens=max_tokens, seed=seed, epoch=epoch)
            texts = masked_texts(
                shards,
                starts,
                lengths,
                positions=items,
                tokenizer=tokenizer,
                mask_probability=mask_probability,
                rows_per_chunk=rows_per_chunk,
                seed=seed,
                epoch=epoch,
                step=step,
                processes=processes,
            )
            num_tokens = int(lengths.sum()) + 2 * len(items)
            return Batch(texts, epoch, len(items), num_tokens, lambda: _ids_of(shards, starts, doc_ids))

        term_weights = _without_zeros({"head_mlm": 1.0, "late_mlm": late_mlm_weight})

        def backward(texts: MaskedTexts, step: int, loss_scale: float) -> dict[str, float]:
            def terms_of(chunk: Chunk[MaskedRows]) -> Tensor:  # returns without its logits: they are large
                torch.manual_seed(chunk.seed)
                rows = chunk.inputs.to(processes.device)
                with autocast(processes.device, precision):
                    output = model(rows.input_ids, rows.attention_mask, rows.masked_positions)
                    terms = _mlm_terms(output, rows.labels, term_weights, num_masked=texts.num_masked)
                return torch.stack(list(terms.values()))

            def back() -> list[float]:
                sums = torch.zeros(len(term_weights), dtype=torch.float64, device=processes.device)
                for chunk in texts.chunks:
                    terms = terms_of(chunk)
                    (terms.sum() * loss_scale).backward()
                    sums += terms.detach()
                return sums.tolist()

            sums = processes.sum_floats(memory.fitting(back))
            totals = dict(zip(term_weights, sums, strict=True))
            return {"loss": sum(totals.values()), **_unweighted(totals, term_weights)}

        train(
            model,
            prepare,
            backward,
            num_steps=num_steps(len(blocks), batch_size=batch_size, epochs=epochs),
            use_loss_scale=precision == "fp16",
            work_folder=work_folder,
            processes=processes,
            **loop_settings,
            title="condenser",
        )
        if processes.is_first:
            _save(model, initial, output, work_folder=work_folder)
        return {
            "rows": shards.num_rows,
            "rows_without_text": blocks.num_empty_rows,
            "blocks": len(blocks),
            "blocks_cut_to_a_window": blocks.num_long,
            **log_totals(work_folder / LOG_NAME),
        }


def pretrain_cocondenser(
    token_prefixes: Sequence[Path],
    initial: Path,
    output: Path,
    *,
    doc_ids: Path,
    skip_from: int,
    num_head_layers: int,
    late_mlm_weight: float,
    min_span_tokens: int,
    span_tokens: Sequence[int],
    short_probability: float,
    mask_probability: float,
    mlm_weight: float,
    contrastive_weight: float,
    batch_size: int,
    rows_per_chunk: int,
    gradient_cache: Literal["auto", "always", "never"],
    memory_gb: float,
    missing_head: Literal["refuse", "random"],
    epochs: int | float,
    seed: int,
    precision: str,
    work_folder: Path,
    processes: Processes,
    **loop_settings: Unpack[LoopSettings],
) -> dict[str, int]:
    """Go on pre-training the Condenser in `initial`, head and all, on two spans a document; gives counts.

    The loss of a step is `contrastive_weight` times the contrastive loss of the late [CLS] vectors
    of all 2n spans (coCondenser, eq. 6) plus `mlm_weight` times the Condenser's masked language
    model loss. Eq. 7 averages both over the spans, 1:1. Its MLM term is a mean over a span's masked
    tokens first; ours is the mean over all masked tokens of the batch, as in the first stage and in
    the authors' code: spans count by their masked tokens, all alike where spans are equally long.
    (The authors' cached path divides the MLM's sum by documents instead of spans and so weighs it 2.)

    Args:
        token_prefixes: the shards of the collection, in order.
        doc_ids: the ids of its rows, to name texts by.
        batch_size: documents an update, of all processes together; the spans of all are negatives.
        rows_per_chunk: spans computed at a time, of like length.
        gradient_cache: compute each chunk twice instead of keeping its graph: "always", "never", or
            "auto", for the batches whose graphs are estimated not to fit; and always once memory has
            been full. Weights do not change by it.
        memory_gb: what fits on a CPU; on a GPU it is what is free.
        missing_head: what to do with an `initial` that has no Condenser head; see `Condenser.load`.

    The rest is named as in the config's block `cocondenser` or as in `condenser.train.loop.train`.
    """
    with held_work_folder(work_folder, processes):
        shards, tokenizer = TokenShards(token_prefixes), Tokenizer(initial)
        refuse_other_ids(shards, count_doc_ids(doc_ids), tokens=token_prefixes[0], ids=doc_ids)
        documents = span_documents(shards, min_tokens=min_span_tokens)
        model = Condenser.load(
            initial,
            num_head_layers=num_head_layers,
            skip_from=skip_from,
            use_late_mlm=late_mlm_weight > 0,
            missing_head=missing_head,
            seed=seed,
            dropout=None,
        )
        model.to(processes.device).train()
        memory = StepMemory(model, keeps_graphs=gradient_cache != "always")
        memory_bytes = _memory_for_graphs(model, processes.device, memory_gb=memory_gb)

        def prepare(step: int) -> Batch[MaskedTexts]:
            epoch, _, items = step_items(
                len(documents), batch_size=batch_size, step=step, seed=seed, stream="cocondenser"
            )
            starts, lengths = sample_spans(
                shards,
                documents,
                items,
                is_continuation=tokenizer.is_continuation,
                min_tokens=min_span_tokens,
                lengths=span_tokens,
                short_probability=short_probability,
                seed=seed,
                epoch=epoch,
            )
            texts = masked_texts(
                shards,
                starts,
                lengths,
                positions=(2 * items[:, None] + np.arange(2)).ravel(),
                tokenizer=tokenizer,
                mask_probability=mask_probability,
                rows_per_chunk=rows_per_chunk,
                seed=seed,
                epoch=epoch,
                step=step,
                processes=processes,
            )
            num_tokens = int(lengths.sum()) + 2 * len(lengths)
            return Batch(texts, epoch, len(items), num_tokens, lambda: _ids_of(shards, starts[::2], doc_ids))

        term_weights = _without_zeros({"head_mlm": mlm_weight, "late_mlm": mlm_weight * late_mlm_weight})

        def backward(texts: MaskedTexts, step: int, loss_scale: float) -> dict[str, float]:
            figures = {}

            def encode(inputs: MaskedRows) -> Tensor:
                rows = inputs.to(processes.device)
                with autocast(processes.device, precision):
                    return model.late_cls(rows.input_ids, rows.attention_mask)

            def encode_with_losses(inputs: MaskedRows) -> tuple[Tensor, Mapping[str, Tensor]]:
                rows = inputs.to(processes.device)
                with autocast(processes.device, precision):
                    output = model(rows.input_ids, rows.attention_mask, rows.masked_positions)
                    terms = _mlm_terms(output, rows.labels, term_weights, num_masked=texts.num_masked)
                return output.cls, terms

            def contrastive_loss(spans: Tensor) -> Tensor:
                loss = span_contrastive_loss(spans)
                figures["contrastive"] = loss.item()
                return contrastive_weight * loss

            fits = gradient_cache == "never" or graph_bytes(texts.chunks, model) <= memory_bytes
            totals = contrastive_backward(
                texts.chunks,
                encode,
                contrastive_loss,
                num_rows={"spans": texts.num_rows},
                dim=model.backbone.config.hidden_size,
                encode_with_losses=encode_with_losses if term_weights else None,
                loss_names=list(term_weights),
                keep_graphs=fits,
                memory=memory,
                processes=processes,
                scale=loss_scale,
            )
            figures["loss"] = sum(totals.values())
            return {**figures, **_unweighted(totals, term_weights)}

        train(
            model,
            prepare,
            backward,
            num_steps=num_steps(len(documents), batch_size=batch_size, epochs=epochs),
            use_loss_scale=precision == "fp16",
            work_folder=work_folder,
            processes=processes,
            **loop_settings,
            title="cocondenser",
        )
        if processes.is_first:
            _save(model, initial, output, work_folder=work_folder)
        return {
            "rows": shards.num_rows,
            "documents": len(documents),
            "documents_left_out": documents.num_left_out,
            **log_totals(work_folder / LOG_NAME),
        }


def masked_texts(
    shards: TokenShards,
    starts: Int[np.ndarray, " row"],
    lengths: Int[np.ndarray, " row"],
    *,
    positions: Int[np.ndarray, " row"],
    tokenizer: Tokenizer,
    mask_probability: float,
    rows_per_chunk: int,
    seed: int,
    epoch: int,
    step: int,
    processes: Processes,
) -> MaskedTexts:
    """The whole batch masked, its count of masked tokens, and this process's chunks of it.

    Every process masks all of the batch: that is cheap, and spares them telling each other counts.
    """
    chunks = []
    num_masked = 0
    cuts = length_chunks(lengths, rows_per_chunk=rows_per_chunk)
    mine = processes.mine(len(cuts))
    for number, rows in enumerate(cuts):
        ids, whole = pack_texts(
            shards,
            starts[rows],
            lengths[rows],
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
        )
        masked = mask_tokens(
            ids,
            whole,
            is_continuation=tokenizer.is_continuation,
            random_ids=tokenizer.random_ids,
            mask_id=tokenizer.mask_id,
            probability=mask_probability,
            max_predictions=ids.shape[1],  # BERT's limit of 20 is not the authors'
            positions=positions[rows],
            seed=seed,
            epoch=epoch,
        )
        num_masked += len(masked.labels)
        if number in mine:
            inputs = MaskedRows(
                torch.from_numpy(masked.input_ids),
                padding_mask(torch.from_numpy(masked.lengths), width=ids.shape[1]),
                torch.from_numpy(masked.masked_positions),
                torch.from_numpy(masked.labels),
            )
            seed_of_chunk = stream_key(seed, f"dropout of step {step}", number)
            chunks.append(Chunk("spans", torch.from_numpy(rows), inputs, seed_of_chunk))
    return MaskedTexts(chunks, len(starts), num_masked)


def graph_bytes(chunks: Sequence[Chunk[MaskedRows]], model: Condenser) -> int:
    """About the memory that the graphs of these chunks hold, all kept at once, in float32.

    Per token and layer: 20 vectors of the hidden size (inputs, queries, keys, values, context, both
    dropout masks, LayerNorms, the four-fold feed-forward before and after its activation) and three
    attention rows a head. Per masked token: three times the vocabulary (logits, their softmax, the
    gradient) for each of the two heads.
    """
    config = model.backbone.config
    num_layers = config.num_hidden_layers + len(model.head)
    vectors = 12 * config.hidden_size + 2 * config.intermediate_size
    numbers = 0
    for chunk in chunks:
        num_tokens, width = chunk.inputs.input_ids.numel(), chunk.inputs.input_ids.shape[1]
        numbers += num_tokens * num_layers * (vectors + 3 * config.num_attention_heads * width)
        numbers += len(chunk.inputs.labels) * 3 * 2 * config.vocab_size
    return 4 * numbers


def _memory_for_graphs(model: Condenser, device: torch.device, *, memory_gb: float) -> int:
    if device.type != "cuda":
        return int(memory_gb * 1e9)
    free, _ = torch.cuda.mem_get_info(device)
    to_come = 3 * 4 * sum(weight.numel() for weight in model.parameters())  # gradients, two moments
    return int(0.8 * (free - to_come))


def _without_zeros(weights: Mapping[str, float]) -> dict[str, float]:
    return {name: weight for name, weight in weights.items() if weight > 0}


def _mlm_terms(
    output: CondenserOutput, labels: Int[Tensor, " masked"], weights: Mapping[str, float], *, num_masked: int
) -> dict[str, Tensor]:
    """A chunk's part of each weighted masked language model term of the batch's loss.

    Each term is a mean over the batch's `num_masked` tokens. Source: Condenser, eq. 9-11.
    """
    logits = {"head_mlm": output.head_logits}
    if output.late_logits is not None:
        logits["late_mlm"] = output.late_logits
    count = max(num_masked, 1)  # a batch masks nothing where all words are longer than their row's budget
    return {
        name: masked_cross_entropy_sum(logits[name], labels) * (weight / count)
        for name, weight in weights.items()
    }


def _unweighted(terms: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """The terms as a log should show them, comparable between weights."""
    return {name: terms[name] / weight for name, weight in weights.items()}


def _ids_of(shards: TokenShards, starts: Int[np.ndarray, " item"], doc_ids: Path) -> dict[str, list[str]]:
    """The documents these texts are of; their ids are read only now, as a training holds rows alone."""
    rows = np.searchsorted(shards.row_starts, starts, side="right") - 1
    ids = read_doc_ids(doc_ids)
    return {"documents": [ids[row] for row in rows.tolist()]}


def _save(model: Condenser, initial: Path, output: Path, *, work_folder: Path) -> None:
    with atomic_folder(output) as folder:
        model.save(folder, initial)
        shutil.copyfile(work_folder / LOG_NAME, folder / LOSSES_FILE)
