"""Fine-tuning: training a bi-encoder to tell the positives of a query from negatives."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from condenser.data.batches import (
    length_chunks,
    negative_window,
    num_steps,
    pack_texts,
    positive_index,
    row_windows,
    step_items,
)
from condenser.data.randomness import stream_key
from condenser.data.records import read_doc_ids, read_examples, read_queries
from condenser.data.tokens import Tokenizer, TokenShards, refuse_other_ids
from condenser.files import atomic_folder
from condenser.loss.contrastive import in_batch_loss
from condenser.model.devices import autocast
from condenser.model.layers import padding_mask
from condenser.model.retriever import Retriever
from condenser.model.untied import UntiedEncoders
from condenser.train.checkpoint import LOG_NAME
from condenser.train.distributed import Processes
from condenser.train.gradient_cache import Chunk, contrastive_backward
from condenser.train.loop import Batch, LoopSettings, held_work_folder, log_totals, train
from condenser.train.memory import StepMemory

LOSSES_FILE = "losses.jsonl"


@dataclass(frozen=True)
class ExampleRows:
    """Training examples as row numbers of queries and passages, a few bytes each.

    The positives of example i are `positives[positive_starts[i] : positive_starts[i + 1]]`, and so
    are its negatives.
    """

    queries: Int[np.ndarray, " example"]
    positives: Int[np.ndarray, " positive"]
    positive_starts: Int[np.ndarray, " example_and_end"]
    negatives: Int[np.ndarray, " negative"]
    negative_starts: Int[np.ndarray, " example_and_end"]

    def __len__(self) -> int:
        return len(self.queries)


def read_example_rows(
    files: Sequence[Path], *, query_rows: Mapping[str, int], doc_rows: Mapping[str, int]
) -> ExampleRows:
    """The examples of several files, one file after the other.

    Raises:
        ValueError: an id is not in queries or collection, or an example lacks positives or negatives,
            or has a passage among both.
    """
    queries: list[int] = []
    rows: dict[str, list[np.ndarray]] = {"positive": [], "negative": []}
    for file in files:
        for line, example in enumerate(read_examples(file), start=1):
            if example.query_id not in query_rows:
                raise ValueError(
                    f"{file}:{line}: expected an id of the train queries, got {example.query_id!r}. "
                    "Were examples and queries made from the same collection?"
                )
            if both := set(example.positive_doc_ids).intersection(example.negative_doc_ids):
                raise ValueError(
                    f"{file}:{line}: expected negatives that are not judged positive for query "
                    f"{example.query_id!r}, got {min(both)!r} as both. Make the examples again."
                )
            queries.append(query_rows[example.query_id])
            for kind, doc_ids in (
                ("positive", example.positive_doc_ids),
                ("negative", example.negative_doc_ids),
            ):
                if not doc_ids:
                    raise ValueError(
                        f"{file}:{line}: expected at least one {kind} for query {example.query_id!r}, "
                        "got none. Make the examples again."
                    )
                try:
                    rows[kind].append(np.array([doc_rows[doc_id] for doc_id in doc_ids], dtype=np.int32))
                except KeyError as error:
                    raise ValueError(
                        f"{file}:{line}: expected ids of the collection, got {error.args[0]!r}. "
                        "Were examples and collection made together?"
                    ) from error
    if not queries:
        raise ValueError(
            f"{files[0]}:1: expected training examples, got none. Are there judged train queries?"
        )
    flat = {kind: np.concatenate(lists) for kind, lists in rows.items()}
    starts = {
        kind: np.concatenate([[0], np.cumsum([len(one) for one in lists])]) for kind, lists in rows.items()
    }
    return ExampleRows(
        np.array(queries, dtype=np.int32),
        flat["positive"],
        starts["positive"],
        flat["negative"],
        starts["negative"],
    )


def training_texts(
    example_files: Sequence[Path],
    *,
    collection_tokens: Sequence[Path],
    query_tokens: Path,
    doc_ids: Path,
    queries: Path,
) -> tuple[TokenShards, TokenShards, ExampleRows]:
    """Tokens of the passages and of the queries, and the examples as rows of both.

    Raises:
        ValueError: tokens and ids do not belong together, or an example cannot be used.
    """
    passages_shards, queries_shards = TokenShards(collection_tokens), TokenShards([query_tokens])
    # gigabytes at MS MARCO's size, which nothing holds after this function
    query_rows = {query.query_id: row for row, query in enumerate(read_queries(queries))}
    doc_rows = {doc_id: row for row, doc_id in enumerate(read_doc_ids(doc_ids))}
    for shards, rows, tokens, ids in (
        (passages_shards, doc_rows, collection_tokens[0], doc_ids),
        (queries_shards, query_rows, query_tokens, queries),
    ):
        refuse_other_ids(shards, len(rows), tokens=tokens, ids=ids)
    examples = read_example_rows(example_files, query_rows=query_rows, doc_rows=doc_rows)
    return passages_shards, queries_shards, examples


def count_examples(examples: ExampleRows, *, passages_per_query: int) -> dict[str, int]:
    """What the examples hold, for the manifest of a training."""
    return {
        "examples": len(examples),
        "positives": len(examples.positives),
        "negatives": len(examples.negatives),
        "examples_with_fewer_negatives_than_a_batch_takes": int(
            (np.diff(examples.negative_starts) < passages_per_query - 1).sum()
        ),
    }


def draw_passages(
    examples: ExampleRows, item: int, *, passages_per_query: int, seed: int, epoch: int
) -> Int[np.ndarray, " passage"]:
    """Collection rows of an example's passages in one epoch: a positive, then its negatives.

    Source: coCondenser, A.1, and Tevatron's draws (`condenser.data.batches`).
    """
    positives = examples.positives[examples.positive_starts[item] : examples.positive_starts[item + 1]]
    negatives = examples.negatives[examples.negative_starts[item] : examples.negative_starts[item + 1]]
    positive = positive_index(item, len(positives), seed=seed, epoch=epoch)
    window = negative_window(len(negatives), passages_per_query - 1, seed=seed, item=item, epoch=epoch)
    return np.concatenate([positives[positive : positive + 1], negatives[window]]).astype(np.int64)


def batch_ids(
    query_rows: Int[np.ndarray, " query"],
    passage_rows: Int[np.ndarray, " passage"],
    *,
    queries: Path,
    doc_ids: Path,
) -> dict[str, list[str]]:
    """The ids of a batch, in its order.

    They are read from the files again: a training keeps row numbers, not ids.
    """
    query_ids = [query.query_id for query in read_queries(queries)]
    passage_ids = read_doc_ids(doc_ids)
    return {
        "queries": [query_ids[row] for row in query_rows.tolist()],
        "passages": [passage_ids[row] for row in passage_rows.tolist()],
    }


@dataclass(frozen=True)
class TextRows:
    """Texts that are encoded together. They stay on the CPU until then."""

    group: Literal["queries", "passages"]
    input_ids: Int[Tensor, "row token"]
    attention_mask: Bool[Tensor, "row token"] | None


@dataclass(frozen=True)
class QueriesAndPassages:
    """One process's chunks of a step's texts, and the counts of the whole batch."""

    chunks: list[Chunk[TextRows]]
    num_rows: dict[str, int]


def train_retriever(
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
    tied: bool,
    scale: float | None,
    epochs: int | float,
    seed: int,
    precision: str,
    work_folder: Path,
    processes: Processes,
    **loop_settings: Unpack[LoopSettings],
) -> dict[str, int]:
    """Fine-tune a bi-encoder from the Hugging Face folder `initial` on examples; gives counts.

    Each query must find its positive among all passages of the batch: its own negatives, and the
    passages of the other queries. An epoch ends with a shorter batch if the examples do not
    divide evenly. Source: coCondenser, §3.4 and A.1; eq. 14 is `condenser.loss.contrastive.in_batch_loss`.

    Args:
        example_files: one file for each system that negatives come from; every line is an item.
        collection_tokens, query_tokens: token shards, rows as in `doc_ids` and `queries`.
        query_length, passage_length: tokens a text is cut to, specials included.
        batch_size: queries an update, of all processes together.
        passages_per_query: the positive and its negatives.
        rows_per_chunk: texts encoded at a time, of similar length.
        keep_graphs: keep the graphs of the whole batch in memory; False computes each chunk twice
            instead. A training switches to that by itself when memory is full.
        tied: one encoder for queries and passages; False gives each its own (DPR).
        scale: of the similarities in the loss; None for that of the model's vector.

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
        model: Retriever | UntiedEncoders
        model = (Retriever if tied else UntiedEncoders).load(initial, dropout=None)
        encoders = {
            "queries": model.queries if isinstance(model, UntiedEncoders) else model,
            "passages": model.passages if isinstance(model, UntiedEncoders) else model,
        }
        model.to(processes.device).train()
        memory = StepMemory(model, keeps_graphs=keep_graphs)

        def chunks_of(
            group: Literal["queries", "passages"],
            shards: TokenShards,
            rows: np.ndarray,
            *,
            max_tokens: int,
            step: int,
        ) -> tuple[list[Chunk[TextRows]], int]:
            """This process's chunks of a group of texts, and the tokens of all of them."""
            starts, lengths = row_windows(shards, rows, max_tokens=max_tokens)
            cuts = length_chunks(lengths, rows_per_chunk=rows_per_chunk)
            chunks = []
            for number in processes.mine(len(cuts)):
                places = cuts[number]
                ids, whole = pack_texts(
                    shards,
                    starts[places],
                    lengths[places],
                    cls_id=tokenizer.cls_id,
                    sep_id=tokenizer.sep_id,
                    pad_id=tokenizer.pad_id,
                )
                mask = padding_mask(torch.from_numpy(whole), width=ids.shape[1])
                chunks.append(
                    Chunk(
                        group,
                        torch.from_numpy(places),
                        TextRows(group, torch.from_numpy(ids), mask),
                        stream_key(seed, f"dropout of {group} of step {step}", number),
                    )
                )
            return chunks, int(lengths.sum()) + 2 * len(lengths)

        def prepare(step: int) -> Batch[QueriesAndPassages]:
            epoch, _, items = step_items(
                len(examples), batch_size=batch_size, step=step, seed=seed, stream="retriever"
            )
            asked = examples.queries[items].astype(np.int64)
            draw = partial(
                draw_passages, examples, passages_per_query=passages_per_query, seed=seed, epoch=epoch
            )
            passages = np.concatenate([draw(item) for item in items.tolist()])
            query_chunks, num_query_tokens = chunks_of(
                "queries", queries_shards, asked, max_tokens=query_length, step=step
            )
            passage_chunks, num_passage_tokens = chunks_of(
                "passages", passages_shards, passages, max_tokens=passage_length, step=step
            )
            return Batch(
                QueriesAndPassages(
                    query_chunks + passage_chunks, {"queries": len(asked), "passages": len(passages)}
                ),
                epoch,
                len(items),
                num_query_tokens + num_passage_tokens,
                lambda: batch_ids(asked, passages, queries=queries, doc_ids=doc_ids),
            )

        def encode(inputs: TextRows) -> Tensor:
            device = processes.device
            mask = inputs.attention_mask
            with autocast(device, precision):
                return encoders[inputs.group](
                    inputs.input_ids.to(device, non_blocking=True),
                    None if mask is None else mask.to(device, non_blocking=True),
                )

        def backward(texts: QueriesAndPassages, step: int, loss_scale: float) -> dict[str, float]:
            losses = contrastive_backward(
                texts.chunks,
                encode,
                partial(in_batch_loss, scale=scale or encoders["queries"].vector.scale),
                num_rows=texts.num_rows,
                dim=encoders["queries"].backbone.config.hidden_size,
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
