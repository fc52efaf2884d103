"""Training a retriever: to tell the positives of a query from negatives, or to score as a teacher does.

What differs between a bi-encoder and late interaction is in `Vectors`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from condenser.blocks import FineTuning, Validation
from condenser.data.batches import length_chunks, pack_texts, row_windows
from condenser.data.randomness import stream_key
from condenser.data.text_files import TextFiles
from condenser.data.token_choice import ChosenTokens, counted_tokens
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.files import write_json
from condenser.loss.contrastive import in_batch_loss
from condenser.loss.listwise import listwise_kl
from condenser.loss.precision import at_least_float32
from condenser.model.devices import autocast
from condenser.model.retriever import Retriever, UntiedEncoders
from condenser.model.rows import OnDevice, Rows
from condenser.model.text_vector import Role
from condenser.train.chunks import Chunk, ChunkedTexts
from condenser.train.examples import ExampleRows, TrainingFiles, count_examples, draw_passages
from condenser.train.gradient_cache import contrastive_backward
from condenser.train.loop import Batch, Run, Trainable
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


@dataclass(frozen=True)
class TextRows(OnDevice):
    """Some texts, and the tokens that have a vector, among those of all rows."""

    rows: Rows
    counted: Int[Tensor, " counted"]


@dataclass(frozen=True)
class BatchTexts(ChunkedTexts[TextRows]):
    """The texts of a step, and the loss of their vectors."""

    loss: Callable[..., Tensor]


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """The vectors that a retriever makes of a text, and how those of a query meet those of passages.

    The vectors of several texts stand end to end. `ChosenTokens` says which tokens they are of.

    Attributes:
        encoders: of "queries" and of "passages"; they are in `model`.
        dim: of a vector.
        scale: what similarities are multiplied by in the loss unless the recipe says otherwise.
        counted: of a group, padded ids, whole lengths, and the place of a text's first token, True at the
            tokens that have a vector: bool [row, place].
        encode: of a group and texts, their vectors [counted, dim].
        loss: of the tokens by group and the scale, the loss of the vectors `queries` and `passages`.
        scores: of the vectors of one query, those of passages, and the tokens of both: [passage].
        save: writes a Hugging Face folder, with what another one has on tokens and vectors.
    """

    model: Retriever | UntiedEncoders
    encoders: Mapping[str, Retriever]
    dim: int
    scale: float
    counted: Callable[[str, np.ndarray, np.ndarray, int], np.ndarray]
    encode: Callable[[str, TextRows], Tensor]
    loss: Callable[[Mapping[str, ChosenTokens], float], Callable[..., Tensor]]
    scores: Callable[[Tensor, Tensor, ChosenTokens, ChosenTokens], Tensor]
    save: Callable[[Path, Path], None]


def one_vector(initial: Path, *, tied: bool) -> Vectors:
    """A bi-encoder: a text has one vector, which stands at its first token; a score is an inner product."""
    model: Retriever | UntiedEncoders
    model = (Retriever if tied else UntiedEncoders).load(initial, dropout=None)
    encoders = {
        "queries": model.queries if isinstance(model, UntiedEncoders) else model,
        "passages": model.passages if isinstance(model, UntiedEncoders) else model,
    }
    return Vectors(
        model=model,
        encoders=encoders,
        dim=encoders["queries"].dim,
        scale=encoders["queries"].vector.scale,
        counted=lambda group, ids, whole, first: np.broadcast_to(np.arange(ids.shape[1]) == 0, ids.shape),
        encode=lambda group, texts: encoders[group](texts.rows),
        loss=lambda tokens, scale: partial(in_batch_loss, scale=scale),
        scores=lambda query, passages, *tokens: passages @ query[0],
        save=model.save,
    )


def retriever_training(
    files: TrainingFiles,
    initial: Path,
    run: Run[FineTuning],
    *,
    vectors: Vectors | None = None,
    keep_graphs: bool = True,
) -> Trainable[BatchTexts]:
    """Fine-tuning of a retriever from the Hugging Face folder `initial` on examples.

    Each query must find its positive among all passages of the batch: its own negatives, and the
    passages of the other queries. An epoch ends with a shorter batch if the examples do not
    divide evenly. Source: coCondenser, §3.4 and §4.2; eq. 14 is `condenser.loss.contrastive.in_batch_loss`.

    Args:
        run: its settings are the recipe. Read here: `lengths` (tokens a text is cut to, with specials and
            prompt), `passages_per_query` (the positive and its negatives), `rows_per_chunk` (texts encoded at
            a time, of similar length), `tied` (one encoder for queries and passages; False gives each its
            own, as DPR), `scale` (of the similarities in the loss; None for that of the model's vector).
        vectors: what is compared; None for a bi-encoder.
        keep_graphs: keep the graphs of the whole batch in memory; False computes each chunk twice
            instead. A training switches to that by itself when memory is full.
    """
    passages, queries, examples, held_out = files.read()
    passages_per_query = run.settings.passages_per_query

    def draw(items: np.ndarray, epoch: int) -> np.ndarray:
        return draw_passages(
            examples, items, passages_per_query=passages_per_query, seed=run.seed, epoch=epoch
        )

    made = vectors or one_vector(initial, tied=run.settings.tied)
    scale = run.settings.scale or made.scale
    return _training(
        files.texts,
        (passages, queries),
        examples.queries,
        draw,
        made,
        lambda items, tokens: made.loss(tokens, scale),
        initial,
        run,
        counts=count_examples(examples, held_out, passages_per_query),
        keep_graphs=keep_graphs,
        held_out=held_out,
        validation=files.validation,
    )


def distillation_training(
    files: TaughtFiles, initial: Path, run: Run[FineTuning], *, keep_graphs: bool = True
) -> Trainable[BatchTexts]:
    """Training of a bi-encoder from the Hugging Face folder `initial` to score as a teacher does.

    An item is a query with the first `passages_per_query` hits of the teacher (`condenser.train.teacher`);
    the loss is `condenser.loss.listwise.listwise_kl`. `scale` of the recipe is the inverse of the student's
    temperature; the rest is read as by `retriever_training`.
    """
    passages, queries, taught = files.read(passages_per_query=run.settings.passages_per_query)
    vectors = one_vector(initial, tied=run.settings.tied)
    scale = run.settings.scale or vectors.scale

    def loss(items: np.ndarray, tokens: Mapping[str, ChosenTokens]) -> Callable[..., Tensor]:
        teacher_scores = torch.from_numpy(taught.scores[items])

        def of_batch(queries: Tensor, passages: Tensor) -> Tensor:
            of_query = at_least_float32(passages).view(*teacher_scores.shape, -1)
            with torch.autocast(queries.device.type, enabled=False):
                scores = torch.einsum("qd,qpd->qp", at_least_float32(queries), of_query) * scale
            return listwise_kl(scores, teacher_scores.to(scores), temperature=files.temperature)

        return of_batch

    return _training(
        files.texts,
        (passages, queries),
        taught.queries,
        lambda items, epoch: taught.passages[items].ravel(),
        vectors,
        loss,
        initial,
        run,
        counts=taught.counts,
        keep_graphs=keep_graphs,
        initial_share=files.initial_share,
    )


def _training(
    texts: TextFiles,
    shards: tuple[TokenShards, TokenShards],
    queries: np.ndarray,
    draw: Callable[[np.ndarray, int], np.ndarray],
    vectors: Vectors,
    loss: Callable[[np.ndarray, Mapping[str, ChosenTokens]], Callable[..., Tensor]],
    initial: Path,
    run: Run[FineTuning],
    *,
    counts: Mapping[str, int],
    keep_graphs: bool,
    initial_share: float = 0.0,
    held_out: ExampleRows | None = None,
    validation: Validation | None = None,
) -> Trainable[BatchTexts]:
    """Training of a retriever on queries with passages.

    Args:
        shards: of the passages and of the queries.
        queries: int [item], the row of each item's query.
        draw: the passages of some items in an epoch, int [item x passages_per_query], by row.
        loss: of some items, and the tokens by group that have a vector, the loss of these vectors: `queries`
            and `passages`, float32 [vector, dim].
        initial_share: of the weights of `initial` in the encoder that is written (`mix_in`).
        held_out: examples to compare the model with its start on, as `validation` says; the result is in
            `validation.json` of the folder. None of a training without judgements.
    """
    settings, seed, processes = run.settings, run.seed, run.processes
    tokenizer = Tokenizer(initial)
    passages_shards, queries_shards = shards
    model = vectors.model
    prompts = {
        group: tokenizer.encode_prompt(
            vectors.encoders[group].vector.prompt(role), max_tokens=getattr(settings.lengths, role)
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
    ) -> tuple[list[Chunk[TextRows]], int, ChosenTokens]:
        """This process's chunks of a group of texts, the tokens of all, and those with a vector."""
        prompt, max_tokens = prompts[group], getattr(settings.lengths, _ROLES[group])
        starts, lengths = row_windows(shards, rows, max_tokens=max_tokens - len(prompt))
        ids, whole = pack_texts(shards, starts, lengths, tokenizer, prompt=prompt)
        counted = vectors.counted(group, ids, whole, len(prompt) + 1)
        vector_places = np.cumsum(counted).reshape(counted.shape) - 1
        cuts = length_chunks(lengths, rows_per_chunk=settings.rows_per_chunk)
        chunks = []
        for number in numbers(len(cuts)):
            places = cuts[number]
            rows_of_chunk = Rows.of(ids[places], whole[places], device=processes.device)
            tokens = torch.from_numpy(counted_tokens(counted[places], whole[places]))
            in_batch = torch.from_numpy(vector_places[places][counted[places]])
            dropout_seed = stream_key(seed, f"dropout of {group} of step {step}", number)
            chunks.append(Chunk(group, in_batch, TextRows(rows_of_chunk, tokens), dropout_seed))
        return chunks, int(whole.sum()), ChosenTokens(counted.sum(axis=1), ids[counted].astype(np.int64))

    def prepare(step: int) -> Batch[BatchTexts]:
        epoch, items = run.items_of(step, len(queries), stream="retriever")
        asked, passages = queries[items].astype(np.int64), draw(items, epoch)
        query_chunks, num_query_tokens, of_queries = chunks_of("queries", queries_shards, asked, step=step)
        passage_chunks, num_passage_tokens, of_passages = chunks_of(
            "passages", passages_shards, passages, step=step
        )
        tokens = {"queries": of_queries, "passages": of_passages}
        num_rows = {group: len(of_texts.ids) for group, of_texts in tokens.items()}
        return Batch(
            BatchTexts(query_chunks + passage_chunks, num_rows, loss(items, tokens)),
            epoch,
            len(items),
            num_query_tokens + num_passage_tokens,
            lambda: texts.batch_ids(asked, passages),
            len(queries),
        )

    def encode(chunk: Chunk[TextRows]) -> Tensor:
        with autocast(processes.device, run.precision):
            return vectors.encode(chunk.group, chunk.inputs.to(processes.device))

    def backward(batch: BatchTexts, loss_scale: float) -> dict[str, float]:
        losses = contrastive_backward(
            batch.chunks,
            encode,
            batch.loss,
            num_rows=batch.num_rows,
            dim=vectors.dim,
            memory=memory,
            processes=processes,
            scale=loss_scale,
        )
        return {"loss": losses["contrastive"]}

    def all_vectors(group: str, shards: TokenShards, rows: np.ndarray) -> tuple[Tensor, ChosenTokens]:
        """The vectors of some texts, without dropout, and the tokens that they are of."""
        chunks, _, tokens = chunks_of(group, shards, rows, step=0, numbers=range)
        found = torch.empty(len(tokens.ids), vectors.dim)
        for chunk in chunks:
            with torch.inference_mode():
                found[chunk.rows] = encode(chunk).float().cpu()
        return found, tokens

    def measure(ranked: HeldOutQueries) -> np.ndarray:
        model.eval()
        of_queries, query_tokens = all_vectors("queries", queries_shards, ranked.queries)
        of_passages, passage_tokens = all_vectors("passages", passages_shards, ranked.passages)
        model.train()
        of_each = zip(
            of_queries.split(query_tokens.counts.tolist()), query_tokens.of_each_text(), strict=True
        )
        return reciprocal_ranks(
            (vectors.scores(query, of_passages, tokens, passage_tokens) for query, tokens in of_each),
            ranked.positives,
        )

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
            standard_errors=validation.standard_errors,
        )

    def save(folder: Path) -> None:
        if initial_share:
            mix_in(model, start, share=initial_share)
        compared = comparison() if comparison else NOT_COMPARED
        vectors.save(folder, initial)
        if held_out is not None:
            log.info("fine-tuning: %s", compared)
            write_json(folder / VALIDATION_FILE, asdict(compared))

    return Trainable("fine-tuning", model, len(queries), prepare, backward, save, counts)
