"""Figures as published, for the tables: data only, each with its source.

MRR@10 and R@1000 are fractions here, as in our tables; the papers print per cent.
"""

from __future__ import annotations

from typing import NamedTuple


class PublishedRow(NamedTuple):
    """One row of a paper's MS MARCO passage table; None where the paper has no figure."""

    method: str
    batch_size: int
    mrr_at_10: float
    recall_at_1000: float | None


# coCondenser, Table 2: MS MARCO passage dev, 6,980 queries. RocketQA's figures are those of its own
# paper (Qu et al. 2021, Table 5) as coCondenser quotes them. The batch counts passages.
TABLE_2 = (
    PublishedRow("RocketQA, cross-batch negatives", 8192, 0.333, None),
    PublishedRow("RocketQA + hard negatives", 4096, 0.260, None),
    PublishedRow("RocketQA + denoising", 4096, 0.364, None),
    PublishedRow("RocketQA + data augmentation", 4096, 0.370, 0.979),
    PublishedRow("Condenser w/o hard negatives", 64, 0.338, 0.961),
    PublishedRow("Condenser + hard negatives", 64, 0.366, 0.974),
    PublishedRow("coCondenser w/o hard negatives", 64, 0.357, 0.978),
    PublishedRow("coCondenser + hard negatives", 64, 0.382, 0.984),
)

OFFICIAL_PASSAGES = 8_841_823
OFFICIAL_DEV_QUERIES = 6_980
OFFICIAL_DL19_QUERIES = 43  # judged, of 200 topics of TREC DL 2019
