"""Training a retriever: to tell the positives of a query from negatives, or to score as a teacher does.

What differs between a bi-encoder and late interaction is in `condenser.train.vectors.Vectors`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from condenser.blocks import FineTuning, Validation
from condenser.data.text_files import TextFiles
from condenser.data.token_choice import ChosenTokens
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.files import write_json
from condenser.loss.listwise import listwise_kl
from condenser.loss.precision import at_least_float32
from condenser.model.devices import autocast
from condenser.train.chunks import Chunk
from condenser.train.examples import ExampleRows, TrainingFiles, count_examples, draw_passages
from condenser.train.gradient_cache import batch_backward
from condenser.train.loop import Batch, Run, Trainable
from condenser.train.memory import StepMemory
from condenser.train.teacher import read_taught_rows
from condenser.train.validation import (
    NOT_COMPARED,
    VALIDATION_FILE,
    HeldOutQueries,
    held_out_queries,
    keep_better,
    reciprocal_ranks,
)
from condenser.train.vectors import ROLES, BatchTexts, Group, TextRows, Vectors, one_vector
from condenser.train.weights import copied_weights, mix_in

log = logging.getLogger(__name__)


def retriever_training(
    files: TrainingFiles,
    initial: Path,
    run: Run[FineTuning],
    *,
    vectors: Vectors | None = None,
) -> Trainable[BatchTexts]:
    """Fine-tuning of a retriever from the Hugging Face folder `initial` on examples.

    Each query must find its positive among all passages of the batch: its own negatives, and the
    passages of the other queries. An epoch ends with a shorter batch if the examples do not
    divide evenly. Source: coCondenser, §3.4 and §4.2; eq. 14 is `condenser.loss.contrastive.in_batch_loss`.

    Args:
        run: its settings are the recipe; `lengths` count specials and prompt. Texts encoded at a time are of
            similar length. Without `tied` queries and passages have an encoder each, as DPR.
        vectors: what is compared; None for a bi-encoder.
    """
    passages, queries, examples, held_out = files.read()
    passages_per_query = run.settings.passages_per_query

    def draw(items: np.ndarray, epoch: int) -> np.ndarray:
        return draw_passages(
            examples,
            items,
            passages_per_query=passages_per_query,
            seed=run.seed,
            epoch=epoch,
            num_passages=passages.num_rows,
        )

    made = vectors or one_vector(initial, tied=run.settings.tied)
    scale = run.settings.scale or made.scale
    return _training(
        files.texts,
        {"queries": queries, "passages": passages},
        examples.queries,
        draw,
        made,
        lambda items, tokens: made.loss(tokens, scale),
        initial,
        run,
        counts=count_examples(examples, held_out, passages_per_query),
        held_out=held_out,
        validation=files.validation,
    )


def distillation_training(
    files: TrainingFiles,
    initial: Path,
    run: Run[FineTuning],
    *,
    with_own_passage: bool,
    temperature: float,
    initial_share: float,
) -> Trainable[BatchTexts]:
    """Training of a bi-encoder from the Hugging Face folder `initial` to score as a teacher does.

    An item is a query with the first `passages_per_query` hits of the teacher; the loss is
    `condenser.loss.listwise.listwise_kl`. `scale` of the recipe is the inverse of the student's temperature;
    the rest is read as by `retriever_training`.

    Args:
        with_own_passage: see `condenser.train.teacher`.
        temperature: of the teacher's standard scores.
        initial_share: of the first weights in the encoder that is written.
    """
    assert files.teacher_run is not None
    texts = files.texts.read()
    taught = read_taught_rows(
        files.teacher_run,
        query_rows={query_id: row for row, query_id in enumerate(texts.query_ids)},
        doc_rows={doc_id: row for row, doc_id in enumerate(texts.doc_ids)},
        passages_per_query=run.settings.passages_per_query,
        with_own_passage=with_own_passage,
    )
    shards = {"queries": texts.queries, "passages": texts.passages}
    del texts  # nothing holds the ids
    vectors = one_vector(initial, tied=run.settings.tied)
    scale = run.settings.scale or vectors.scale

    def loss(items: np.ndarray, tokens: Mapping[str, ChosenTokens]) -> Callable[..., Tensor]:
        teacher_scores = torch.from_numpy(taught.scores[items])

        def of_batch(queries: Tensor, passages: Tensor) -> Tensor:
            of_query = at_least_float32(passages).view(*teacher_scores.shape, -1)
            with torch.autocast(queries.device.type, enabled=False):
                scores = torch.einsum("qd,qpd->qp", at_least_float32(queries), of_query) * scale
            return listwise_kl(scores, teacher_scores.to(scores), temperature=temperature)

        return of_batch

    return _training(
        files.texts,
        shards,
        taught.queries,
        lambda items, epoch: taught.passages[items].ravel(),
        vectors,
        loss,
        initial,
        run,
        counts=taught.counts,
        initial_share=initial_share,
    )


def _ranks_of_held_out(
    ranked: HeldOutQueries,
    groups: Mapping[str, Group],
    encode: Callable[[Chunk[TextRows]], Tensor],
    vectors: Vectors,
) -> np.ndarray:
    """Reciprocal ranks of the positives of held-out queries, without dropout, [query]."""

    def encoded(group: str, rows: np.ndarray) -> tuple[Tensor, ChosenTokens]:
        chunks, _, tokens = groups[group].chunks(rows, step=0, numbers=range)
        found = torch.empty(len(tokens.ids), vectors.dim)
        for chunk in chunks:
            with torch.inference_mode():
                found[chunk.rows] = encode(chunk).float().cpu()
        return found, tokens

    vectors.model.eval()
    of_queries, query_tokens = encoded("queries", ranked.queries)
    of_passages, passage_tokens = encoded("passages", ranked.passages)
    vectors.model.train()
    of_each = zip(of_queries.split(query_tokens.counts.tolist()), query_tokens.of_each_text(), strict=True)
    return reciprocal_ranks(
        (vectors.scores(query, of_passages, tokens, passage_tokens) for query, tokens in of_each),
        ranked.positives,
    )


def _training(
    texts: TextFiles,
    shards: Mapping[str, TokenShards],
    queries: np.ndarray,
    draw: Callable[[np.ndarray, int], np.ndarray],
    vectors: Vectors,
    loss: Callable[[np.ndarray, Mapping[str, ChosenTokens]], Callable[..., Tensor]],
    initial: Path,
    run: Run[FineTuning],
    *,
    counts: Mapping[str, int],
    initial_share: float = 0.0,
    held_out: ExampleRows | None = None,
    validation: Validation | None = None,
) -> Trainable[BatchTexts]:
    """Training of a retriever on queries with passages.

    Args:
        shards: of "queries" and of "passages".
        queries: int [item], the row of each item's query.
        draw: the passages of some items in an epoch, int [item x passages_per_query], by row.
        loss: from some items and their tokens by group, the function from the vectors `queries` and
            `passages`, float32 [vector, dim], to the loss.
        initial_share: of the weights of `initial` in the encoder that is written (`mix_in`).
        held_out: examples to compare the model with its start on, as `validation` says; the result is in
            `validation.json` of the folder. None of a training without judgements.
    """
    settings, seed, processes = run.settings, run.seed, run.processes
    tokenizer, model = Tokenizer(initial), vectors.model
    groups = {}
    for name, role in ROLES.items():
        max_tokens = vars(settings.lengths)[role]
        prompt = vectors.encoders[name].vector.prompt(role)
        groups[name] = Group(
            name=name,
            shards=shards[name],
            tokenizer=tokenizer,
            prompt=tokenizer.encode_prompt(prompt, max_tokens=max_tokens),
            max_tokens=max_tokens,
            counted=partial(vectors.counted, name),
            rows_per_chunk=settings.rows_per_chunk,
            seed=seed,
            device=processes.device,
        )
    compares = held_out is not None and len(held_out) > 0 and validation is not None
    keeps_start = initial_share > 0 or compares
    start = copied_weights(model) if keeps_start else {}
    model.to(processes.device).train()
    memory = StepMemory(model, keeps_graphs=True)

    def prepare(step: int) -> Batch[BatchTexts]:
        epoch, items = run.items_of(step, len(queries), stream="retriever")
        texts_of = {"queries": queries[items].astype(np.int64), "passages": draw(items, epoch)}
        chunks, num_tokens, tokens = [], 0, {}
        for name, rows in texts_of.items():
            of_group, num_in_group, tokens[name] = groups[name].chunks(
                rows, step=step, numbers=processes.mine
            )
            chunks += of_group
            num_tokens += num_in_group
        num_rows = {name: len(of_texts.ids) for name, of_texts in tokens.items()}
        return Batch(
            BatchTexts(chunks, num_rows, loss(items, tokens)),
            epoch,
            len(items),
            num_tokens,
            lambda: texts.batch_ids(texts_of["queries"], texts_of["passages"]),
            len(queries),
        )

    def encode(chunk: Chunk[TextRows]) -> Tensor:
        with autocast(processes.device, run.precision):
            return vectors.encode(chunk.group, chunk.inputs.to(processes.device))

    def backward(batch: BatchTexts, loss_scale: float) -> dict[str, float]:
        losses = batch_backward(
            batch.chunks,
            encode,
            batch.loss,
            num_rows=batch.num_rows,
            width=vectors.dim,
            memory=memory,
            processes=processes,
            scale=loss_scale,
        )
        return {"loss": losses["batch"]}

    comparison = None
    if compares and processes.is_first:
        assert held_out is not None and validation is not None
        ranked = held_out_queries(held_out, num_negatives=validation.negatives)
        log.info(
            "fine-tuning: the start ranks %d passages for %d held-out queries",
            *(len(ranked.passages), len(ranked.queries)),
        )
        measure = partial(_ranks_of_held_out, ranked, groups, encode, vectors)
        comparison = partial(
            keep_better,
            measure(),
            measure,
            lambda share: mix_in(model, start, share=share),
            num_passages=len(ranked.passages),
            keep=validation.keep,
            initial_share=validation.initial_share,
            standard_errors=validation.standard_errors,
        )

    def save(folder: Path) -> None:
        if initial_share:
            mix_in(model, start, share=initial_share)
        compared = comparison() if comparison else NOT_COMPARED
        vectors.save(folder, initial)
        log.info("fine-tuning: %s", compared)
        write_json(folder / VALIDATION_FILE, asdict(compared))

    return Trainable("fine-tuning", model, len(queries), prepare, backward, save, counts)
