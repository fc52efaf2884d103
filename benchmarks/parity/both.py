"""What both sides of the check share: sizes, and how results are counted. Imports nothing else of either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

SEED = 42
SKIP_FROM = NUM_HEAD_LAYERS = 2
MAX_TOKENS = 30  # of a block, without specials
QUERY_LENGTH, PASSAGE_LENGTH, PASSAGES_PER_QUERY, NUM_EPOCHS = 12, 40, 3, 7
NUM_STEPS = 10  # of the optimiser
OPTIMISER = {"learning_rate": 1e-3, "weight_decay": 0.01, "warmup_ratio": 0.1, "max_grad_norm": 1.0}
MASK_PROBABILITY, NUM_MASKINGS = 0.15, 40
DEPTH, SAMPLE, NUM_ASKED, NUM_LISTED = 50, 30, 12, 200  # of negatives; queries, passages


def as_tensors(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Copies, of numbers in float64."""
    return {
        name: torch.as_tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
        .detach()
        .clone()
        for name, value in values.items()
    }


def gradients(named: Iterable[tuple[str, nn.Parameter]], prefix: str = "grad/") -> dict[str, Tensor]:
    """The gradients by name; takes them from the weights."""
    found = {}
    for name, weight in named:
        if weight.grad is not None:
            found[prefix + name], weight.grad = weight.grad, None
    return found


def masking_figures(
    is_masked: np.ndarray,
    batches: Iterable[tuple[Any, Any]],
    lengths: np.ndarray,
    mask_id: int,
    special: set[int],
) -> dict[str, Any]:
    """Counts of `is_masked` [text, token], and shares in `batches` of new and original ids of masked tokens.

    Shares: of all tokens; of [MASK], another token and the same; of special tokens among the others.
    """
    new, old = (np.concatenate([np.asarray(ids) for ids in parts]) for parts in zip(*batches, strict=True))
    is_mask, is_same = new == mask_id, new == old
    actions = np.array([is_mask.sum(), (~is_mask & ~is_same).sum(), is_same.sum()])
    return {
        "positions": is_masked.astype(np.int64),
        "counts": is_masked.sum(axis=1),
        "share of tokens": len(new) / float(NUM_MASKINGS * (lengths - 2).sum()),
        "shares of actions": actions / actions.sum(),
        "specials among random tokens": float(np.isin(new, list(special - {mask_id})).sum() / actions[1]),
    }


def broken_words(ids: np.ndarray, is_masked: np.ndarray, is_continuation: np.ndarray) -> float:
    """Continuations of which either they or the piece before them is masked, and not both.

    The first piece of a window, behind [CLS], begins a word on both sides.
    """
    inside = is_continuation[ids[:, 2:]]
    return float((inside & (is_masked[:, 2:] != is_masked[:, 1:-1])).sum())


def listed(doc_ids: Mapping[str, Iterable[str]]) -> np.ndarray:
    """Whether a query lists a passage [query, passage]."""
    flags = np.zeros((NUM_ASKED, NUM_LISTED), dtype=np.int64)
    for query_id, ids in doc_ids.items():
        flags[int(query_id), [int(doc_id) for doc_id in ids]] = 1
    return flags


def triple_figures(negatives: Mapping[str, Sequence[str]], judged: Mapping[str, Any]) -> dict[str, Any]:
    """The negatives of triples, and how many are judged positive or named again."""
    queries = sorted(negatives, key=int)
    return {
        "negatives": listed({query: set(negatives[query]) - set(judged[query]) for query in queries}),
        "judged positive": np.array([sum(d in judged[q] for d in negatives[q]) for q in queries]),
        "listed again": np.array([len(negatives[q]) - len(set(negatives[q])) for q in queries]),
    }
