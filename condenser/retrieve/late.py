"""Late interaction: MaxSim of token states, over the hits of other systems.

The score of a query and a passage is the sum over the query's tokens of the largest cosine with a token of
the passage. Source: Khattab and Zaharia 2020 (ColBERT), §3.3.

Every passage that some query needs is encoded once. Token states lie in 16 bits in files of the work folder,
a file for each block of texts; scores are computed from them in float32, block by block of pairs. So memory
holds one block, and an interrupted job resumes after its last one.
"""

from __future__ import annotations

import string
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Float32, Int, Int64
from torch import Tensor
from torch.nn.functional import normalize

from condenser.data.batches import pack_texts, row_windows, token_batches
from condenser.data.records import ScoredDoc, write_run
from condenser.data.text_files import TextFiles, Texts
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.files import full_disk_named, load_npy, save_npy
from condenser.model.devices import Compute
from condenser.model.products import weights_unchanged
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.model.text_vector import Role
from condenser.progress import Progress
from condenser.retrieve.blocks import BlockFile
from condenser.retrieve.documents import best_passages
from condenser.retrieve.finished import finish_block, is_finished
from condenser.retrieve.fusion import read_together

States = Float16[np.ndarray, "token dim"]


def rank_by_maxsim(
    model_folder: Path,
    candidates: Sequence[Path],
    output: Path,
    files: TextFiles,
    *,
    subset: Collection[str] | None,
    hits: int,
    depth: int,
    special_tokens: bool,
    punctuation: bool,
    lengths: Mapping[str, int],
    batch_tokens: int,
    block_rows: int,
    compute: Compute,
    work_folder: Path,
    system: str,
    is_split: bool = False,
) -> dict[str, int]:
    """Write the run of the first `hits` hits of each query in every run of `candidates`; returns counts.

    The best `depth` are kept, by MaxSim; a tie goes to the lower row of the collection. Of a document that is
    split, the model reads the passages that the candidates found, and the best one counts. By `batch_tokens`
    and `block_rows` only the rounding differs.

    An interrupted job resumes after the last finished block in `work_folder`. The caller chooses a folder
    that belongs to these inputs alone, and removes it.

    Args:
        subset: ids of the queries that are ranked; None for all of the runs.
        special_tokens, punctuation: which tokens count (`TokenChoice`).
        lengths: tokens a query and a passage are cut to, as a bi-encoder cuts them.

    Counts: `queries`, `pairs` (of a query and a passage), `passages` and `tokens` (of these, that count),
    `hits`.

    Raises:
        ValueError: a run has a query or passage that is not of the data set, or a state is NaN or infinite.
    """
    texts = files.read()
    query_rows, passage_rows = _pairs(candidates, files, texts, subset=subset, hits=hits)
    retriever = Retriever.load(model_folder, dropout=None).to(compute.device).eval()
    tokenizer = Tokenizer(model_folder)
    signs = punctuation_ids(tokenizer)

    def encoded(name: Role, shards: TokenShards, rows: np.ndarray, ids: Sequence[str]) -> TokenStates:
        left_out = signs if name == "passage" and not punctuation else signs[:0]
        return write_token_states(
            *(retriever, tokenizer, shards, np.unique(rows)),
            role=name,
            choice=TokenChoice(special_tokens, left_out, tokenizer.sep_id),
            max_tokens=lengths[name],
            batch_tokens=batch_tokens,
            block_rows=block_rows,
            compute=compute,
            folder=work_folder,
            name_of_row=lambda row: f"{name} {ids[row]}",
        )

    with weights_unchanged(), full_disk_named(work_folder):
        queries = encoded("query", texts.queries, query_rows, texts.query_ids)
        passages = encoded("passage", texts.passages, passage_rows, texts.doc_ids)
        scores = _scores(
            *(queries, passages, query_rows, passage_rows),
            block_rows=block_rows,
            device=compute.device,
            folder=work_folder,
        )
    bounds = [*np.flatnonzero(np.diff(query_rows, prepend=-1)).tolist(), len(query_rows)]

    def best() -> Iterator[ScoredDoc]:
        for begin, end in pairwise(bounds):
            order = begin + np.lexsort((passage_rows[begin:end], -scores[begin:end]))
            query_id = texts.query_ids[query_rows[begin]]
            found = [(texts.doc_ids[passage_rows[pair]], float(scores[pair])) for pair in order.tolist()]
            if is_split:
                yield from best_passages(query_id, *zip(*found, strict=True), depth=depth)
            else:
                yield from (ScoredDoc(query_id, *hit) for hit in found[:depth])

    return {
        "queries": len(bounds) - 1,
        "pairs": len(query_rows),
        "passages": len(passages.rows),
        "tokens": int(passages.counts.sum()),
        "hits": write_run(output, best(), system=system),
    }


def maxsim(
    query: Float[Tensor, "query_token dim"],
    passages: Float[Tensor, "token dim"],
    counts: Int64[Tensor, " passage"],
) -> Float[Tensor, " passage"]:
    """The score of a query with each of some passages, whose tokens stand end to end, `counts` of each.

    >>> maxsim(torch.eye(2), torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), torch.tensor([2, 1]))
    tensor([1.8000, 1.0000])
    """
    largest = torch.segment_reduce(passages @ query.T, "max", lengths=counts, axis=0)
    return largest.sum(dim=1)


def punctuation_ids(tokenizer: Tokenizer) -> Int[np.ndarray, " sign"]:
    """The tokens of single ASCII signs of punctuation, as ColBERT leaves them out."""
    ids, lengths = tokenizer.encode_flat(list(string.punctuation))
    assert len(ids) == lengths.sum()
    return np.setdiff1d(ids, [tokenizer.unk_id])


@dataclass(frozen=True)
class TokenChoice:
    """Which tokens of a text count: those of the text, and others.

    Attributes:
        special_tokens: whether [CLS], each [SEP] and the prompt count too.
        left_out: ids that do not count.
        sep_id: of [SEP], which also stands behind a title.
    """

    special_tokens: bool
    left_out: Int[np.ndarray, " id"]
    sep_id: int

    def counted(
        self, ids: Int[np.ndarray, "row place"], whole: Int[np.ndarray, " row"], *, first: int
    ) -> Bool[np.ndarray, "row place"]:
        """True at the tokens that count; at all tokens of a text of which none would.

        Args:
            whole: tokens of each row with the special ones; behind them is padding.
            first: the place of a text's first token.
        """
        places = np.arange(ids.shape[1])
        is_token = places < whole[:, None]
        counted = is_token & ~np.isin(ids, self.left_out)
        if not self.special_tokens:
            counted &= (places >= first) & (places < whole[:, None] - 1) & (ids != self.sep_id)
        return np.where(counted.any(axis=1, keepdims=True), counted, is_token)


@dataclass(frozen=True)
class TokenStates:
    """Token states of some texts, in files of `block_rows` texts each.

    Attributes:
        rows: of the texts, ascending.
        counts: tokens of each text that count.
        blocks: a file for each block.
    """

    rows: Int64[np.ndarray, " text"]
    counts: Int64[np.ndarray, " text"]
    blocks: Sequence[Path]
    block_rows: int

    def read(self, rows: Int64[np.ndarray, " row"]) -> dict[int, States]:
        """The states of some texts, by row; the files are mapped meanwhile alone."""
        found = {}
        places = np.searchsorted(self.rows, np.unique(rows))
        for number in np.unique(places // self.block_rows).tolist():
            states, first = load_npy(self.blocks[number]), number * self.block_rows
            ends = np.cumsum(self.counts[first : first + self.block_rows])
            for place in places[places // self.block_rows == number].tolist():
                end = ends[place - first]
                found[int(self.rows[place])] = np.array(states[end - self.counts[place] : end])
        return found


def write_token_states(
    retriever: Retriever,
    tokenizer: Tokenizer,
    shards: TokenShards,
    rows: Int64[np.ndarray, " text"],
    *,
    role: Role,
    choice: TokenChoice,
    max_tokens: int,
    batch_tokens: int,
    block_rows: int,
    compute: Compute,
    folder: Path,
    name_of_row: Callable[[int], str],
) -> TokenStates:
    """Write the states of the tokens that count: the last layer's, of length 1, in 16 bits.

    Texts are cut, batched and prompted as by `condenser.retrieve.encode.encode_texts`. Finished blocks in
    `folder` are kept.

    Raises:
        ValueError: a state is NaN or infinite.
    """
    folder.mkdir(parents=True, exist_ok=True)
    prompt = tokenizer.encode_prompt(retriever.vector.prompt(role), max_tokens=max_tokens)
    first = len(prompt) + 1
    blocks, counts = [], [np.zeros(0, np.int64)]
    with Progress(f"encode {role} tokens", total=len(rows), unit="rows") as progress:
        for number, start in enumerate(range(0, len(rows), block_rows)):
            of_block = rows[start : start + block_rows]
            files = [folder / f"{role}.{number}.{part}.npy" for part in ("states", "counts")]
            mark = folder / f"{role}.{number}.json"
            if not is_finished(mark, files):
                starts, lengths = row_windows(shards, of_block, max_tokens=max_tokens - len(prompt))
                states = [np.zeros((0, 0), np.float16)] * len(of_block)
                for batch in token_batches(lengths + first + 1, batch_tokens=batch_tokens):
                    ids, whole = pack_texts(shards, starts[batch], lengths[batch], tokenizer, prompt=prompt)
                    counted = choice.counted(ids, whole, first=first)
                    of_batch = _token_states(retriever, ids, whole, counted, compute=compute)
                    for place, of_text in zip(batch.tolist(), of_batch, strict=True):
                        states[place] = of_text
                        if not np.isfinite(of_text).all():
                            raise ValueError(
                                f"expected finite token states, got NaN or infinity for "
                                f"{name_of_row(int(of_block[place]))}. Precision is {compute.precision}: set "
                                "compute.precision to fp32, or train again."
                            )
                save_npy(files[0], np.concatenate(states))
                save_npy(files[1], np.array(list(map(len, states)), np.int64))
                finish_block(mark, files)
            blocks.append(files[0])
            counts.append(load_npy(files[1], mapped=False))
            progress.advance(len(of_block))
    return TokenStates(rows, np.concatenate(counts), blocks, block_rows)


def _token_states(
    retriever: Retriever,
    ids: Int[np.ndarray, "row place"],
    whole: Int[np.ndarray, " row"],
    counted: Bool[np.ndarray, "row place"],
    *,
    compute: Compute,
) -> list[States]:
    """The states of each row's tokens that count."""
    backbone, device = retriever.backbone, compute.device
    with torch.inference_mode(), compute.autocast():
        rows = Rows.of(ids, whole, device=device).to(device)
        _, states = backbone.before_last_layer(rows, recompute=False)
        (states,) = backbone.layers[-1](states, rows, [None])
    is_counted = counted[np.arange(ids.shape[1]) < whole[:, None]]  # of the tokens, end to end
    chosen = torch.from_numpy(np.flatnonzero(is_counted)).to(device)
    unit = normalize(states.index_select(0, chosen).float(), dim=1).half().cpu().numpy()
    return np.split(unit, np.cumsum(counted.sum(axis=1))[:-1])


def _scores(
    queries: TokenStates,
    passages: TokenStates,
    query_rows: Int64[np.ndarray, " pair"],
    passage_rows: Int64[np.ndarray, " pair"],
    *,
    block_rows: int,
    device: torch.device,
    folder: Path,
) -> Float32[np.ndarray, " pair"]:
    """The score of each pair. The pairs of a query stand together."""
    num_pairs = len(query_rows)

    def on_device(states: Sequence[States]) -> Tensor:
        return torch.from_numpy(np.concatenate(states)).to(device).float()

    with (
        BlockFile(folder, "scores", num_rows=num_pairs, rows_of_block=block_rows, dim=1) as blocks,
        Progress("maxsim", total=num_pairs, unit="pairs", start=blocks.num_rows_done) as progress,
    ):
        for start in range(blocks.num_rows_done, num_pairs, block_rows):
            of_queries = query_rows[start : start + block_rows]
            of_passages = passage_rows[start : start + block_rows]
            states, asked = passages.read(of_passages), queries.read(of_queries)
            bounds = [*np.flatnonzero(np.diff(of_queries, prepend=-1)).tolist(), len(of_queries)]
            block = []
            for begin, end in pairwise(bounds):
                found = [states[row] for row in of_passages[begin:end].tolist()]
                counts = torch.tensor(list(map(len, found)), device=device)
                with torch.inference_mode():
                    query = on_device([asked[int(of_queries[begin])]])
                    block.append(maxsim(query, on_device(found), counts).cpu().numpy())
            blocks.append(np.concatenate(block)[:, None])
            progress.advance(len(of_queries))
        blocks.write_to(folder / "scores.npy")
    return load_npy(folder / "scores.npy", mapped=False)[:, 0]


def _pairs(
    candidates: Sequence[Path], files: TextFiles, texts: Texts, *, subset: Collection[str] | None, hits: int
) -> tuple[Int64[np.ndarray, " pair"], Int64[np.ndarray, " pair"]]:
    """Rows of queries and of passages: for each query the first hits of all runs, each passage once."""
    query_row = {query_id: row for row, query_id in enumerate(texts.query_ids)}
    doc_row = {doc_id: row for row, doc_id in enumerate(texts.doc_ids)}
    queries, passages = array("q"), array("q")
    for query_id, found in read_together(candidates, files.queries, subset=subset):
        for text_id in dict.fromkeys(hit.text_id for of_run in found for hit in islice(of_run, hits)):
            if text_id not in doc_row:
                raise ValueError(
                    f"{', '.join(map(str, candidates))}: expected passages of this data set, got {text_id!r} "
                    f"for query {query_id}. Were run and collection made together?"
                )
            queries.append(query_row[query_id])
            passages.append(doc_row[text_id])
    return np.array(queries, dtype=np.int64), np.array(passages, dtype=np.int64)
