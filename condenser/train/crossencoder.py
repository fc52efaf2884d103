"""Fine-tuning a cross-encoder to tell the positive of a query from negatives of the same query."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from condenser.data.batches import (
    length_chunks,
    num_steps,
    pack_pairs,
    padded_width,
    pair_windows,
    step_items,
)
from condenser.data.randomness import stream_key
from condenser.data.tokens import Tokenizer
from condenser.files import atomic_folder
from condenser.loss.listwise import localised_contrastive_loss
from condenser.model.crossencoder import CrossEncoder
from condenser.model.devices import autocast
from condenser.model.layers import padding_mask
from condenser.train.checkpoint import LOG_NAME
from condenser.train.distributed import Processes
from condenser.train.finetune import LOSSES_FILE, batch_ids, count_examples, draw_passages, training_texts
from condenser.train.gradient_cache import Chunk, contrastive_backward
from condenser.train.loop import Batch, LoopSettings, held_work_folder, log_totals, train
from condenser.train.memory import StepMemory


@dataclass(frozen=True)
class PairRows:
    """Pairs of query and passage that are scored together. They stay on the CPU until then."""

    input_ids: Int[Tensor, "row token"]
    token_types: Int[Tensor, "row token"]
    attention_mask: Bool[Tensor, "row token"] | None


@dataclass(frozen=True)
class Pairs:
    """One process's chunks of a step's pairs, and the number of all pairs."""

    chunks: list[Chunk[PairRows]]
    num_pairs: int


def train_crossencoder(
    example_files: Sequence[Path],
    initial: Path,
    output: Path,
    *,
    collection_tokens: Sequence[Path],
    query_tokens: Path,
    doc_ids: Path,
    queries: Path,
    query_length: int,
    passage_length: int,
    batch_size: int,
    passages_per_query: int,
    rows_per_chunk: int,
    keep_graphs: bool,
    epochs: int | float,
    seed: int,
    precision: str,
    work_folder: Path,
    processes: Processes,
    **loop_settings: Unpack[LoopSettings],
) -> dict[str, int]:
    """Fine-tune a cross-encoder from the Hugging Face folder `initial` on examples; gives counts.

    Items, positives and negatives are drawn as for a bi-encoder. Each query must find its positive among
    its own passages (`condenser.loss.listwise`).

    Args:
        example_files: one file for each system that negatives come from; every line is an item.
        collection_tokens, query_tokens: token shards, rows as in `doc_ids` and `queries`.
        query_length, passage_length: as for a bi-encoder: a text has two tokens less, for specials.
        batch_size: queries an update, of all processes together.
        passages_per_query: the positive and its negatives.
        rows_per_chunk: pairs scored at a time, of similar length.
        keep_graphs: keep the graphs of the whole batch in memory; False computes each chunk twice
            instead. A training switches to that by itself when memory is full.
        seed: draws the new layer for scores, too.

    The other arguments are those of `condenser.train.loop.train`.
    """
    with held_work_folder(work_folder, processes):
        tokenizer = Tokenizer(initial)
        passages_shards, queries_shards, examples = training_texts(
            example_files,
            collection_tokens=collection_tokens,
            query_tokens=query_tokens,
            doc_ids=doc_ids,
            queries=queries,
        )
        model = CrossEncoder.start(initial, seed=seed)
        num_positions, longest = model.bert.config.max_position_embeddings, query_length + passage_length - 1
        if padded_width(longest) > num_positions:
            raise ValueError(
                f"{initial}: expected positions for a query and a passage ({longest} tokens with specials), "
                f"got {num_positions}. Lower lengths of the recipe, or take another backbone."
            )
        model.to(processes.device).train()
        memory = StepMemory(model, keeps_graphs=keep_graphs)

        def prepare(step: int) -> Batch[Pairs]:
            epoch, _, items = step_items(
                len(examples), batch_size=batch_size, step=step, seed=seed, stream="crossencoder"
            )
            draw = partial(
                draw_passages, examples, passages_per_query=passages_per_query, seed=seed, epoch=epoch
            )
            asked = examples.queries[items].astype(np.int64)
            passages = np.concatenate([draw(item) for item in items.tolist()])
            pairs = pair_windows(
                queries_shards,
                np.repeat(asked, passages_per_query),
                passages_shards,
                passages,
                query_length=query_length,
                passage_length=passage_length,
            )
            cuts, chunks = length_chunks(pairs.lengths, rows_per_chunk=rows_per_chunk), []
            for number in processes.mine(len(cuts)):
                of_chunk = pairs.at(cuts[number])
                ids, types = pack_pairs(
                    queries_shards,
                    passages_shards,
                    of_chunk,
                    cls_id=tokenizer.cls_id,
                    sep_id=tokenizer.sep_id,
                    pad_id=tokenizer.pad_id,
                )
                mask = padding_mask(torch.from_numpy(of_chunk.lengths), width=ids.shape[1])
                rows = PairRows(torch.from_numpy(ids), torch.from_numpy(types), mask)
                dropout_seed = stream_key(seed, f"dropout of pairs of step {step}", number)
                chunks.append(Chunk("scores", torch.from_numpy(cuts[number]), rows, dropout_seed))
            return Batch(
                Pairs(chunks, len(passages)),
                epoch,
                len(items),
                int(pairs.lengths.sum()),
                lambda: batch_ids(asked, passages, queries=queries, doc_ids=doc_ids),
            )

        def score(pairs: PairRows) -> Tensor:
            device, mask = processes.device, pairs.attention_mask
            with autocast(device, precision):
                scores: Tensor = model(
                    pairs.input_ids.to(device, non_blocking=True),
                    pairs.token_types.to(device, non_blocking=True),
                    None if mask is None else mask.to(device, non_blocking=True),
                )
                return scores

        def backward(pairs: Pairs, step: int, loss_scale: float) -> dict[str, float]:
            losses = contrastive_backward(
                pairs.chunks,
                score,
                partial(localised_contrastive_loss, passages_per_query=passages_per_query),
                num_rows={"scores": pairs.num_pairs},
                dim=1,
                encode_with_losses=None,
                loss_names=[],
                keep_graphs=keep_graphs,
                memory=memory,
                processes=processes,
                scale=loss_scale,
            )
            return {"loss": losses["contrastive"]}

        train(
            model,
            prepare,
            backward,
            num_steps=num_steps(len(examples), batch_size=batch_size, epochs=epochs),
            use_loss_scale=precision == "fp16",
            work_folder=work_folder,
            processes=processes,
            title="fine-tuning",
            **loop_settings,
        )
        if processes.is_first:
            with atomic_folder(output) as folder:
                model.save(folder, initial)
                shutil.copyfile(work_folder / LOG_NAME, folder / LOSSES_FILE)
        return {
            **count_examples(examples, passages_per_query=passages_per_query),
            **log_totals(work_folder / LOG_NAME),
        }
