"""Exhaustive search by inner product with PyTorch, on a GPU or any other device.

The hits are those of FAISS on the processor (`condenser.retrieve.exact`): scores agree to the rounding
of float32, a tie goes to the lower row, and neither shards nor reads change a bit. For that, every product is
of `QUERIES_PER_PRODUCT` queries and `block_rows` passages here too, in float32 without TF32.

A query keeps its best hits so far on the device. Of each product, only passages above the worst of these can
become hits, which are few after the first products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from condenser.model.devices import choose_device, claim_visible_gpus, make_deterministic
from condenser.retrieve import exact
from condenser.retrieve.documents import Rows, Scores

HELD_BYTES = 1 << 31  # of queries and their hits on the device; so many queries share a read of the passages
_HIT_BYTES = 8 + 4


class Hits(NamedTuple):
    """The best passages of each query so far: score descending, row ascending."""

    rows: Int64[Tensor, "query rank"]
    scores: Float32[Tensor, "query rank"]


def free_gpu(name: str, *, threads: int) -> torch.device | None:
    """The GPU that the config's `compute.device` means here, claimed and set up; None where there is none.

    Raises:
        ValueError: the name is "cuda" and there is no GPU, or none is free.
    """
    claim_visible_gpus(count=1)
    device = choose_device(name)
    if device.type == "cpu":
        return None
    make_deterministic(threads=threads)  # also switches TF32 off
    return device


def queries_at_once(*, dim: int, depth: int) -> int:
    """The number of queries that stay on the device with their hits: whole products, at least one.

    >>> queries_at_once(dim=768, depth=1000), queries_at_once(dim=768, depth=210)
    (139264, 380928)
    """
    held = HELD_BYTES // (4 * dim + depth * _HIT_BYTES)
    return max(1, held // exact.QUERIES_PER_PRODUCT) * exact.QUERIES_PER_PRODUCT


@torch.inference_mode()
def top_passages_on(
    device: torch.device,
    embeddings: Float32[np.ndarray, "passage dim"],
    queries: Float32[np.ndarray, "query dim"],
    *,
    depth: int,
    block_rows: int,
    on_read: Callable[[int], None] | None = None,
) -> tuple[Rows, Scores]:
    """As `condenser.retrieve.exact.top_passages`, on a device.

    The device holds all these queries and their hits (`queries_at_once`), the passages of one read, and a
    product of `QUERIES_PER_PRODUCT` times `block_rows` scores.
    """
    groups = torch.from_numpy(queries).to(device).split(exact.QUERIES_PER_PRODUCT)
    none = torch.empty(0, 0, dtype=torch.int64, device=device), torch.empty(0, 0, device=device)
    hits = [Hits(*(part.new_empty(len(group), 0) for part in none)) for group in groups]
    for start, piece in exact.pieces(embeddings, block_rows=block_rows):
        for first, block in enumerate(torch.from_numpy(piece).to(device).split(block_rows)):
            row = start + first * block_rows
            for number, group in enumerate(groups):
                hits[number] = _with_product(hits[number], group @ block.T, first_row=row, depth=depth)
        if on_read is not None:
            on_read(len(piece))
    width = min(depth, len(embeddings))
    rows, scores = np.empty((len(queries), width), np.int64), np.empty((len(queries), width), np.float32)
    for first, one in zip(range(0, len(queries), exact.QUERIES_PER_PRODUCT), hits, strict=False):
        rows[first : first + len(one.rows)] = one.rows.cpu()
        scores[first : first + len(one.rows)] = one.scores.cpu()
    return rows, scores


def _with_product(
    hits: Hits, product: Float32[Tensor, "query passage"], *, first_row: int, depth: int
) -> Hits:
    """The hits of the passages so far and of those of a product, whose rows are higher.

    If many passages may become hits, as in the first product, its halves come one after the other: then the
    hits of the left half spare most of the right one, and memory stays small.
    """
    num_passages = product.shape[1]
    better = counts = None
    most = num_passages  # any passage can become a hit as long as there are too few
    if hits.rows.shape[1] == depth:
        better = product > hits.scores[:, -1:]  # of equal scores, the lower row stays
        counts = better.sum(dim=1)
        most = int(counts.max())
    if most == 0:
        return hits
    if most > max(depth, exact.WINDOW):
        half = num_passages // 2
        left = _with_product(hits, product[:, :half], first_row=first_row, depth=depth)
        return _with_product(left, product[:, half:], first_row=first_row + half, depth=depth)
    if better is None or counts is None:
        columns, scores = torch.arange(num_passages, device=product.device).expand_as(product), product
    else:
        columns, scores = _chosen(product, better, counts, width=most)
    scores, order = torch.cat([hits.scores, scores], dim=1).sort(dim=1, descending=True, stable=True)
    rows = torch.cat([hits.rows, columns + first_row], dim=1).gather(1, order[:, :depth])
    return Hits(rows, scores[:, :depth].contiguous())


def _chosen(
    product: Float32[Tensor, "query passage"],
    chosen: Bool[Tensor, "query passage"],
    counts: Int64[Tensor, " query"],
    *,
    width: int,
) -> tuple[Int64[Tensor, "query width"], Float32[Tensor, "query width"]]:
    """Columns and scores of the chosen passages of each query, ascending by column; -inf fills up."""
    queries, columns = chosen.nonzero(as_tuple=True)  # in order of the queries
    scores = product[queries, columns]
    ranks = torch.arange(width, device=product.device)
    places = (counts.cumsum(0) - counts)[:, None] + ranks
    places = places.clamp_(max=len(columns) - 1)
    return columns[places], scores[places].masked_fill_(ranks >= counts[:, None], -torch.inf)
