"""What small vectors cost, against a search over all of them that is written out."""

from __future__ import annotations

import numpy as np
import pytest

from condenser.export.quantised import describe_losses, quantised_measures

QUERIES, PASSAGES, DIM = 12, 60, 16


def by_hand(scores: np.ndarray, relevant: np.ndarray) -> float:
    """Mean nDCG@10 of one relevant passage a query."""
    ranks = [int((row > row[one]).sum()) + 1 for row, one in zip(scores, relevant, strict=True)]
    return float(np.mean([1 / np.log2(rank + 1) if rank <= 10 else 0.0 for rank in ranks]))


@pytest.fixture(scope="module")
def vectors() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries near their relevant passages, whose first half of the dimensions weighs most."""
    generator = np.random.default_rng(3)
    passages = generator.normal(size=(PASSAGES, DIM)) * np.linspace(3, 0.2, DIM)
    relevant = generator.permutation(PASSAGES)[:QUERIES]
    queries = passages[relevant] + 2.2 * generator.normal(size=(QUERIES, DIM))
    return queries.astype(np.float32), passages.astype(np.float32), relevant


def test_measures_are_those_of_the_vectors_that_are_left(
    vectors: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    queries, passages, relevant = vectors
    found = quantised_measures(
        queries,
        passages,
        query_ids=[f"q{number}" for number in range(QUERIES)],
        doc_ids=[f"d{row}" for row in range(PASSAGES)],
        grades={f"q{number}": {f"d{row}": 1} for number, row in enumerate(relevant.tolist())},
        relevant_grade=1,
    )
    least, steps = passages.min(axis=0), np.ptp(passages, axis=0) / 255
    in_8_bits = least + (np.floor((passages - least) / steps) + 0.5) * steps
    assert list(found) == ["float32", "SQ8", "ubinary"]
    assert found["float32"] == pytest.approx(by_hand(queries @ passages.T, relevant))
    assert found["SQ8"] == pytest.approx(by_hand(queries @ in_8_bits.T, relevant), abs=0.01)
    # the first 40 by the bits in which query and passage agree, then by the query with the bits
    agreeing = ((queries > 0)[:, None] == (passages > 0)[None]).sum(axis=2)
    in_bits = (queries @ (passages > 0).T).astype(np.float64)
    for row, counts in zip(in_bits, agreeing, strict=True):
        row[counts < np.sort(counts)[-40]] = -np.inf
    assert found["ubinary"] == pytest.approx(by_hand(in_bits, relevant), abs=0.01)
    assert abs(found["ubinary"] - found["float32"]) > 0.02
    said = describe_losses(found, dim=DIM)
    assert f"| 1 | 2 | {found['ubinary']:.4f} | {found['ubinary'] - found['float32']:+.4f} |" in said
    assert f"| 32 | 64 | {found['float32']:.4f} | +0.0000 |" in said
