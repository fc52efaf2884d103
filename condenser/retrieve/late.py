"""Late interaction: MaxSim of token states, over the hits of other systems.

The score of a query and a passage is the sum over the query's tokens of the largest cosine with a token of
the passage. Source: Khattab and Zaharia 2020 (ColBERT), §3.3. Two others differ in the tokens that meet:

- `exact`: a token of the query meets only equal tokens of the passage, and adds 0 where there is none. With
  the special tokens [CLS] meets [CLS]. Source: Gao et al. 2021, "COIL: Revisit Exact Lexical Match in
  Information Retrieval with Contextualized Inverted List", §3.2.
- `first`: the query's [CLS] meets the passage's first m states. Source: Luan et al. 2021, "Sparse, Dense, and
  Attentional Representations for Text Retrieval" (ME-BERT), §5.

A model can be trained for each (`condenser.train.late`). ColBERT's states have length 1, so scores are of
cosines. COIL and ME-BERT take inner products, in which the length of a state weighs its token; so do `exact`
and `first` of a model that is trained for them. Of any other model they take cosines: nothing taught it what
the lengths of its states should mean. COIL has a larger projection for [CLS] and leaves out [SEP]; ME-BERT
has a further LayerNorm. Here all tokens share one projection, if any.

The pairs of a query and a passage are scored in the order of the passages, whose states were kept when they
were indexed (`condenser.retrieve.token_states`), or else are encoded, each passage once for all queries that
need it. The states of all queries are in memory, in 16 bits, and those of one block of passages. An
interrupted job resumes after its last block of pairs.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Float32, Int, Int64
from torch import Tensor

from condenser.data.records import write_run
from condenser.data.text_files import TextFiles, Texts
from condenser.data.token_choice import counted_tokens, token_choices
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.files import full_disk_named, load_npy
from condenser.model.devices import Compute
from condenser.model.operations import weights_unchanged
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.model.text_vector import Role
from condenser.progress import Progress
from condenser.retrieve.blocks import BlockFile, block_bounds, row_of_numbers
from condenser.retrieve.documents import ranked_pairs
from condenser.retrieve.fusion import read_together
from condenser.retrieve.inference import Batch, TextReader, through
from condenser.retrieve.token_states import KeptStates, Records, in_floats

States = Float16[np.ndarray, "token dim"] | Float32[np.ndarray, "token dim"]


def rank_by_maxsim(
    model: LateModel,
    candidates: Sequence[Path],
    output: Path,
    files: TextFiles,
    *,
    subset: Collection[str] | None,
    hits: int,
    depth: int,
    block_rows: int,
    work_folder: Path,
    system: str,
    is_split: bool = False,
    kept: KeptStates | None = None,
) -> dict[str, int]:
    """Write the run of the first `hits` hits of each query in every run of `candidates`; returns counts.

    The best `depth` are kept, by MaxSim; a tie goes to the lower row of the collection. Of a document that is
    split, the model reads the passages that the candidates found, and the best one counts. By `batch_tokens`
    and `block_rows` only the rounding differs.

    An interrupted job resumes after the last finished block in `work_folder`. The caller chooses a folder
    that belongs to these inputs alone, and removes it.

    Args:
        subset: ids of the queries that are ranked; None for all of the runs.
        kept: token states of the passages by the same model, which are read in place of encoding.

    Counts: `queries`, `pairs` (of a query and a passage), `passages` and `tokens` (of these, that count),
    `hits`, `passages_encoded`.

    Raises:
        ValueError: a state is NaN or infinite.
    """
    texts = files.read()
    query_rows, passage_rows = _pairs(candidates, files, texts, subset=subset, hits=hits)
    queries, passages = model.encoders(texts, kept)
    with weights_unchanged(), full_disk_named(work_folder):
        scores, tokens = _scores(
            *(queries, passages, query_rows, passage_rows),
            is_exact=model.match == "exact",
            block_rows=block_rows,
            device=model.compute.device,
            folder=work_folder,
        )
    _, first_pairs = np.unique(passage_rows, return_index=True)
    best = ranked_pairs(
        *(texts.query_ids, texts.doc_ids, query_rows, passage_rows, scores), depth=depth, is_split=is_split
    )
    return {
        "queries": len(np.unique(query_rows)),
        "pairs": len(query_rows),
        "passages": len(first_pairs),
        "tokens": int(tokens[first_pairs].sum()),
        "hits": write_run(output, best, system=system),
        "passages_encoded": len(first_pairs) if isinstance(passages, TokenEncoder) else 0,
    }


@dataclass(kw_only=True)
class LateModel:
    """A model that is open, and which of its tokens meet.

    Attributes:
        special_tokens, punctuation: which tokens count (`token_choices`).
        match: which of them meet: `all`, `exact` or `first`, of a passage's `first_states` states.
        is_trained: whether the model was trained for this match.
        is_projected: whether the model's Dense module stands between the last layer and the states.
        lengths: tokens a query and a passage are cut to, as a bi-encoder cuts them.
    """

    model_folder: Path
    special_tokens: bool
    punctuation: bool
    match: str
    first_states: int | None
    is_trained: bool
    is_projected: bool
    lengths: Mapping[str, int]
    batch_tokens: int
    compute: Compute

    def __post_init__(self) -> None:
        self.retriever = Retriever.load(self.model_folder, dropout=None).to(self.compute.device).eval()
        self.tokenizer = Tokenizer(self.model_folder)
        names = ("special_tokens", "punctuation", "match", "first_states")
        self.choices = token_choices(self.tokenizer, **{name: getattr(self, name) for name in names})

    def encoders(
        self, texts: Texts, kept: KeptStates | None = None
    ) -> tuple[TokenEncoder, TokenEncoder | KeptPassages]:
        """What gives the states of the queries, and of the passages: those that were kept, if any were."""
        queries = TokenEncoder(self, "query", texts.queries, texts.query_ids)
        if kept is not None and kept.are_kept:
            return queries, KeptPassages(self, kept)
        return queries, TokenEncoder(self, "passage", texts.passages, texts.doc_ids)

    def scores_of_query(
        self,
        texts: Texts,
        rows: Int64[np.ndarray, " passage"],
        *,
        block_rows: int,
        kept: KeptStates | None = None,
    ) -> Float32[np.ndarray, " passage"]:
        """The score of the one query of `texts` with each passage of some rows, `block_rows` at a time.

        Raises:
            ValueError: a state is NaN or infinite.
        """
        queries, passages = self.encoders(texts, kept)
        query = np.zeros(1, np.int64)
        with weights_unchanged():
            states = dict(enumerate(queries.states(query)))
            ids = dict(enumerate(queries.ids(query))) if self.match == "exact" else None
            blocks = [
                _scores_of_passages(states, ids, passages, 0 * block, block, self.compute.device)
                for block in np.split(rows, range(block_rows, len(rows), block_rows))
            ]
        return np.concatenate(blocks)[:, 0]

    def num_around(self, role: Role) -> int:
        """Tokens around a text: the special ones and the prompt."""
        return len(self.prompt(role)) + 2

    def prompt(self, role: Role) -> Int[np.ndarray, " token"]:
        """The tokens of what is put before a query or a passage."""
        text, max_tokens = self.retriever.vector.prompt(role), self.lengths[role]
        return self.tokenizer.encode_prompt(text, max_tokens=max_tokens)


def maxsim(
    queries: Float[Tensor, "query_token dim"],
    counts: Int64[Tensor, " query"],
    passage: Float[Tensor, "token dim"],
    *,
    meets: Bool[Tensor, "token query_token"] | None = None,
) -> Float[Tensor, " query"]:
    """The score of a passage with each of some queries, whose tokens stand end to end, `counts` of each.

    With `meets` only such tokens meet, and a token of a query that meets none adds 0.

    >>> maxsim(torch.eye(2), torch.tensor([1, 1]), torch.tensor([[1.0, 0.0], [0.6, 0.8]]))
    tensor([1.0000, 0.8000])
    """
    scores = passage @ queries.T
    if meets is not None:
        scores = scores.masked_fill(~meets, -torch.inf)
    largest = scores.amax(dim=0)
    if meets is not None:
        largest = largest.where(meets.any(dim=0), 0)
    return torch.segment_reduce(largest, "sum", lengths=counts)


@dataclass(frozen=True)
class TokenEncoder:
    """Gives the last layer's states of the tokens that count, in 16 bits.

    Texts are cut, batched and prompted as by `condenser.retrieve.encode.encode_texts`; `text_ids` are theirs.
    """

    model: LateModel
    role: Role
    shards: TokenShards
    text_ids: Sequence[str]

    def states(self, rows: Int64[np.ndarray, " text"]) -> list[States]:
        """The states of each of some texts.

        Raises:
            ValueError: a state is NaN or infinite.
        """
        states = [np.zeros((0, 0), np.float16)] * len(rows)
        for batch, (found, counts) in through(self._reader.batches(rows), self.model.compute, self._states):
            of_texts = np.split(found.half().cpu().numpy(), np.cumsum(counts)[:-1])
            for place, of_text in zip(batch.places.tolist(), of_texts, strict=True):
                states[place] = of_text
                if not np.isfinite(of_text).all():
                    raise ValueError(
                        f"expected finite token states, got NaN or infinity for {self.role} "
                        f"{self.text_ids[rows[place]]}. Precision is {self.model.compute.precision}: set "
                        "compute.precision to fp32, or train again."
                    )
        return states

    def ids(self, rows: Int64[np.ndarray, " text"]) -> list[Int[np.ndarray, " token"]]:
        """The ids of the tokens that count, of each of some texts."""
        found = [np.zeros(0, np.int64)] * len(rows)
        for batch in self._reader.batches(rows):
            counted = self._counted(batch)
            for place, of_text, is_counted in zip(batch.places.tolist(), batch.ids, counted, strict=True):
                found[place] = of_text[is_counted].astype(np.int64)
        return found

    @cached_property
    def _reader(self) -> TextReader:
        model, max_tokens = self.model, self.model.lengths[self.role]
        prompt = model.prompt(self.role)
        return TextReader(self.shards, model.tokenizer, max_tokens, model.batch_tokens, prompt)

    def _counted(self, batch: Batch) -> Bool[np.ndarray, "row place"]:
        """Which tokens count."""
        choice, first = self.model.choices[self.role], self._reader.num_around - 1
        return choice.counted(batch.ids, batch.lengths, first=first)

    def _states(self, rows: Rows, batch: Batch) -> tuple[Float[Tensor, "token dim"], Int[np.ndarray, " row"]]:
        """The states of the tokens that count, row by row, and their number in each row."""
        model, counted = self.model, self._counted(batch)
        states = model.retriever.token_states(
            rows,
            torch.from_numpy(counted_tokens(counted, batch.lengths)).to(model.compute.device),
            is_projected=model.is_projected,
            is_normalised=model.match == "all" or not model.is_trained,
        )
        return states, counted.sum(axis=1)


@dataclass(frozen=True)
class KeptPassages:
    """Gives the states of the tokens that count, as they were kept when the passages were indexed."""

    model: LateModel
    kept: KeptStates

    def states(self, rows: Int64[np.ndarray, " passage"]) -> list[States]:
        """The states of each of some passages."""
        return [in_floats(records) for records in self._counted(rows)]

    def ids(self, rows: Int64[np.ndarray, " passage"]) -> list[Int[np.ndarray, " token"]]:
        """The ids of the tokens that count, of each of some passages."""
        return [records["id"].astype(np.int64) for records in self._counted(rows)]

    def _counted(self, rows: Int64[np.ndarray, " passage"]) -> list[Records]:
        """The tokens that count."""
        found = self.kept.of_rows(rows)
        lengths = np.array(list(map(len, found)))
        is_token = np.arange(lengths.max(initial=0)) < lengths[:, None]
        ids = np.zeros(is_token.shape, np.int64)
        ids[is_token] = np.concatenate([records["id"] for records in found])
        first = self.model.num_around("passage") - 1
        counted = self.model.choices["passage"].counted(ids, lengths, first=first)
        return [
            records if counts.all() else records[counts]
            for records, counts in zip(
                found, np.split(counted[is_token], np.cumsum(lengths)[:-1]), strict=True
            )
        ]


def _scores(
    queries: TokenEncoder,
    passages: TokenEncoder | KeptPassages,
    query_rows: Int64[np.ndarray, " pair"],
    passage_rows: Int64[np.ndarray, " pair"],
    *,
    is_exact: bool,
    block_rows: int,
    device: torch.device,
    folder: Path,
) -> tuple[Float32[np.ndarray, " pair"], Int64[np.ndarray, " pair"]]:
    """The score of each pair, and the tokens of its passage that count.

    A block has the pairs of about `block_rows` passages, and no more passages are in memory at once.
    """
    order, num_pairs = np.argsort(passage_rows, kind="stable"), len(passage_rows)
    pairs_of_block = block_rows * max(1, round(num_pairs / max(1, len(np.unique(passage_rows)))))
    asked = np.unique(query_rows)
    bounds = block_bounds(num_pairs, pairs_of_block)
    with BlockFile(folder, "scores", row=row_of_numbers(2), bounds=bounds) as blocks:
        states: dict[int, States] = {}
        ids: dict[int, Int[np.ndarray, " token"]] | None = {} if is_exact else None
        if blocks.num_rows_done < num_pairs:
            with Progress("encode query tokens", total=len(asked), unit="rows") as progress:
                for start in range(0, len(asked), block_rows):
                    rows = asked[start : start + block_rows]
                    states.update(zip(rows.tolist(), queries.states(rows), strict=True))
                    if ids is not None:
                        ids.update(zip(rows.tolist(), queries.ids(rows), strict=True))
                    progress.advance(len(rows))
        with Progress("maxsim", total=num_pairs, unit="pairs", start=blocks.num_rows_done) as progress:
            for start in range(blocks.num_rows_done, num_pairs, pairs_of_block):
                of_block = order[start : start + pairs_of_block]
                parts = _by_passages(passage_rows[of_block], most=block_rows)
                block = np.concatenate(
                    [
                        _scores_of_passages(
                            *(states, ids, passages),
                            *(query_rows[of_block[part]], passage_rows[of_block[part]], device),
                        )
                        for part in parts
                    ]
                )
                blocks.append(block.tobytes())
                progress.advance(len(block))
    found = np.empty((num_pairs, 2), np.float32)
    found[order] = load_npy(blocks.path, mapped=False)
    return found[:, 0], found[:, 1].astype(np.int64)


def _by_passages(passage_rows: Int64[np.ndarray, " pair"], *, most: int) -> list[slice]:
    """Parts of some pairs in the order of their passages, of at most `most` passages each."""
    firsts = np.flatnonzero(np.diff(passage_rows, prepend=-1))[::most].tolist()
    return [slice(begin, end) for begin, end in pairwise([*firsts, len(passage_rows)])]


def _scores_of_passages(
    states: Mapping[int, States],
    ids: Mapping[int, Int[np.ndarray, " token"]] | None,
    passages: TokenEncoder | KeptPassages,
    query_rows: Int64[np.ndarray, " pair"],
    passage_rows: Int64[np.ndarray, " pair"],
    device: torch.device,
) -> Float32[np.ndarray, "pair 2"]:
    """Score and tokens of some pairs, whose passages stand together; with ids only equal tokens meet."""
    bounds = [*np.flatnonzero(np.diff(passage_rows, prepend=-1)).tolist(), len(passage_rows)]
    rows = passage_rows[bounds[:-1]]
    of_passages, words_of_passages = passages.states(rows), None if ids is None else passages.ids(rows)
    found = np.empty((len(passage_rows), 2), np.float32)
    asked_last: Int64[np.ndarray, " query"] | None = None
    for place, ((begin, end), passage) in enumerate(zip(pairwise(bounds), of_passages, strict=True)):
        if asked_last is None or not np.array_equal(query_rows[begin:end], asked_last):
            asked_last = query_rows[begin:end]
            of_queries = [states[row] for row in asked_last.tolist()]
            counts = torch.tensor(list(map(len, of_queries)), device=device)
            words = torch.from_numpy(np.concatenate(of_queries)).to(device).float()
        meets = None
        if ids is not None and words_of_passages is not None:
            asked = np.concatenate([ids[row] for row in query_rows[begin:end].tolist()])
            meets = torch.from_numpy(words_of_passages[place][:, None] == asked).to(device)
        with torch.inference_mode():
            scores = maxsim(words, counts, torch.from_numpy(passage).to(device).float(), meets=meets)
        found[begin:end, 0], found[begin:end, 1] = scores.cpu().numpy(), len(passage)
    return found


def _pairs(
    candidates: Sequence[Path], files: TextFiles, texts: Texts, *, subset: Collection[str] | None, hits: int
) -> tuple[Int64[np.ndarray, " pair"], Int64[np.ndarray, " pair"]]:
    """Rows of queries and of passages: for each query the first hits of all runs, each passage once."""
    query_row = {query_id: row for row, query_id in enumerate(texts.query_ids)}
    doc_row = {doc_id: row for row, doc_id in enumerate(texts.doc_ids)}
    queries, passages = array("q"), array("q")
    (asked,) = files.queries
    for query_id, hits_of_runs in read_together(candidates, asked, subset=subset, depth=hits):
        for text_id in dict.fromkeys(hit.text_id for of_run in hits_of_runs for hit in of_run):
            queries.append(query_row[query_id])
            passages.append(doc_row[text_id])
    return np.array(queries, dtype=np.int64), np.array(passages, dtype=np.int64)
