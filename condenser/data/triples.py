"""Training examples from MS MARCO's official triples, the round-1 negatives of coCondenser (§3.4).

A triple is a line `query_id<tab>positive<tab>negative` of three numbers, which may end with a carriage
return and a line feed. The negatives come from BM25. Source of the count: microsoft.github.io/msmarco.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from condenser.data.archives import open_gzip
from condenser.data.parsing import preview
from condenser.data.randomness import uniforms
from condenser.data.records import TrainExample, read_positives, read_queries, write_examples
from condenser.progress import Progress

OFFICIAL_ROWS = 397_768_673  # of qidpidtriples.train.full.2.tsv.gz

_BLOCK_BYTES = 4 << 20


def make_triple_examples(
    triples: Path,
    queries: Path,
    qrels: Path,
    output: Path,
    *,
    relevant_grade: int,
    sample: int,
    wanted: Collection[str] | None,
    seed: int,
    official_rows: int,
) -> dict[str, int]:
    """Write one example for each train query that has triples; returns the counts.

    An example has the judged positives of its query and a random sample of `sample` of its distinct
    negatives (all of them if it has fewer). The order of the file does not change the sample. Negatives
    that are judged positive are left out and counted.

    Raises:
        ValueError: the file is damaged, has a row that is not three numbers, does not have
            `official_rows` rows, or contains none of our queries.
    """
    known = {query.query_id for query in read_queries(queries)}
    chosen = known if wanted is None else known.intersection(wanted)
    positives = read_positives(qrels, relevant_grade=relevant_grade)
    counts: Counter[str] = Counter(rows=0, queries=len(chosen))

    def examples() -> Iterator[TrainExample]:
        excluded = np.array(
            sorted((int(q) << 32) | int(d) for q, docs in positives.items() if q.isdecimal() for d in docs),
            dtype=np.int64,
        )
        for number, negatives in sample_negatives(triples, excluded, counts, sample=sample, seed=seed):
            query_id = str(number)
            if query_id not in known or query_id not in positives:
                counts["unknown_queries"] += 1
            elif query_id in chosen:
                yield TrainExample(query_id, tuple(positives[query_id]), tuple(map(str, negatives)))
        if counts["rows"] != official_rows:
            raise ValueError(
                f"{triples}: expected the official {official_rows:,} rows, got {counts['rows']:,}. "
                "Delete the download and run again; if that does not help, its owner has changed the file."
            )

    counts["examples"] = write_examples(output, examples())
    if not counts["examples"]:
        output.unlink()
        raise ValueError(
            f"{triples}: expected triples of the queries in {queries}, got none. Do they belong together?"
        )
    counts["queries_without_triples"] = len(chosen) - counts["examples"]
    return dict(counts)


def sample_negatives(
    triples: Path, excluded: np.ndarray, counts: Counter[str], *, sample: int, seed: int
) -> Iterator[tuple[int, list[int]]]:
    """Each query of the triples, in order of its number, with `sample` of its distinct negatives.

    Every pair of query and negative has a random key, a function of seed and pair. The pairs with the
    smallest keys are taken: a uniform sample without replacement, whatever the order of the rows.
    `excluded` contains the pairs (query << 32 | passage, sorted) that must not be sampled.
    """
    pile = np.empty((0, 2), dtype=np.int64)  # (query << 32 | negative, bits of its key)
    waiting: list[np.ndarray] = []
    num_waiting, compact_above = 0, 1 << 22
    for block in triple_blocks(triples, counts):
        pairs = np.unique((block[:, 0] << 32) | block[:, 2])
        is_excluded = np.isin(pairs, excluded, assume_unique=True)
        counts["negatives_judged_positive"] += int(is_excluded.sum())
        pairs = pairs[~is_excluded]
        keys = uniforms(seed, "triples", 0, pairs, columns=1)[:, 0].view(
            np.int64
        )  # bits order as the floats do
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
        ValueError: the file is damaged, or a row is not three numbers of 32 bits; the message names the row.
    """
    import pyarrow
    from pyarrow import csv

    names = ("query", "positive", "negative")
    types = dict.fromkeys(names, pyarrow.uint32())
    with open_gzip(path) as stream, Progress("triples", total=None, unit="rows") as progress:
        try:
            for block in csv.open_csv(
                stream,
                csv.ReadOptions(column_names=names, use_threads=False, block_size=_BLOCK_BYTES),
                csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
                csv.ConvertOptions(column_types=types, null_values=[]),
            ):
                counts["rows"] += len(block)
                progress.advance(len(block))
                yield np.stack([column.to_numpy() for column in block.columns], axis=1).astype(np.int64)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(
                f"{path}: expected three tab-separated numbers a row, got {preview(str(error))}. "
                "Download the file again."
            ) from None
