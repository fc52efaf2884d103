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
    """1 for each triplet whose first similarity, to the positive, is above the second, else 0."""
    return (similarities[:, 0] > similarities[:, 1]).astype(float)
