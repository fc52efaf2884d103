"""Training a bi-encoder: to tell the positives of a query from negatives, or to score as a teacher does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from condenser.blocks import FineTuning, Validation
from condenser.data.batches import length_chunks, pack_texts, row_windows
from condenser.data.randomness import stream_key
from condenser.data.text_files import TextFiles
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.files import write_json
from condenser.loss.contrastive import in_batch_loss
from condenser.loss.listwise import listwise_kl
from condenser.loss.precision import at_least_float32
from condenser.model.devices import autocast
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.model.text_vector import Role
from condenser.model.untied import UntiedEncoders
from condenser.train.chunks import Chunk, ChunkedTexts
from condenser.train.examples import ExampleRows, TrainingFiles, count_examples, draw_passages
from condenser.train.gradient_cache import contrastive_backward
from condenser.train.loop import Batch, Run, train
from condenser.train.memory import StepMemory
from condenser.train.pretrain import mix_in
from condenser.train.teacher import TaughtFiles
from condenser.train.validation import (
    NOT_COMPARED,
    VALIDATION_FILE,
    HeldOutQueries,
    held_out_queries,
    keep_better,
    reciprocal_ranks,
)

log = logging.getLogger(__name__)

_ROLES: dict[str, Role] = {"queries": "query", "passages": "passage"}  # of groups of texts


def train_retriever(
    files: TrainingFiles, initial: Path, output: Path, run: Run[FineTuning], *, keep_graphs: bool = True
) -> dict[str, int]:
    """Fine-tune a bi-encoder from the Hugging Face folder `initial` on examples; gives counts.

    Each query must find its positive among all passages of the batch: its own negatives, and the
    passages of the other queries. An epoch ends with a shorter batch if the examples do not
    divide evenly. Source: coCondenser, §3.4 and §4.2; eq. 14 is `condenser.loss.contrastive.in_batch_loss`.

    Args:
        run: its settings are the recipe. Read here: `lengths` (tokens a text is cut to, with specials and
            prompt), `passages_per_query` (the positive and its negatives), `rows_per_chunk` (texts encoded at
            a time, of similar length), `tied` (one encoder for queries and passages; False gives each its
            own, as DPR), `scale` (of the similarities in the loss; None for that of the model's vector).
        keep_graphs: keep the graphs of the whole batch in memory; False computes each chunk twice
            instead. A training switches to that by itself when memory is full.
    """
    passages, queries, examples, held_out = files.read()
    passages_per_query = run.settings.passages_per_query

    def draw(items: np.ndarray, epoch: int) -> np.ndarray:
        return draw_passages(
            examples, items, passages_per_query=passages_per_query, seed=run.seed, epoch=epoch
        )

    totals = _train(
        files.texts,
        (passages, queries),
        examples.queries,
        draw,
        lambda items, scale: partial(in_batch_loss, scale=scale),
        initial,
        output,
        run,
        keep_graphs=keep_graphs,
        held_out=held_out,
        validation=files.validation,
    )
    return {**count_examples(examples, held_out, passages_per_query), **totals}


def distil_retriever(
    files: TaughtFiles, initial: Path, output: Path, run: Run[FineTuning], *, keep_graphs: bool = True
) -> dict[str, int]:
    """Train a bi-encoder from the Hugging Face folder `initial` to score as a teacher does; gives counts.

    An item is a query with the first `passages_per_query` hits of the teacher (`condenser.train.teacher`);
    the loss is `condenser.loss.listwise.listwise_kl`. `scale` of the recipe is the inverse of the student's
    temperature; the rest is read as by `train_retriever`.
    """
    passages, queries, taught = files.read(passages_per_query=run.settings.passages_per_query)

    def loss(items: np.ndarray, scale: float) -> Callable[..., Tensor]:
        teacher_scores = torch.from_numpy(taught.scores[items])

        def of_batch(queries: Tensor, passages: Tensor) -> Tensor:
            of_query = at_least_float32(passages).view(*teacher_scores.shape, -1)
            with torch.autocast(queries.device.type, enabled=False):
                scores = torch.einsum("qd,qpd->qp", at_least_float32(queries), of_query) * scale
            return listwise_kl(scores, teacher_scores.to(scores), temperature=files.temperature)

        return of_batch

    totals = _train(
        files.texts,
        (passages, queries),
        taught.queries,
        lambda items, epoch: taught.passages[items].ravel(),
        loss,
        initial,
        output,
        run,
        keep_graphs=keep_graphs,
        initial_share=files.initial_share,
    )
    return {**taught.counts, **totals}


def _train(
    texts: TextFiles,
    shards: tuple[TokenShards, TokenShards],
    queries: np.ndarray,
    draw: Callable[[np.ndarray, int], np.ndarray],
    loss: Callable[[np.ndarray, float], Callable[..., Tensor]],
    initial: Path,
    output: Path,
    run: Run[FineTuning],
    *,
    keep_graphs: bool,
    initial_share: float = 0.0,
    held_out: ExampleRows | None = None,
    validation: Validation | None = None,
) -> dict[str, int]:
    """Train a bi-encoder on queries with passages; gives the sums over the log.

    Args:
        shards: of the passages and of the queries.
        queries: int [item], the row of each item's query.
        draw: the passages of some items in an epoch, int [item x passages_per_query], by row.
        loss: of some items and the scale of similarities, the loss of their vectors: `queries` [query, dim]
            and `passages` [passage, dim], float32.
        initial_share: of the weights of `initial` in the encoder that is written (`mix_in`).
        held_out: examples to compare the model with its start on, as `validation` says; the result is in
            `validation.json` of the folder. None of a training without judgements.
    """
    settings, seed, processes = run.settings, run.seed, run.processes
    tokenizer = Tokenizer(initial)
    passages_shards, queries_shards = shards
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
    compares = held_out is not None and len(held_out) > 0 and validation is not None
    keeps_start = initial_share > 0 or compares
    start = {name: weight.clone() for name, weight in model.named_parameters()} if keeps_start else {}
    model.to(processes.device).train()
    memory = StepMemory(model, keeps_graphs=keep_graphs)

    def chunks_of(
        group: str,
        shards: TokenShards,
        rows: np.ndarray,
        *,
        step: int,
        numbers: Callable[[int], Iterable[int]] = processes.mine,
    ) -> tuple[list[Chunk[Rows]], int]:
        """This process's chunks of a group of texts, and the tokens of all of them."""
        prompt, max_tokens = prompts[group], getattr(settings.lengths, _ROLES[group])
        starts, lengths = row_windows(shards, rows, max_tokens=max_tokens - len(prompt))
        cuts = length_chunks(lengths, rows_per_chunk=settings.rows_per_chunk)
        chunks = []
        for number in numbers(len(cuts)):
            places = cuts[number]
            ids, whole = pack_texts(shards, starts[places], lengths[places], tokenizer, prompt=prompt)
            rows_of_chunk = Rows.of(ids, whole, device=processes.device)
            dropout_seed = stream_key(seed, f"dropout of {group} of step {step}", number)
            chunks.append(Chunk(group, torch.from_numpy(places), rows_of_chunk, dropout_seed))
        return chunks, int(lengths.sum()) + (len(prompt) + 2) * len(lengths)

    def prepare(step: int) -> Batch[ChunkedTexts[Rows]]:
        epoch, items = run.items_of(step, len(queries), stream="retriever")
        asked, passages = queries[items].astype(np.int64), draw(items, epoch)
        query_chunks, num_query_tokens = chunks_of("queries", queries_shards, asked, step=step)
        passage_chunks, num_passage_tokens = chunks_of("passages", passages_shards, passages, step=step)
        num_rows = {"queries": len(asked), "passages": len(passages)}
        return Batch(
            ChunkedTexts(query_chunks + passage_chunks, num_rows),
            epoch,
            len(items),
            num_query_tokens + num_passage_tokens,
            lambda: texts.batch_ids(asked, passages),
            len(queries),
        )

    def encode(chunk: Chunk[Rows]) -> Tensor:
        with autocast(processes.device, run.precision):
            return encoders[chunk.group](chunk.inputs.to(processes.device))

    def backward(batch: ChunkedTexts[Rows], step: int, loss_scale: float) -> dict[str, float]:
        _, items = run.items_of(step, len(queries), stream="retriever")
        losses = contrastive_backward(
            batch.chunks,
            encode,
            loss(items, settings.scale or encoders["queries"].vector.scale),
            num_rows=batch.num_rows,
            dim=encoders["queries"].dim,
            memory=memory,
            processes=processes,
            scale=loss_scale,
        )
        return {"loss": losses["contrastive"]}

    def vectors(group: str, shards: TokenShards, rows: np.ndarray) -> Tensor:
        """The vectors of some texts, without dropout."""
        found = torch.empty(len(rows), encoders[group].dim)
        chunks, _ = chunks_of(group, shards, rows, step=0, numbers=range)
        for chunk in chunks:
            with torch.inference_mode():
                found[chunk.rows] = encode(chunk).float().cpu()
        return found

    def measure(ranked: HeldOutQueries) -> np.ndarray:
        model.eval()
        of_queries = vectors("queries", queries_shards, ranked.queries)
        of_passages = vectors("passages", passages_shards, ranked.passages)
        model.train()
        return reciprocal_ranks(of_queries, of_passages, ranked.positives)

    comparison = None
    if compares and processes.is_first:
        assert held_out is not None and validation is not None
        ranked = held_out_queries(held_out, num_negatives=validation.negatives)
        log.info(
            "fine-tuning: the start ranks %d passages for %d held-out queries",
            *(len(ranked.passages), len(ranked.queries)),
        )
        comparison = partial(
            keep_better,
            measure(ranked),
            lambda: measure(ranked),
            lambda share: mix_in(model, start, share=share),
            num_passages=len(ranked.passages),
            keep=validation.keep,
            initial_share=validation.initial_share,
        )

    def save(folder: Path) -> None:
        if initial_share:
            mix_in(model, start, share=initial_share)
        compared = comparison() if comparison else NOT_COMPARED
        model.save(folder, initial)
        if held_out is not None:
            log.info("fine-tuning: %s", compared)
            write_json(folder / VALIDATION_FILE, asdict(compared))

    num_steps = run.num_steps(len(queries), title="fine-tuning")
    train(model, prepare, backward, run, num_steps=num_steps, title="fine-tuning")
    return run.finish(output, save)
