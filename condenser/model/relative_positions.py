"""What attention adds to scores for the distance of two tokens: learnt (MPNet), or a window (ModernBERT)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from condenser.model.rows import Chosen, Rows

_FARTHEST = 128
"""From this distance on all are alike: transformers' MPNet."""


class RelativeBias:
    """A learnt number for each head and bucket of distances.

    Source: Raffel et al. 2020 (T5), §2.1; MPNet's layers share one table.
    """

    def __init__(self, table: nn.Embedding) -> None:
        self._table = table

    def of(self, rows: Rows, chosen: Chosen | None) -> list[Float[Tensor, "_ head query place"]]:
        """For each group, what is added to the scores of the chosen tokens, None for all."""
        buckets = self._table.num_embeddings
        return [
            self._table(_buckets(distance, num_buckets=buckets)).permute(0, 3, 1, 2)
            for distance in distances(rows, chosen)
        ]


def window_bias(
    rows: Rows, chosen: Chosen | None, *, reach: int, dtype: torch.dtype
) -> list[Float[Tensor, "_ 1 query place"]]:
    """For each group, a score that leaves no share where a token is over `reach` places away, else 0.

    It is finite, because padding may have no token in reach, and a softmax of nothing but -inf is NaN.
    """
    hidden = torch.finfo(dtype).min / 2
    return [
        torch.zeros(distance.shape, dtype=dtype, device=distance.device)
        .masked_fill_(distance.abs() > reach, hidden)
        .unsqueeze(1)
        for distance in distances(rows, chosen)
    ]


def distances(rows: Rows, chosen: Chosen | None) -> list[Int[Tensor, "_ query place"]]:
    """For each group, how many places a token stands behind the chosen one; of all, the first axis is 1."""
    groups, device = rows.layout.groups, rows.columns.device
    places = [torch.arange(group.width, device=device) for group in groups]
    if chosen is None:
        return [(keys - keys[:, None]).unsqueeze(0) for keys in places]
    columns = rows.columns.index_select(0, chosen.tokens)
    return [
        # the padding of a row without chosen tokens has the column of another row
        keys - of_group.clamp(max=group.width - 1).unsqueeze(-1)
        for keys, group, of_group in zip(places, groups, chosen.layout.numbers_by_group(columns), strict=True)
    ]


def _buckets(distance: Int[Tensor, "*places"], *, num_buckets: int) -> Int[Tensor, "*places"]:
    """Half of the buckets for each direction; half of these for single distances, then ever wider ones."""
    half = num_buckets // 2
    near = half // 2
    far = distance.abs()
    widening = (
        torch.log(far.clamp(min=1).float() / near) / math.log(_FARTHEST / near) * (half - near)
    ).long()
    one_way = torch.where(far < near, far, (near + widening).clamp(max=half - 1))
    return one_way + (distance > 0).long() * half
