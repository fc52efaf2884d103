"""Fine-tuning: training a bi-encoder to tell the positives of a query from negatives."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from condenser.blocks import FineTuning
from condenser.data.batches import length_chunks, pack_texts, row_windows
from condenser.data.randomness import stream_key
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.loss.contrastive import in_batch_loss
from condenser.model.devices import autocast
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.model.text_vector import Role
from condenser.model.untied import UntiedEncoders
from condenser.train.chunks import Chunk, ChunkedTexts
from condenser.train.examples import TrainingFiles, count_examples, draw_passages
from condenser.train.gradient_cache import contrastive_backward
from condenser.train.loop import Batch, Run, train
from condenser.train.memory import StepMemory

_ROLES: dict[str, Role] = {"queries": "query", "passages": "passage"}  # of groups of texts


def train_retriever(
    files: TrainingFiles, initial: Path, output: Path, run: Run[FineTuning], *, keep_graphs: bool = True
) -> dict[str, int]:
    """Fine-tune a bi-encoder from the Hugging Face folder `initial` on examples; gives counts.

    Each query must find its positive among all passages of the batch: its own negatives, and the
    passages of the other queries. An epoch ends with a shorter batch if the examples do not
    divide evenly. Source: coCondenser, §3.4 and A.1; eq. 14 is `condenser.loss.contrastive.in_batch_loss`.

    Args:
        run: its settings are the recipe. Read here: `lengths` (tokens a text is cut to, with specials and
            prompt), `passages_per_query` (the positive and its negatives), `rows_per_chunk` (texts encoded at
            a time, of similar length), `tied` (one encoder for queries and passages; False gives each its
            own, as DPR), `scale` (of the similarities in the loss; None for that of the model's vector).
        keep_graphs: keep the graphs of the whole batch in memory; False computes each chunk twice
            instead. A training switches to that by itself when memory is full.
    """
    settings, seed, processes = run.settings, run.seed, run.processes
    tokenizer = Tokenizer(initial)
    passages_shards, queries_shards, examples = files.read()
    model: Retriever | UntiedEncoders
    model = (Retriever if settings.tied else UntiedEncoders).load(initial, dropout=None)
    encoders = {
        "queries": model.queries if isinstance(model, UntiedEncoders) else model,
        "passages": model.passages if isinstance(model, UntiedEncoders) else model,
    }
    prompts = {
        group: tokenizer.encode_prompt(
            encoders[group].vector.prompt(role), max_tokens=getattr(settings.lengths, role)
        )
        for group, role in _ROLES.items()
    }
    model.to(processes.device).train()
    memory = StepMemory(model, keeps_graphs=keep_graphs)

    def chunks_of(
        group: str, shards: TokenShards, rows: np.ndarray, *, step: int
    ) -> tuple[list[Chunk[Rows]], int]:
        """This process's chunks of a group of texts, and the tokens of all of them."""
        prompt, max_tokens = prompts[group], getattr(settings.lengths, _ROLES[group])
        starts, lengths = row_windows(shards, rows, max_tokens=max_tokens - len(prompt))
        cuts = length_chunks(lengths, rows_per_chunk=settings.rows_per_chunk)
        chunks = []
        for number in processes.mine(len(cuts)):
            places = cuts[number]
            ids, whole = pack_texts(shards, starts[places], lengths[places], tokenizer, prompt=prompt)
            rows_of_chunk = Rows.of(ids, whole, device=processes.device)
            dropout_seed = stream_key(seed, f"dropout of {group} of step {step}", number)
            chunks.append(Chunk(group, torch.from_numpy(places), rows_of_chunk, dropout_seed))
        return chunks, int(lengths.sum()) + (len(prompt) + 2) * len(lengths)

    def prepare(step: int) -> Batch[ChunkedTexts[Rows]]:
        epoch, items = run.items_of(step, len(examples), stream="retriever")
        asked = examples.queries[items].astype(np.int64)
        passages = draw_passages(
            examples, items, passages_per_query=settings.passages_per_query, seed=seed, epoch=epoch
        )
        query_chunks, num_query_tokens = chunks_of("queries", queries_shards, asked, step=step)
        passage_chunks, num_passage_tokens = chunks_of("passages", passages_shards, passages, step=step)
        num_rows = {"queries": len(asked), "passages": len(passages)}
        return Batch(
            ChunkedTexts(query_chunks + passage_chunks, num_rows),
            epoch,
            len(items),
            num_query_tokens + num_passage_tokens,
            lambda: files.batch_ids(asked, passages),
            len(examples),
        )

    def encode(chunk: Chunk[Rows]) -> Tensor:
        with autocast(processes.device, run.precision):
            return encoders[chunk.group](chunk.inputs.to(processes.device))

    def backward(texts: ChunkedTexts[Rows], step: int, loss_scale: float) -> dict[str, float]:
        losses = contrastive_backward(
            texts.chunks,
            encode,
            partial(in_batch_loss, scale=settings.scale or encoders["queries"].vector.scale),
            num_rows=texts.num_rows,
            dim=encoders["queries"].dim,
            memory=memory,
            processes=processes,
            scale=loss_scale,
        )
        return {"loss": losses["contrastive"]}

    num_steps = run.num_steps(len(examples), title="fine-tuning")
    train(model, prepare, backward, run, num_steps=num_steps, title="fine-tuning")
    totals = run.finish(output, lambda folder: model.save(folder, initial))
    return {**count_examples(examples, settings.passages_per_query), **totals}
