"""Share of triplets whose positive is nearer to the anchor than their negative.

Source: Ein Dor et al. 2018; Condenser, Table 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

NAME = "accuracy"
TASK = "triplets"


def values(similarities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """1 for each triplet whose similarity to the positive is above that to the negative, else 0.

    Of several kinds of similarity, two columns each, the one with the largest accuracy counts.
    """
    is_right = (similarities[:, 0::2] > similarities[:, 1::2]).astype(float)
    return max(is_right.T, key=lambda of_kind: float(of_kind.mean()))
