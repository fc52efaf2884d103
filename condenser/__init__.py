"""Train dense retrievers the Condenser / coCondenser way: everything that needs no Snakemake.

A notebook uses the names below (docs/start.md). Each is imported when it is first used, so that importing
the package takes no time.
"""

import importlib
from typing import Any

_HOMES = {
    "search": "notebook",
    "encode": "notebook",
    "read": "notebook",
    "Condenser": "model.pretraining",
    "Retriever": "model.retriever",
    "Chunk": "train.chunks",
    "batch_backward": "train.gradient_cache",
    "in_batch_loss": "loss.contrastive",
    "span_contrastive_loss": "loss.contrastive",
    "masked_cross_entropy_sum": "loss.mlm",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
