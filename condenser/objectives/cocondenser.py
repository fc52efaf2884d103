"""coCondenser pre-training: the Condenser's losses, and a contrast of spans of one document.

Source: coCondenser, §3.2 and §4.1, eq. 6 and 7; the gradient cache is §3.3.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from condenser.nouns import Pretraining
from condenser.settings import LARGEST, Block, Count, NotNegative, Positive, Share, Whole

if TYPE_CHECKING:
    from condenser.data.tokens import Tokenizer, TokenShards
    from condenser.train.pretrain import Training


class NewHead(Block):
    """The shape of a Condenser head with random weights; `skip_from` null: half of the backbone's layers.

    Without layers there is no head: the last layer alone predicts the masked words.
    """

    skip_from: Whole | None = None  # the layer of the early states; null: half of the layers
    num_head_layers: Whole  # 0: no head


class Settings(Pretraining):
    """The spans, the losses, and the memory that a step may use.

    `scale` multiplies the similarities in the contrast (`TextVector.scale` by default).

    With `contrastive_weight` 0 the same spans are masked and nothing is contrasted.

    The head is that of `initial`. `new_head` asks for a random one where `initial` has none: a backbone
    that was trained with another head is corrupted by it (luyug/Condenser#11).
    """

    min_span_tokens: Count
    span_tokens: Annotated[list[Count], Field(min_length=2, max_length=2)]
    short_probability: Share
    mask_probability: Share
    scale: Positive | None = None
    mlm_weight: NotNegative
    late_mlm_weight: NotNegative
    contrastive_weight: NotNegative
    batch_size: Annotated[int, Field(ge=2, le=LARGEST)]
    gradient_cache: Literal["auto", "always", "never"]
    memory_gb: Positive
    new_head: NewHead | None = None  # a random head, where `initial` has none; null: the head of `initial`

    @model_validator(mode="after")
    def _spans_fit_and_something_is_learnt(self) -> Settings:
        shortest, longest = self.span_tokens
        if not self.min_span_tokens <= shortest <= longest <= 510:
            raise ValueError(
                "expected min_span_tokens <= span_tokens[0] <= span_tokens[1] <= 510, "
                f"got {self.min_span_tokens}, {shortest}, {longest}"
            )
        has_head = self.new_head is None or self.new_head.num_head_layers > 0
        if not (self.contrastive_weight or (self.mlm_weight and (has_head or self.late_mlm_weight))):
            raise ValueError("expected a loss of weight above 0, got none")
        return self

    @property
    def longest_row(self) -> tuple[str, int]:
        return "span_tokens", self.span_tokens[1]


def training(
    initial: Path, shards: TokenShards, tokenizer: Tokenizer, settings: Settings, *, seed: int
) -> Training:
    """The Condenser of `initial`, head and all, its MLM losses, and the contrast of two spans a document.

    The loss is `contrastive_weight` times the contrastive loss of the vectors of all 2n spans
    (eq. 6) plus `mlm_weight` times the Condenser's losses. Eq. 7 averages both over the spans, 1:1. Its
    MLM term is a sum over a span's masked tokens (eq. 3, 5); ours is the mean over all masked tokens of the
    batch, as in the authors' code without the gradient cache. With it, their code adds the mean of each chunk
    times its rows over the batch's documents. One chunk thus weighs the MLM term exactly 2. With several,
    a chunk counts by its rows and not by its masked tokens: compared with the mean over all masked tokens,
    the term then weighs a little less than 2 (1.94 to 1.99) or more.
    """
    from functools import partial

    import numpy as np

    from condenser.data.spans import sample_spans, span_documents
    from condenser.loss.contrastive import span_contrastive_loss
    from condenser.model.pretraining import Condenser
    from condenser.train.masked_texts import Stretches
    from condenser.train.pretrain import Training, condenser_losses

    documents = span_documents(shards, min_tokens=settings.min_span_tokens)
    model = Condenser.load(
        initial,
        **(vars(settings.new_head) if settings.new_head else {}),
        use_late_mlm=settings.late_mlm_weight > 0,
        missing_head="random" if settings.new_head else "refuse",
        seed=seed,
        dropout=None,
    )

    def texts(items: Any, epoch: int) -> dict[str, Stretches]:
        starts, lengths = sample_spans(
            shards,
            documents,
            items,
            is_continuation=tokenizer.is_continuation,
            min_tokens=settings.min_span_tokens,
            lengths=settings.span_tokens,
            short_probability=settings.short_probability,
            seed=seed,
            epoch=epoch,
        )
        return {"spans": Stretches(starts, lengths, positions=(2 * items[:, None] + np.arange(2)).ravel())}

    mlm_weight, scale = settings.mlm_weight, settings.scale or model.vector.scale
    return Training(
        model=model,
        num_items=len(documents),
        counts={"documents": len(documents), "documents_left_out": documents.num_left_out},
        texts=texts,
        mask_probability=settings.mask_probability,
        loss_weights={
            "head_mlm": mlm_weight if len(model.head) else 0.0,
            "late_mlm": mlm_weight * settings.late_mlm_weight,
        },
        losses=partial(condenser_losses, model),
        represent=model.represent,
        contrast=partial(span_contrastive_loss, scale=scale) if settings.contrastive_weight else None,
        contrastive_weight=settings.contrastive_weight,
        gradient_cache=settings.gradient_cache,
        memory_gb=settings.memory_gb,
    )
