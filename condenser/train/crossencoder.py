"""Fine-tuning a cross-encoder to tell the positive of a query from negatives of the same query."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from condenser.blocks import FineTuning
from condenser.data.batches import length_chunks, pack_pairs, pair_windows
from condenser.data.randomness import stream_key
from condenser.data.tokens import Tokenizer
from condenser.files import write_json
from condenser.loss.listwise import localised_contrastive_loss, pointwise_loss
from condenser.model.crossencoder import CrossEncoder
from condenser.model.devices import autocast
from condenser.model.rows import Rows
from condenser.train.chunks import Chunk, ChunkedTexts
from condenser.train.examples import TrainingFiles, count_examples, draw_passages
from condenser.train.gradient_cache import batch_backward
from condenser.train.loop import Batch, Run, Trainable
from condenser.train.memory import StepMemory
from condenser.train.validation import NOT_COMPARED, VALIDATION_FILE

LOSSES = {"localised": localised_contrastive_loss, "pointwise": pointwise_loss}


def crossencoder_training(
    files: TrainingFiles,
    initial: Path,
    run: Run[FineTuning],
    *,
    loss: Literal["localised", "pointwise"] = "localised",
) -> Trainable[ChunkedTexts[Rows]]:
    """Fine-tuning of a cross-encoder from the Hugging Face folder `initial` on examples.

    Items, positives and negatives are drawn as for a bi-encoder. With the loss `localised` each query must
    find its positive among its own passages, with `pointwise` each pair is relevant or not
    (`condenser.loss.listwise`).

    Args:
        run: its settings are the recipe, read as for a bi-encoder, but for `tied` and `scale`;
            `rows_per_chunk` pairs are scored at a time. The seed draws the new layer for scores, too.
    """
    settings, seed, processes = run.settings, run.seed, run.processes
    passages_per_query, lengths = settings.passages_per_query, settings.lengths
    tokenizer = Tokenizer(initial)
    passages_shards, queries_shards, examples, held_out = files.read()
    model = CrossEncoder.start(initial, seed=seed)
    config = model.encoder.config
    num_positions, has_segments = config.num_positions, config.layout.has_segments
    longest = int(lengths.query) + int(lengths.passage) - 2 + tokenizer.num_separators  # they share a [CLS]
    if longest > num_positions:
        raise ValueError(
            f"{initial}: expected positions for a query and a passage ({longest} tokens with specials), "
            f"got {num_positions}. Lower lengths of the recipe, or take another backbone."
        )
    model.to(processes.device).train()
    memory = StepMemory(model, keeps_graphs=True)

    def prepare(step: int) -> Batch[ChunkedTexts[Rows]]:
        epoch, items = run.items_of(step, len(examples), stream="crossencoder")
        asked = examples.queries[items].astype(np.int64)
        passages = draw_passages(
            examples,
            items,
            passages_per_query=passages_per_query,
            seed=seed,
            epoch=epoch,
            num_passages=passages_shards.num_rows,
        )
        pairs = pair_windows(
            queries_shards,
            np.repeat(asked, passages_per_query),
            passages_shards,
            passages,
            query_length=int(lengths.query),
            passage_length=int(lengths.passage),
            num_separators=tokenizer.num_separators,
        )
        cuts, chunks = length_chunks(pairs.lengths, rows_per_chunk=settings.rows_per_chunk), []
        for number in processes.mine(len(cuts)):
            of_chunk = pairs.at(cuts[number])
            ids, types = pack_pairs(queries_shards, passages_shards, of_chunk, tokenizer)
            rows = Rows.of(
                ids, of_chunk.lengths, token_types=types if has_segments else None, device=processes.device
            )
            dropout_seed = stream_key(seed, f"dropout of pairs of step {step}", number)
            chunks.append(Chunk("scores", torch.from_numpy(cuts[number]), rows, dropout_seed))
        return Batch(
            ChunkedTexts(chunks, {"scores": len(passages)}),
            epoch,
            len(items),
            int(pairs.lengths.sum()),
            lambda: files.texts.batch_ids(asked, passages),
            len(examples),
        )

    def score(chunk: Chunk[Rows]) -> Tensor:
        with autocast(processes.device, run.precision):
            scores: Tensor = model(chunk.inputs.to(processes.device))
            return scores

    def backward(pairs: ChunkedTexts[Rows], loss_scale: float) -> dict[str, float]:
        losses = batch_backward(
            pairs.chunks,
            score,
            partial(LOSSES[loss], passages_per_query=passages_per_query),
            num_rows=pairs.num_rows,
            width=1,
            memory=memory,
            processes=processes,
            scale=loss_scale,
        )
        return {"loss": losses["batch"]}

    def save(folder: Path) -> None:
        model.save(folder, initial)
        write_json(folder / VALIDATION_FILE, asdict(NOT_COMPARED))

    counts = count_examples(examples, held_out, passages_per_query)
    return Trainable("fine-tuning", model, len(examples), prepare, backward, save, counts)
