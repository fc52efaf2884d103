"""Fine-tuning of sentence encoders on pairs and triplets, by the losses of sentence-transformers.

The losses are theirs; order, dropout, checkpoints and the optimiser are those of every training here
(`condenser.train.loop`), so that a training that was killed resumes to the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.util import batch_to_device, dot_score
from torch import Tensor, nn

from condenser.blocks import SentenceRecipe
from condenser.data.randomness import stream_key
from condenser.data.records import Item, read_items
from condenser.data.subsets import read_subset
from condenser.loss.precision import at_least_float32
from condenser.model.devices import autocast
from condenser.papers.sentence_encoder import load_sentence_encoder, save_sentence_encoder
from condenser.train.loop import Batch, Run, Trainable

HIGHEST_SCORE = 5.0  # of a pair; a cosine should be the score's share of it
NUM_CLASSES = 3


@dataclass(frozen=True)
class Columns:
    """The tokens of a batch for each place in a pair or triplet, its labels, and the seed of its dropout."""

    features: list[dict[str, Any]]
    labels: Tensor
    seed: int


def sentence_loss(
    encoder: SentenceTransformer, task: str, *, margin: float | None, products: bool, seed: int
) -> tuple[nn.Module, torch.dtype]:
    """The loss of a task as a module around the encoder, and the type of its labels.

    - `similarity`: the mean square of cosine less score / 5.
    - `triplets`: max(|a - p| - |a - n| + margin, 0) with Euclidean distances. They are torch's, which
      sentence-transformers took at the papers' time: the gradient is finite where two texts are equal.
    - `inference`: cross-entropy of a linear layer on (u, v, |u - v|), whose weights are drawn by `seed`; with
      `products` also on u * v (Conneau et al. 2017).
    - `neighbours`: cross-entropy of a sentence's inner products with the second sentences of all pairs of the
      batch (Logeswaran and Lee 2018, but with one encoder for both).

    Source: Reimers and Gurevych 2019, §3; Condenser, §4.2.
    """
    if task == "similarity":
        return losses.CosineSimilarityLoss(encoder), torch.float32
    if task == "triplets":
        assert margin is not None, "the configuration has seen to it"
        distance = nn.functional.pairwise_distance
        return losses.TripletLoss(encoder, distance_metric=distance, triplet_margin=margin), torch.float32
    if task == "neighbours":
        ranking = losses.MultipleNegativesRankingLoss(encoder, scale=1.0, similarity_fct=_inner_products)
        return ranking, torch.float32
    assert task == "inference", task
    torch.manual_seed(stream_key(seed, "classifier"))
    dim = encoder.get_embedding_dimension()
    assert dim is not None
    classifier = losses.SoftmaxLoss(
        encoder,
        embedding_dimension=dim,
        num_labels=NUM_CLASSES,
        concatenation_sent_multiplication=products,
    )
    return classifier, torch.int64


def _inner_products(vectors: Tensor, others: Tensor) -> Tensor:
    """Of all pairs; autocast would round products, and with them the loss, to three digits."""
    with torch.autocast(vectors.device.type, enabled=False):
        return dot_score(at_least_float32(vectors), at_least_float32(others))


def sentence_training(
    items_file: Path, subset: Path | None, initial: Path, run: Run[SentenceRecipe], *, task: str
) -> Trainable[Columns]:
    """Fine-tuning of the encoder of the folder `initial` on items.

    An epoch ends with a shorter batch if the items do not divide evenly.

    Args:
        subset: the ids of the items to train on; None for all.
        run: of one process. Its settings are the recipe; `max_tokens`, `margin` and `products` are read
            here.
        task: `similarity`, `triplets`, `inference` or `neighbours` (`condenser.data.sources`).
    """
    assert run.processes.world_size == 1
    wanted = read_subset(subset) if subset else None
    items = [item for item in read_items(items_file) if wanted is None or item.item_id in wanted]
    settings, seed, device = run.settings, run.seed, run.processes.device
    encoder = load_sentence_encoder(initial, max_tokens=settings.max_tokens, device=device)
    loss, label_type = sentence_loss(
        encoder, task, margin=settings.margin, products=settings.products, seed=seed
    )
    loss.to(device).train()

    def prepare(step: int) -> Batch[Columns]:
        epoch, places = run.items_of(step, len(items), stream="sentences")
        chosen = [items[place] for place in places.tolist()]
        columns = zip(*(one.texts for one in chosen), strict=True)
        features = [dict(encoder.preprocess(list(texts))) for texts in columns]
        labels = torch.tensor(_labels(chosen, task), dtype=label_type)
        return Batch(
            Columns(features, labels, stream_key(seed, f"dropout of step {step}")),
            epoch,
            len(chosen),
            sum(int(column["attention_mask"].sum()) for column in features),
            lambda: {"items": [one.item_id for one in chosen]},
            len(items),
        )

    def backward(columns: Columns, loss_scale: float) -> dict[str, float]:
        torch.manual_seed(columns.seed)
        features = [batch_to_device(column, device) for column in columns.features]
        with autocast(device, run.precision):
            value = loss(features, columns.labels.to(device))
        (value * loss_scale).backward()
        return {"loss": float(value.detach())}

    save = partial(save_sentence_encoder, encoder, initial)
    return Trainable("sentences", loss, len(items), prepare, backward, save, {"items": len(items)})


def _labels(items: Sequence[Item], task: str) -> list[float]:
    """What the loss compares with; of triplets and neighbours, without labels, nothing that it reads."""
    scale = HIGHEST_SCORE if task == "similarity" else 1.0
    return [0.0 if item.label is None else item.label / scale for item in items]
