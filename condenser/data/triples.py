"""Training examples from MS MARCO's official triples, the round-1 negatives of coCondenser (A.1).

A triple is `query_id<tab>positive<tab>negative`, all numbers, by line feeds or carriage return and
line feed; the negatives are BM25's. Source of the count: microsoft.github.io/msmarco.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np

from condenser.data.archives import open_gzip
from condenser.data.parsing import Unfit, preview
from condenser.data.randomness import uniforms
from condenser.data.records import TrainExample, read_qrels, read_queries, write_examples
from condenser.progress import Progress

OFFICIAL_ROWS = 397_768_673  # of qidpidtriples.train.full.2.tsv.gz

_BLOCK_BYTES = 4 << 20
_MAX_UNPACKED = 64 << 30
_MAX_DIGITS = 9


def make_triple_examples(
    triples: Path,
    queries: Path,
    qrels: Path,
    output: Path,
    *,
    sample: int,
    wanted: Collection[str] | None,
    seed: int,
    official_rows: int,
) -> dict[str, int]:
    """Write one example for each train query that the triples know; gives the counts.

    An example has the query's judged positives and `sample` of its distinct negatives (all, if it
    has fewer), drawn at random whatever the order of the file. Negatives that are judged positive
    are left out, and counted.

    Raises:
        ValueError: the file is damaged, has a row that is no triple of numbers, another number of rows
            than the official one (`official_rows`), or no query of ours.
    """
    known = {query.query_id for query in read_queries(queries)}
    if wanted is not None:
        known &= set(wanted)
    positives: dict[str, list[str]] = {}
    for qrel in read_qrels(qrels):
        if qrel.grade > 0:
            positives.setdefault(qrel.query_id, []).append(qrel.doc_id)
    counts: Counter[str] = Counter(rows=0, queries=len(known))

    def examples() -> Iterator[TrainExample]:
        excluded = np.array(
            sorted((int(q) << 32) | int(d) for q, docs in positives.items() if q.isdecimal() for d in docs),
            dtype=np.int64,
        )
        for number, negatives in sample_negatives(triples, excluded, counts, sample=sample, seed=seed):
            query_id = str(number)
            if query_id not in known or query_id not in positives:
                counts["unknown_queries"] += 1
                continue
            yield TrainExample(query_id, tuple(positives[query_id]), tuple(map(str, negatives)))
        if counts["rows"] != official_rows:
            raise ValueError(
                f"{triples}: expected the official {official_rows:,} rows, got {counts['rows']:,}. "
                "Delete the download and fetch it again; if that does not help, the file has been changed."
            )

    counts["examples"] = write_examples(output, examples())
    if not counts["examples"]:
        output.unlink()
        raise ValueError(
            f"{triples}: expected triples of the queries of {queries}, got none. Do they belong together?"
        )
    counts["queries_without_triples"] = len(known) - counts["examples"]
    return dict(counts)


def sample_negatives(
    triples: Path, excluded: np.ndarray, counts: Counter[str], *, sample: int, seed: int
) -> Iterator[tuple[int, list[int]]]:
    """Each query of the triples, in order of its number, with `sample` of its distinct negatives.

    Every pair of query and negative has a random number of its own, and the pairs with the smallest
    are taken: a uniform sample without replacement that no order of rows changes. `excluded` are
    pairs (query << 32 | passage, sorted) that are no negatives.
    """
    pile = np.empty((0, 2), dtype=np.int64)  # (query << 32 | negative) and the bits of its number
    waiting: list[np.ndarray] = []
    num_waiting, compact_above = 0, 1 << 22
    for block in triple_blocks(triples, counts):
        pairs = np.unique((block[:, 0] << 32) | block[:, 2])
        is_excluded = np.isin(pairs, excluded, assume_unique=True)
        counts["negatives_judged_positive"] += int(is_excluded.sum())
        pairs = pairs[~is_excluded]
        keys = uniforms(seed, "triples", 0, pairs, columns=1)[:, 0].view(np.int64)  # same order as the floats
        waiting.append(_smallest(np.stack([pairs, keys], axis=1), sample))
        num_waiting += len(waiting[-1])
        if num_waiting > compact_above:
            pile = _smallest(np.concatenate([pile, *waiting]), sample)
            waiting, num_waiting, compact_above = [], 0, max(compact_above, len(pile))
    pile = _smallest(np.concatenate([pile, *waiting]), sample)
    ids = pile[:, 0] >> 32
    bounds = [*np.flatnonzero(np.diff(ids, prepend=-1)).tolist(), len(ids)]
    for begin, end in pairwise(bounds):
        yield int(ids[begin]), (pile[begin:end, 0] & 0xFFFFFFFF).tolist()


def _smallest(pairs: np.ndarray, sample: int) -> np.ndarray:
    """The distinct pairs with the `sample` smallest keys of each query, by query and key."""
    if not len(pairs):
        return pairs
    queries = pairs[:, 0] >> 32
    order = np.lexsort((pairs[:, 0], pairs[:, 1], queries))
    pairs, queries = pairs[order], queries[order]
    is_new = np.diff(pairs[:, 0], prepend=-1) != 0
    pairs, queries = pairs[is_new], queries[is_new]
    begins = np.flatnonzero(np.diff(queries, prepend=-1))
    ranks = np.arange(len(queries)) - np.repeat(begins, np.diff(begins, append=len(queries)))
    return pairs[ranks < sample]


def triple_blocks(path: Path, counts: Counter[str]) -> Iterator[np.ndarray]:
    """The triples of a gzip file in blocks: int64 [row, (query, positive, negative)].

    Raises:
        ValueError: the file is damaged, or a row is not three numbers of up to nine digits.
    """
    with (
        open_gzip(path, max_bytes=_MAX_UNPACKED) as stream,
        Progress("triples", total=None, unit="rows") as progress,
    ):
        for data in _whole_lines(path, stream):
            try:
                block = _numbers(data)
            except Unfit as unfit:
                raise _at_line(path, data, counts["rows"], unfit) from None
            counts["rows"] += len(block)
            progress.advance(len(block))
            yield block


def _whole_lines(path: Path, stream: IO[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines that end in line feeds alone."""
    rest = b""
    while data := stream.read(_BLOCK_BYTES):
        head, found, tail = (rest + data).rpartition(b"\n")
        rest = tail
        if found:
            yield (head + found).replace(b"\r\n", b"\n")
        elif len(rest) > 1 << 26:
            raise ValueError(
                f"{path}: expected lines of three numbers, got 64 MiB without a line feed. "
                "Fetch the file again."
            )
    if rest:
        yield rest.rstrip(b"\r") + b"\n"


def _numbers(data: bytes) -> np.ndarray:
    """The numbers of lines of three, in array arithmetic: 400 million rows have no time for more."""
    expected = Unfit("three tab-separated numbers", "something else", "Fetch the file again.")
    characters = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(characters < ord("0"))
    lengths = np.diff(ends, prepend=-1) - 1
    separators = characters[ends]
    if len(ends) % 3 or characters.max() > ord("9") or lengths.min() < 1 or lengths.max() > _MAX_DIGITS:
        raise expected
    by_row = separators.reshape(-1, 3)
    if (by_row[:, :2] != ord("\t")).any() or (by_row[:, 2] != ord("\n")).any():
        raise expected
    places = np.repeat(ends, lengths + 1) - np.arange(len(characters))  # 0 at the separator itself
    powers = np.concatenate([[0], 10 ** np.arange(_MAX_DIGITS)])
    digits = characters.astype(np.int64) - ord("0")
    return np.add.reduceat(digits * powers[places], ends - lengths).reshape(-1, 3)


def _at_line(path: Path, data: bytes, num_before: int, unfit: Unfit) -> ValueError:
    for index, line in enumerate(data.split(b"\n")[:-1]):
        columns = line.split(b"\t")
        if len(columns) != 3 or not all(c.isdigit() and len(c) <= _MAX_DIGITS for c in columns):
            return Unfit(unfit.expected, preview(line.decode(errors="replace")), unfit.advice).at(
                str(path), num_before + index + 1
            )
    raise AssertionError("every line is three numbers, though their block is not")
