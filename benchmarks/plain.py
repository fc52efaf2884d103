"""Training steps as a user writes them who knows where time goes, on transformers' BERT with our weights.

This loop sorts a batch by length, pads each chunk to its longest text, and computes the logits of masked
tokens alone. `check_condenser` and `check_retriever` compare losses, vectors and gradients with ours.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
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
from condenser.train.vectors import TextRows

IGNORED = -100


class PaddedTexts(NamedTuple):
    """Texts of one width: ids, mask (1 at tokens) and labels (IGNORED where no word is predicted)."""

    ids: Tensor  # [row, token]
    mask: Tensor
    labels: Tensor

    def chunks(self, size: int) -> list[tuple[Tensor, PaddedTexts]]:
        """Chunks of `size` rows by length, as wide as their longest row; each with its rows' numbers."""
        lengths = self.mask.sum(dim=1)
        order = lengths.argsort(descending=True, stable=True)
        widths = ((rows, int(lengths[rows].max())) for rows in order.split(size))
        return [(rows, PaddedTexts(*(part[rows, :width] for part in self))) for rows, width in widths]


def rows_of(inputs: MaskedRows | TextRows | Rows) -> Rows:
    """The rows of a chunk's inputs, of a training or of an encoding."""
    return inputs if isinstance(inputs, Rows) else inputs.rows


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
        is_masked = labels != IGNORED
        states = self.transform(states[is_masked])
        logits = linear(states, self.bert.embeddings.word_embeddings.weight, self.bias)
        return cross_entropy(logits.float(), labels[is_masked])


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

    def __init__(self, model: nn.Module, device: torch.device, precision: str, rows_per_chunk: int) -> None:
        self.model = model.to(device).train()
        self.device, self.precision, self.rows_per_chunk = device, precision, rows_per_chunk
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6)

    def condenser(self, texts: PaddedTexts) -> None:
        """Masked language modelling, chunk by chunk."""
        chunks = texts.chunks(self.rows_per_chunk)
        for _, chunk in chunks:
            with autocast(self.device, self.precision):
                _, loss = self.model(chunk)
            (loss / len(chunks)).backward()
        self._update()

    def cocondenser(self, spans: PaddedTexts) -> None:
        """The contrast of all spans with a gradient cache, and masked language modelling."""
        chunks = spans.chunks(self.rows_per_chunk)
        with torch.no_grad(), autocast(self.device, self.precision):
            vectors = _in_order((rows, self.model.vectors(chunk).float()) for rows, chunk in chunks)
        vectors.requires_grad_()
        (shares,) = torch.autograd.grad(span_contrastive_loss(vectors), vectors)
        for rows, chunk in chunks:
            with autocast(self.device, self.precision):
                own, loss = self.model(chunk)
            ((own.float() * shares[rows]).sum() + loss / len(chunks)).backward()
        self._update()

    def finetuning(self, queries: PaddedTexts, passages: PaddedTexts) -> None:
        """In-batch negatives, without a gradient cache."""
        self.finetuning_loss(queries, passages).backward()
        self._update()

    def finetuning_loss(self, queries: PaddedTexts, passages: PaddedTexts) -> Tensor:
        """The loss of `finetuning`."""
        with autocast(self.device, self.precision):
            left, right = (
                _in_order((rows, self.model(chunk)) for rows, chunk in texts.chunks(self.rows_per_chunk))
                for texts in (queries, passages)
            )
        return in_batch_loss(left, right, scale=20.0)

    def _update(self) -> None:
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _in_order(parts: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    """The vectors of chunks, each at the place of its row in the batch."""
    rows, vectors = zip(*parts, strict=True)
    return torch.cat(vectors)[torch.cat(rows).argsort()]


def check_condenser(ours: Condenser, plain: PlainCondenser, chunk: Any) -> None:
    """Compare both losses and the vectors of a chunk, and the gradients of the losses and the contrast.

    Raises:
        AssertionError: they differ, without dropout and in float32, by more than rounding.
    """
    inputs = chunk.inputs
    width = int(inputs.rows.lengths.max())
    texts = padded_texts([_alone(chunk)], width=width, device=torch.device("cpu"))
    count, even = len(inputs.labels), 2 * (len(chunk.rows) // 2)
    output = ours.eval()(inputs.rows, inputs.masked)
    logits = (output.head_logits[:count], output.late_logits[:count])
    loss = torch.stack([cross_entropy(each, inputs.labels) for each in logits]).sum()
    vectors, plain_loss = plain.eval()(texts)
    torch.testing.assert_close(loss, plain_loss, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(output.vector, vectors, rtol=1e-3, atol=1e-3)
    (loss + span_contrastive_loss(output.vector[:even])).backward()
    (plain_loss + span_contrastive_loss(vectors[:even])).backward()
    names = {"bert.": "backbone.", "transform.": "mlm_head.transform.", "bias": "mlm_head.bias"}
    _check_gradients(ours, plain, names)


def check_retriever(ours: Retriever, plain: PlainStep, chunks: Sequence[Any], widths: dict[str, int]) -> None:
    """Compare the loss of a batch of queries and passages, and its gradients.

    Raises:
        AssertionError: they differ, without dropout and in float32, by more than rounding.
    """
    place = torch.device("cpu")
    checked = PlainStep(plain.model, place, "fp32", plain.rows_per_chunk)
    ours.eval()
    checked.model.eval()
    groups = {name: [chunk for chunk in chunks if chunk.group == name] for name in widths}
    vectors = (
        _in_order((chunk.rows, ours(rows_of(chunk.inputs))) for chunk in group) for group in groups.values()
    )
    texts = (padded_texts(group, width=widths[name], device=place) for name, group in groups.items())
    loss, plain_loss = in_batch_loss(*vectors, scale=20.0), checked.finetuning_loss(*texts)
    torch.testing.assert_close(loss, plain_loss, rtol=1e-4, atol=1e-4)
    loss.backward()
    plain_loss.backward()
    _check_gradients(ours, plain.model, {"bert.": "backbone."})
    plain.model.to(plain.device).train()


def _check_gradients(ours: nn.Module, plain: nn.Module, names: dict[str, str]) -> None:
    """Compare gradients by name, and forget them; `names` has the beginnings that differ, plain to ours."""
    of_ours = dict(ours.named_parameters())
    for name, parameter in plain.named_parameters():
        start = next((start for start in names if name.startswith(start)), "")
        own = of_ours[names.get(start, "") + name.removeprefix(start)].grad
        torch.testing.assert_close(parameter.grad, own, rtol=1e-3, atol=1e-4)
    ours.zero_grad(set_to_none=True)
    plain.zero_grad(set_to_none=True)


def _alone(chunk: Any) -> Any:
    """The chunk as a batch of its own."""
    alone = copy.copy(chunk)
    object.__setattr__(alone, "rows", torch.arange(len(chunk.rows)))
    return alone


def _plain_bert(backbone: Bert) -> BertModel:
    config = BertConfig(**backbone.config.model_dump(), attn_implementation="sdpa")
    bert = BertModel(config, add_pooling_layer=False)
    weights = {name: value for name, value in backbone.state_dict().items() if "pooler" not in name}
    bert.load_state_dict(weights)
    return bert
