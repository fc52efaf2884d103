"""Models small enough for exact comparison, far from linear, in float64; and transformers' own beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from jaxtyping import Bool, Int
from torch import Tensor, nn
from transformers import BertModel
from transformers.models.bert.modeling_bert import BertLayer

from condenser.encoders import BertConfig
from condenser.model.bert import Bert, Layer
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.pretraining import Condenser
from condenser.model.rows import Chosen, Layout, Rows
from condenser.model.text_vector import TextVector
from condenser.model.tokenizer_files import wordpiece_tokenizer
from condenser.model.weights import initialise

WORDS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *"abcdefghijklmnop",
    *(f"##{letter}" for letter in "abcdefghijklmnop"),
]


def small_config(*, dropout: float = 0.0, num_layers: int = 4) -> BertConfig:
    """A BERT 12 wide with 40 words."""
    return BertConfig(
        vocab_size=40,
        hidden_size=12,
        num_hidden_layers=num_layers,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=16,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.2,  # BERT's 0.02 would leave everything nearly linear
    )


def transformers_config(config: BertConfig) -> transformers.BertConfig:
    """The same settings for transformers, whose slowest attention says all it does."""
    return transformers.BertConfig(**config.model_dump(), attn_implementation="eager")


def transformers_bert(bert: Bert) -> BertModel:
    """transformers' BERT with the same weights, in training where ours is."""
    theirs = BertModel(transformers_config(bert.config)).to(next(bert.parameters()).dtype)
    theirs.load_state_dict(bert.state_dict())
    return theirs.train(bert.training)


def transformers_layer(layer: Layer, config: BertConfig) -> BertLayer:
    """transformers' layer with the same weights."""
    theirs = BertLayer(transformers_config(config)).to(next(layer.parameters()).dtype)
    theirs.load_state_dict(layer.state_dict())
    return theirs.train(layer.training)


def write_checkpoint(folder: Path, kind: type) -> Any:
    """A checkpoint of a class of transformers as it writes it, with a tokenizer that cuts at 8."""
    torch.manual_seed(0)
    model = kind(transformers_config(small_config(num_layers=2))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer = wordpiece_tokenizer(WORDS, max_length=16)
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.backend_tokenizer.enable_padding(length=8)
    tokenizer.save_pretrained(folder)
    return model


def padded(rows: Rows) -> tuple[Int[Tensor, "row place"], Bool[Tensor, "row place"]]:
    """Ids and mask as transformers wants them."""
    width = int(rows.lengths.max())
    mask = torch.from_numpy(np.arange(width) < rows.lengths[:, None])
    ids = torch.zeros(mask.shape, dtype=torch.int64)
    ids[mask] = rows.ids[: rows.layout.num_tokens]
    return ids, mask


def meant(values: Tensor, of: Layout) -> Tensor:
    """Without what is computed for more tokens than there are."""
    return values[: of.num_tokens]


def perturb(module: nn.Module) -> None:
    """Move biases and LayerNorms, too, off their plain starting values."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
            parameter += 0.1 * noise.to(parameter.dtype)


def small_backbone(*, dropout: float = 0.0, num_layers: int = 4, seed: int = 1) -> Bert:
    """A backbone as load_backbone gives it, but in float64."""
    backbone = Bert(small_config(dropout=dropout, num_layers=num_layers))
    initialise(backbone, standard_deviation=0.2, seed=seed)
    perturb(backbone)
    return backbone.double()


def small_condenser(
    *,
    skip_from: int = 2,
    num_head_layers: int = 2,
    dropout: float = 0.0,
    use_late_mlm: bool = True,
    vector: TextVector | None = None,
) -> Condenser:
    """A Condenser over `small_backbone`."""
    backbone = small_backbone(dropout=dropout)
    head = MaskedLanguageHead(backbone.config)
    initialise(head, standard_deviation=0.2, seed=2)
    model = Condenser(
        backbone,
        head,
        num_head_layers=num_head_layers,
        skip_from=skip_from,
        use_late_mlm=use_late_mlm,
        seed=3,
        vector=vector,
    )
    perturb(model.mlm_head)
    perturb(model.head)
    return model.double()


def full_rows(ids: Tensor, token_types: Tensor | None = None) -> Rows:
    """Rows without padding."""
    types = None if token_types is None else token_types.numpy()
    return Rows.of(ids.numpy(), np.full(len(ids), ids.shape[1]), token_types=types)


def chosen(rows: Rows, places: Tensor, *, width: int) -> Chosen:
    """The tokens at these places, counted through rows of one width."""
    return rows.chosen(*np.divmod(places.numpy(), width))
