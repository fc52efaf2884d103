"""Models small enough for exact comparison, far from linear, in float64."""

from __future__ import annotations

import torch
from torch import nn
from transformers import BertConfig, BertModel

from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.pretraining import Condenser
from condenser.model.text_vector import TextVector
from condenser.model.weights import initialise


def small_config(*, dropout: float = 0.0, num_layers: int = 4) -> BertConfig:
    """A BERT 12 wide with 40 words."""
    config = BertConfig(
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
    config._attn_implementation = "sdpa"
    return config


def perturb(module: nn.Module) -> None:
    """Move biases and LayerNorms, too, off their plain starting values."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
            parameter += 0.1 * noise.to(parameter.dtype)


def small_backbone(*, dropout: float = 0.0, num_layers: int = 4, seed: int = 1) -> BertModel:
    """A backbone with frozen pooler, as load_backbone gives it."""
    backbone = BertModel(small_config(dropout=dropout, num_layers=num_layers))
    initialise(backbone, standard_deviation=0.2, seed=seed)
    perturb(backbone)
    backbone.pooler.requires_grad_(False)
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
