from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import padded, small_backbone, transformers_bert

from condenser.model.retriever import Retriever
from condenser.model.rows import Rows

torch.set_num_threads(1)


def some_rows() -> Rows:
    ids = torch.randint(5, 40, (4, 9), generator=torch.Generator().manual_seed(0))
    return Rows.of(ids.numpy(), np.array([9, 4, 2, 7]))


@pytest.mark.parametrize("num_layers", [1, 3])
def test_vector_and_gradient_are_those_of_the_last_layers_cls(num_layers: int) -> None:
    model = Retriever(small_backbone(num_layers=num_layers))
    rows = some_rows()
    weights = torch.arange(48.0).view(4, 12).double()
    ours = model(rows)
    (ours * weights).sum().backward()
    gradients = {name: p.grad for name, p in model.backbone.named_parameters() if p.grad is not None}

    (ids, mask), plain = padded(rows), transformers_bert(model.backbone)
    theirs = plain(ids, attention_mask=mask.long()).last_hidden_state[:, 0]
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    (theirs * weights).sum().backward()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, plain.get_parameter(name).grad, rtol=1e-9, atol=1e-10, msg=name)
    assert not any("pooler" in name for name in gradients)


def test_an_empty_text_has_a_vector() -> None:
    model = Retriever(small_backbone(num_layers=2)).eval()
    with torch.no_grad():  # [CLS] [SEP] and padding
        ids = np.array([[2, 3, 0, 0], [2, 8, 9, 3]])
        padded = model(Rows.of(ids, np.array([2, 4])))[0]
        exact = model(Rows.of(ids[:1, :2], np.array([2])))[0]
    torch.testing.assert_close(padded, exact)
    assert torch.isfinite(padded).all()
