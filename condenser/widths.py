"""How rows and tokens are padded for fast products."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

_MULTIPLE = 8  # GPUs multiply matrices fastest in multiples of 8
TOKENS_MULTIPLE, CHOSEN_MULTIPLE = 128, 32  # of all tokens of a chunk; of those that a last layer computes
_CPU_MULTIPLE = 16  # of others, PyTorch's softmax of bfloat16 takes up to three times as long on a CPU


def padded_width(num_tokens: int) -> int:
    """Tokens of a row with padding.

    >>> padded_width(8), padded_width(9)
    (8, 16)
    """
    return -(-num_tokens // _MULTIPLE) * _MULTIPLE


def padded_count(count: int, *, multiple: int) -> int:
    """Tokens that are computed for so many: some more, so that few different numbers occur.

    oneDNN compiles a product for every number of tokens, which takes 2 to 4 ms.

    >>> padded_count(130, multiple=128), padded_count(0, multiple=128)
    (256, 0)
    """
    return -(-count // multiple) * multiple


def row_widths(lengths: Int[np.ndarray, " row"], *, on_cpu: bool) -> Int[np.ndarray, " row"]:
    """How wide attention lays out rows of these lengths; consecutive ones of one width are computed together.

    On a GPU all rows have one width. On a CPU, where large products are no faster, little is padded.

    >>> row_widths(np.array([40, 33, 5]), on_cpu=True), row_widths(np.array([40, 33, 5]), on_cpu=False)
    (array([48, 48, 16]), array([40, 40, 40]))
    """
    if on_cpu:
        return -(-lengths // _CPU_MULTIPLE) * _CPU_MULTIPLE
    return np.full_like(lengths, padded_width(int(lengths.max())))
