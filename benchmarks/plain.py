"""The plain way of a training step: transformers' BERT in full, every text padded to one width.

It has the weights of our models and gives their losses, which `same_losses` checks, but none of their
economy: logits of the whole vocabulary at every position, all of the last layers, attention and dropout of
transformers, one optimiser for all weights. Source: what luyug/Condenser and transformers' Trainer compute.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, normalize
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertLayer, BertPredictionHeadTransform

from condenser.loss.contrastive import in_batch_loss, span_contrastive_loss
from condenser.model.bert import Bert
from condenser.model.devices import autocast
from condenser.model.pretraining import Condenser
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.train.masked_texts import MaskedRows

IGNORED = -100


class PaddedTexts(NamedTuple):
    """Texts of one width: ids, mask (1 at tokens) and labels (IGNORED where no word is predicted)."""

    ids: Tensor  # [row, token]
    mask: Tensor
    labels: Tensor

    def split(self, rows: int) -> list[PaddedTexts]:
        """Chunks of so many rows."""
        return [PaddedTexts(*parts) for parts in zip(*(each.split(rows) for each in self), strict=True)]


def rows_of(inputs: MaskedRows | Rows) -> Rows:
    """The rows of a chunk's inputs, masked or not."""
    return inputs.rows if isinstance(inputs, MaskedRows) else inputs


def padded_texts(chunks: Sequence[Any], *, width: int, device: torch.device) -> PaddedTexts:
    """The rows of our chunks in the batch's own order, padded to `width`."""
    count = sum(len(chunk.rows) for chunk in chunks)
    ids, mask = (torch.zeros(count, width, dtype=torch.int64) for _ in range(2))
    labels = torch.full((count, width), IGNORED)
    for chunk in chunks:
        inputs, rows = chunk.inputs, rows_of(chunk.inputs)
        count = rows.layout.num_tokens
        at_tokens = (chunk.rows.repeat_interleave(torch.from_numpy(rows.lengths)), rows.columns[:count])
        ids[at_tokens] = rows.ids[:count]
        mask[at_tokens] = 1
        if isinstance(inputs, MaskedRows):
            told = torch.full((count,), IGNORED)
            told[inputs.masked.tokens[: len(inputs.labels)]] = inputs.labels
            labels[at_tokens] = told
    return PaddedTexts(*(each.to(device) for each in (ids, mask, labels)))


class PlainCondenser(nn.Module):
    """A Condenser by the equations, with the weights of ours."""

    def __init__(self, ours: Condenser) -> None:
        super().__init__()
        self.bert = _plain_bert(ours.backbone)
        config, self.skip_from = self.bert.config, ours.skip_from
        self.head = nn.ModuleList(BertLayer(config) for _ in ours.head)
        self.head.load_state_dict(ours.head.state_dict())
        self.transform = BertPredictionHeadTransform(config)
        self.transform.load_state_dict(ours.mlm_head.transform.state_dict())
        self.bias = nn.Parameter(ours.mlm_head.bias.detach().clone())

    def forward(self, texts: PaddedTexts) -> tuple[Tensor, Tensor]:
        """The vectors [row, dim], and the sum of both losses, each a mean over the masked tokens."""
        output = self.bert(texts.ids, attention_mask=texts.mask, output_hidden_states=True)
        late, early = output.last_hidden_state, output.hidden_states[self.skip_from]
        states = torch.cat([late[:, :1], early[:, 1:]], dim=1)
        for layer in self.head:
            states = layer(states, texts.mask[:, None, None, :].bool())
        return late[:, 0], self._loss(states, texts.labels) + self._loss(late, texts.labels)

    def vectors(self, texts: PaddedTexts) -> Tensor:
        """The vectors [row, dim] by BERT alone."""
        return self.bert(texts.ids, attention_mask=texts.mask).last_hidden_state[:, 0]

    def _loss(self, states: Tensor, labels: Tensor) -> Tensor:
        logits = linear(self.transform(states), self.bert.embeddings.word_embeddings.weight, self.bias)
        return cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


class PlainRetriever(nn.Module):
    """Mean pooling and vectors of length 1, as sentence-transformers' folder of the model says."""

    def __init__(self, ours: Retriever) -> None:
        super().__init__()
        self.bert = _plain_bert(ours.backbone)

    def forward(self, texts: PaddedTexts) -> Tensor:
        """The vectors [row, dim]."""
        states = self.bert(texts.ids, attention_mask=texts.mask).last_hidden_state
        is_token = texts.mask[:, :, None].to(states.dtype)
        return normalize((states * is_token).sum(dim=1) / is_token.sum(dim=1), dim=-1)


class PlainStep:
    """Steps of AdamW on a plain model."""

    def __init__(
        self, model: nn.Module, *, device: torch.device, precision: str, rows_per_chunk: int
    ) -> None:
        self.model = model.to(device).train()
        self.device, self.precision, self.rows_per_chunk = device, precision, rows_per_chunk
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6)

    def condenser(self, texts: PaddedTexts) -> None:
        """Masked language modelling, chunk by chunk."""
        chunks = texts.split(self.rows_per_chunk)
        for chunk in chunks:
            with autocast(self.device, self.precision):
                _, loss = self.model(chunk)
            (loss / len(chunks)).backward()
        self._update()

    def cocondenser(self, spans: PaddedTexts) -> None:
        """The contrast of all spans with a gradient cache, and masked language modelling."""
        chunks = spans.split(self.rows_per_chunk)
        with torch.no_grad(), autocast(self.device, self.precision):
            vectors = torch.cat([self.model.vectors(chunk).float() for chunk in chunks]).requires_grad_()
        (shares,) = torch.autograd.grad(span_contrastive_loss(vectors), vectors)
        for chunk, share in zip(chunks, shares.split(self.rows_per_chunk), strict=True):
            with autocast(self.device, self.precision):
                own, loss = self.model(chunk)
            ((own.float() * share).sum() + loss / len(chunks)).backward()
        self._update()

    def finetuning(self, queries: PaddedTexts, passages: PaddedTexts) -> None:
        """In-batch negatives, without a gradient cache."""
        with autocast(self.device, self.precision):
            left, right = self.model(queries), self.model(passages)
        in_batch_loss(left, right, scale=20.0).backward()
        self._update()

    def _update(self) -> None:
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def same_losses(ours: Condenser, plain: PlainCondenser, chunk: Any) -> None:
    """Raise unless both models give the same losses and vectors of a chunk, without dropout, in float32."""
    inputs = chunk.inputs
    width = int(inputs.rows.lengths.max())
    own = padded_texts([_alone(chunk)], width=width, device=torch.device("cpu"))
    count = len(inputs.labels)
    with torch.no_grad():
        output = ours.eval()(inputs.rows, inputs.masked)
        logits = (output.head_logits[:count], output.late_logits[:count])
        losses = [cross_entropy(each, inputs.labels) for each in logits]
        vectors, loss = plain.eval()(own)
    torch.testing.assert_close(sum(losses), loss, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(output.vector, vectors, rtol=1e-3, atol=1e-3)


def _alone(chunk: Any) -> Any:
    """The chunk as a batch of its own."""
    alone = copy.copy(chunk)
    object.__setattr__(alone, "rows", torch.arange(len(chunk.rows)))
    return alone


def _plain_bert(backbone: Bert) -> BertModel:
    config = BertConfig(**backbone.config.model_dump(), attn_implementation="sdpa")
    bert = BertModel(config, add_pooling_layer=False)
    bert.load_state_dict(
        {name: value for name, value in backbone.state_dict().items() if "pooler" not in name}
    )
    return bert
