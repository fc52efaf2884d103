"""The entropy of [CLS] attention: ln n where attention is uniform, and that of a slow, plain computation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_models import padded, small_backbone, transformers_bert

from condenser.model.rows import Rows
from condenser.papers.attention import cls_attention_entropies

IDS = np.array([[3, 9, 17, 25, 2, 8], [3, 11, 4, 2, 0, 0]])
LENGTHS = np.array([6, 4])
ROWS = Rows.of(IDS, LENGTHS)


def test_uniform_attention_over_n_tokens_gives_ln_n() -> None:
    backbone = small_backbone().eval()
    for layer in backbone.encoder.layer:
        torch.nn.init.zeros_(layer.attention.self.query.weight)
        torch.nn.init.zeros_(layer.attention.self.query.bias)
    found = cls_attention_entropies(backbone, ROWS)
    expected = torch.tensor([[math.log(length)] * 4 for length in LENGTHS], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


def test_attention_to_one_token_gives_nothing() -> None:
    backbone = small_backbone(num_layers=1).eval()
    module = backbone.encoder.layer[0].attention.self
    torch.nn.init.constant_(module.query.bias, 0.0)
    module.query.weight.data *= 1e6
    assert cls_attention_entropies(backbone, ROWS).abs().max() < 1e-12


@pytest.mark.parametrize("is_padded", [True, False])
def test_it_equals_a_slow_computation_from_the_attention_of_transformers(is_padded: bool) -> None:
    backbone = small_backbone().eval()
    rows, lengths = (ROWS, LENGTHS) if is_padded else (Rows.of(IDS[:1], LENGTHS[:1]), LENGTHS[:1])
    ids, mask = padded(rows)
    plain = transformers_bert(backbone)
    attentions = plain(ids, attention_mask=mask.long(), output_attentions=True).attentions
    expected = []
    for row, length in enumerate(lengths):
        expected.append([])
        for layer in attentions:
            heads = [-sum(p * math.log(p) for p in head[0][:length].tolist() if p > 0) for head in layer[row]]
            expected[-1].append(sum(heads) / len(heads))
    found = cls_attention_entropies(backbone, rows)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    assert len({round(value, 6) for value in found.flatten().tolist()}) == found.numel()
