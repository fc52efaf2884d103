"""Training of term weights: a token's weight is how many of its passage's train queries contain its word.

Source: Dai and Callan 2019 (DeepCT), §3, and AdeDZY/DeepCT, run_deepct.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from condenser.blocks import TermWeights
from condenser.data.batches import length_chunks, pack_texts, row_windows
from condenser.data.randomness import stream_key
from condenser.data.records import document_of, read_positives
from condenser.data.subsets import read_subset
from condenser.data.text_files import TextFiles, Texts
from condenser.data.tokens import Tokenizer
from condenser.model.devices import autocast
from condenser.model.rows import OnDevice, Rows
from condenser.papers.term_weigher import TermWeigher
from condenser.papers.terms import WordReader, query_term_recall
from condenser.train.chunks import Chunk, ChunkedTexts
from condenser.train.loop import Batch, Run, Trainable
from condenser.train.memory import StepMemory
from condenser.train.step import chunk_backward


@dataclass(frozen=True)
class JudgedPassages:
    """Rows of the passages that are relevant to a train query, each once, and of the queries of each."""

    passages: Int[np.ndarray, " passage"]
    queries: list[list[int]]
    num_held_out: int  # queries

    def __len__(self) -> int:
        return len(self.passages)


def judged_passages(
    qrels: Path,
    texts: Texts,
    *,
    relevant_grade: int,
    subset: Path | None,
    held_out: Path | None,
    is_split: bool,
) -> JudgedPassages:
    """The relevant passages of the train queries that are not held out, in the collection's order.

    With `subset`, the ids of some train queries, those alone count.

    Of a collection that is split, each passage of a relevant document is one.

    Raises:
        ValueError: there is none.
    """
    wanted = read_subset(subset) if subset else None
    left_out = read_subset(held_out) if held_out else frozenset()
    query_rows: dict[str, int] = {}
    for row, query_id in enumerate(texts.query_ids):
        query_rows.setdefault(query_id, row)
    queries_of: dict[str, list[int]] = {}
    num_held_out = 0
    for query_id, relevant in read_positives(qrels, relevant_grade=relevant_grade).items():
        if query_id in left_out:
            num_held_out += 1
        elif query_id in query_rows and (wanted is None or query_id in wanted):
            for doc_id in relevant:
                queries_of.setdefault(doc_id, []).append(query_rows[query_id])
    passages, queries = list[int](), list[list[int]]()
    for row, text_id in enumerate(texts.doc_ids):
        if found := queries_of.get(document_of(text_id) if is_split else text_id):
            passages.append(row)
            queries.append(found)
    if not passages:
        raise ValueError(
            f"{qrels}: expected a train query with a relevant passage, to learn term weights from, got none "
            f"({num_held_out:,} are held out). Add judgements, or name a file of weights."
        )
    return JudgedPassages(np.array(passages), queries, num_held_out)


@dataclass(frozen=True)
class RowsWithRecall(OnDevice):
    """Passages that are encoded together, the first token of each of their words, and the words' recall."""

    rows: Rows
    firsts: Int[Tensor, " word"]
    recall: Float[Tensor, " word"]


@dataclass(frozen=True)
class PassagesWithRecall(ChunkedTexts[RowsWithRecall]):
    """The chunks of a step's passages, and the number of words in the whole batch."""

    num_words: int


def term_weights_training(
    files: TextFiles,
    qrels: Path,
    initial: Path,
    run: Run[TermWeights],
    *,
    relevant_grade: int,
    subset: Path | None,
    held_out: Path | None,
    is_split: bool,
    save: Callable[[TermWeigher, Path], None],
) -> Trainable[PassagesWithRecall]:
    """Training of the encoder of the folder `initial`, with a linear layer, to predict query term recall.

    An item is a passage with all its train queries; the loss is the mean of (y - QTR)^2 over the first tokens
    of all words of the batch.

    Args:
        save: writes what the trained model is for to a folder.

    Raises:
        ValueError: no passage is judged relevant, or the encoder has too few positions.
    """
    settings, seed, processes = run.settings, run.seed, run.processes
    tokenizer, texts = Tokenizer(initial), files.read()
    reader = WordReader(tokenizer)
    judged = judged_passages(
        qrels, texts, relevant_grade=relevant_grade, subset=subset, held_out=held_out, is_split=is_split
    )
    shards, queries = texts.passages, texts.queries
    del texts  # nothing holds the ids
    model = TermWeigher.start(initial, seed=seed)
    num_positions = model.encoder.config.num_positions
    if settings.max_tokens > num_positions:
        raise ValueError(
            f"{initial}: expected positions for max_tokens ({settings.max_tokens}), got {num_positions}. "
            "Lower it, or start from another model."
        )
    model.to(processes.device).train()
    memory = StepMemory(model, keeps_graphs=False)

    def terms_of(query: int) -> frozenset[str]:
        begin, end = queries.row_starts[query : query + 2]
        ids = queries.read(np.array([begin]), np.array([end - begin]), width=int(end - begin), fill=0)[0]
        return frozenset(reader.words(ids)[1])

    def with_recall(item: int, ids: Int[np.ndarray, " token"]) -> tuple[np.ndarray, list[float]]:
        asked = [terms_of(query) for query in judged.queries[item]]
        firsts, words = reader.words(ids)
        return firsts + 1, query_term_recall(words, asked)  # behind [CLS]

    def prepare(step: int) -> Batch[PassagesWithRecall]:
        epoch, items = run.items_of(step, len(judged), stream="term weights")
        passages = judged.passages[items]
        starts, lengths = row_windows(shards, passages, max_tokens=settings.max_tokens)
        ids, whole = pack_texts(shards, starts, lengths, tokenizer)
        of_words = [
            with_recall(item, ids[row, 1 : 1 + lengths[row]]) for row, item in enumerate(items.tolist())
        ]
        cuts, chunks = length_chunks(whole, rows_per_chunk=settings.rows_per_chunk), []
        for number in processes.mine(len(cuts)):
            cut = cuts[number]
            begins = np.cumsum(whole[cut]) - whole[cut]
            firsts = [begin + of_words[row][0] for begin, row in zip(begins, cut, strict=True)]
            recall = [value for row in cut for value in of_words[row][1]]
            rows = RowsWithRecall(
                Rows.of(ids[cut], whole[cut], device=processes.device),
                torch.from_numpy(np.concatenate(firsts)),
                torch.tensor(recall, dtype=torch.float32),
            )
            dropout_seed = stream_key(seed, f"dropout of step {step}", number)
            chunks.append(Chunk("passages", torch.from_numpy(cut), rows, dropout_seed))
        return Batch(
            PassagesWithRecall(chunks, {"passages": len(items)}, sum(len(firsts) for firsts, _ in of_words)),
            epoch,
            len(items),
            int(whole.sum()),
            lambda: {"passages": files.batch_ids(passages[:0], passages)["passages"]},
            len(judged),
        )

    def backward(passages: PassagesWithRecall, loss_scale: float) -> Mapping[str, float]:
        def loss_of(chunk: Chunk[RowsWithRecall]) -> Tensor:
            inputs = chunk.inputs.to(processes.device)
            with autocast(processes.device, run.precision):
                weights = model(inputs.rows, inputs.firsts)
            return ((weights - inputs.recall).square().sum() / max(passages.num_words, 1)).unsqueeze(0)

        (loss,) = chunk_backward(
            *(passages.chunks, loss_of),
            num_losses=1,
            memory=memory,
            processes=processes,
            scale=loss_scale,
        )
        return {"loss": loss}

    counts = {
        "passages": shards.num_rows,
        "passages_cut": int((np.diff(shards.row_starts) + 2 > settings.max_tokens).sum()),
        "passages_trained_on": len(judged),
        "queries": len(set(chain.from_iterable(judged.queries))),
        "queries_held_out": judged.num_held_out,
    }
    return Trainable("term weights", model, len(judged), prepare, backward, partial(save, model), counts)
