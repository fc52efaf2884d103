"""Rank correlation of the similarities of pairs with their scores.

Source: Spearman 1904; for the STS benchmark Reimers and Gurevych 2019, Condenser, Table 1.

A correlation is not a mean over pairs. To estimate its uncertainty like that of a mean, each pair gets a
jackknife pseudo-value, n r - (n - 1) r_i, where r_i is the correlation without the pair. All are shifted by
one number so that their mean is r. To first order their spread is that of r over other samples of pairs.
Source: Efron and Tibshirani 1993, ch. 11; shifted ("normalised") and taken as scores of readers on cases:
Hillis et al., Statistics in Medicine 2005. Two systems of equal quality differed at .05 in 2 to 8.5 % of 300
simulations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

NAME = "spearman"
TASK = "similarity"
LEAST = -1.0

_CELLS_AT_ONCE = 1 << 22  # bounds the memory, changes no result


def values(similarities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The normalised pseudo-values of all pairs; their mean is Spearman's correlation.

    The correlation counts as 0 where all similarities or all labels are equal. Of several similarities
    [item, kind] the one with the largest correlation counts.
    """

    best = max(similarities.T, key=lambda of_kind: correlation(of_kind, labels))
    whole = correlation(best, labels)
    without = correlations_without_each(best, labels)
    return whole + (len(labels) - 1) * (without.mean() - without)


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rank correlation of two arrays [item], ties by their mean rank; 0 where one is constant."""
    return float(_pearson(_ranks(first)[None], _ranks(second)[None])[0])


def correlations_without_each(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The correlation of all other items, for each item [item]."""
    import numpy as np

    num_items = len(first)
    rows_at_once = max(1, _CELLS_AT_ONCE // num_items)
    ranks = [(values, _ranks(values)) for values in (first, second)]
    correlations = []
    for begin in range(0, num_items, rows_at_once):
        left_out = np.arange(begin, min(begin + rows_at_once, num_items))
        others = np.ones((len(left_out), num_items), dtype=bool)
        others[np.arange(len(left_out)), left_out] = False
        # of items above the one left out the rank falls by 1, of its equals by a half
        lowered = [
            of_all
            - (values > values[left_out, None]).astype(np.float64)
            - (values == values[left_out, None]) / 2
            for values, of_all in ranks
        ]
        correlations.append(
            _pearson(
                *(ranks_without[others].reshape(len(left_out), num_items - 1) for ranks_without in lowered)
            )
        )
    return np.concatenate(correlations)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values have the mean of theirs."""
    import numpy as np

    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def _pearson(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Pearson's correlation of each row of two arrays [row, item]; 0 where one is constant."""
    import numpy as np

    first = first - first.mean(axis=1, keepdims=True)
    second = second - second.mean(axis=1, keepdims=True)
    squares = (first**2).sum(axis=1) * (second**2).sum(axis=1)
    products = (first * second).sum(axis=1)
    return np.divide(products, np.sqrt(squares), out=np.zeros(len(products)), where=squares > 0)
