"""What vectors of 8 bits and of 1 bit cost, in nDCG@10.

The 8 bits are FAISS's (`SQ8`): they lie evenly between the least and the largest number of each dimension,
and a query keeps its 32. The one bit is sentence-transformers' (`ubinary`): the sign. Four times ten hits are
found by the bits in which query and passage agree, and sorted by the query's numbers with the bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import faiss
import numpy as np
from jaxtyping import Float32

from condenser.evaluate.metrics import Grades, RankedQuery, means, measure_run, ranked

MEASURE, DEPTH = "nDCG@10", 10
MULTIPLIER = 4
BITS = {"float32": 32, "SQ8": 8, "ubinary": 1}
"""Of a number, by what the libraries call them."""


def quantised_measures(
    queries: Float32[np.ndarray, "query dim"],
    passages: Float32[np.ndarray, "passage dim"],
    *,
    query_ids: Sequence[str],
    doc_ids: Sequence[str],
    grades: Grades,
    relevant_grade: int,
) -> dict[str, float]:
    """nDCG@10 of the judged queries, by what the vectors of the passages are made of (`BITS`)."""
    judged = [row for row, query_id in enumerate(query_ids) if query_id in grades]
    found = {}
    for name in BITS:
        rankings = _rankings(
            *_search(name, queries[judged], passages), [query_ids[row] for row in judged], doc_ids, grades
        )
        values, _ = measure_run(rankings, grades, measures=[MEASURE], relevant_grade=relevant_grade)
        found[name] = means(values)[MEASURE]
    return found


def _search(name: str, queries: np.ndarray, passages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and rows of the first hits; -1 stands for none."""
    if name == "ubinary":
        from sentence_transformers.util.quantization import quantize_embeddings, semantic_search_faiss

        hits, *_ = semantic_search_faiss(
            queries,
            corpus_embeddings=quantize_embeddings(passages, precision=name),
            corpus_precision=name,
            top_k=DEPTH,
            rescore_multiplier=MULTIPLIER,
        )
        width = min(DEPTH, len(passages))
        parts = [[[hit[part] for hit in row] for row in hits] for part in ("score", "corpus_id")]
        scores, rows = (np.array(part).reshape(len(queries), width) for part in parts)
        return scores, rows
    index = faiss.index_factory(
        passages.shape[1], "Flat" if name == "float32" else name, faiss.METRIC_INNER_PRODUCT
    )
    index.train(passages)
    index.add(passages)
    return index.search(queries, DEPTH)


def _rankings(
    scores: np.ndarray, rows: np.ndarray, query_ids: Sequence[str], doc_ids: Sequence[str], grades: Grades
) -> Iterator[RankedQuery]:
    for query_id, of_query, values in zip(query_ids, rows.tolist(), scores, strict=True):
        ids = [doc_ids[row] for row in of_query if row >= 0]
        yield ranked(query_id, ids, values[: len(ids)], grades)


def describe_losses(measures: Mapping[str, float], *, dim: int) -> str:
    """A paragraph and a table of the card."""
    whole = measures["float32"]
    rows = "\n".join(
        f"| {bits} | {dim * bits // 8:,} | {measures[name]:.4f} | {measures[name] - whole:+.4f} |"
        for name, bits in BITS.items()
    )
    return (
        "Smaller vectors of the passages, measured on the same queries: 8 bits are `SQ8` of FAISS, 1 bit is\n"
        "sentence-transformers' `quantize_embeddings(vectors, precision='ubinary')`, searched by\n"
        f"`semantic_search_faiss` with `rescore_multiplier={MULTIPLIER}`.\n\n"
        f"| bits of a number | bytes of a vector | {MEASURE} | difference |\n|---|---|---|---|\n{rows}"
    )
