"""Folders of small retrievers with random weights."""

from __future__ import annotations

from pathlib import Path

import torch

from condenser.model.backbone import new_backbone
from condenser.model.retriever import UntiedEncoders
from condenser.model.text_vector import TextVector


def random_retriever(folder: Path, *, pooling: str, normalised: bool, tied: bool) -> Path:
    """A BERT with random weights; with two encoders, that of queries has other weights."""
    start = folder / "start"
    new_backbone(
        start, seed=1, vector=TextVector(pooling, normalised),
        texts=["abc abd bcd abc"] * 3,
        shape={"hidden_size": 12, "num_layers": 2, "num_heads": 3, "intermediate_size": 20,
               "vocab_size": 40, "max_positions": 16},
    )  # fmt: skip
    if tied:
        return start
    encoders = UntiedEncoders.load(start, dropout=None)
    with torch.no_grad():
        for weight in encoders.queries.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(2))
    encoders.save(folder / "untied", start)
    return folder / "untied"
