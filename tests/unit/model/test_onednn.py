"""Products by oneDNN are those of PyTorch's linear layers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from condenser.model.onednn import multiply_by_onednn

SIZE = 256


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 2e-2)])
def test_a_models_products_are_those_of_its_linear_layers(precision: str, tolerance: float) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(SIZE, 2 * SIZE), nn.Sequential(nn.GELU(), nn.Linear(2 * SIZE, SIZE)))
    states = torch.randn(3, 17, SIZE)
    plain = model(states).detach()
    multiply_by_onednn(model, precision=precision)
    assert not any(isinstance(module, nn.Linear) for module in model.modules())
    with torch.inference_mode():
        found = model(states)
    assert found.dtype == {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    torch.testing.assert_close(found.float(), plain, rtol=tolerance, atol=tolerance)


def test_without_onednn_the_layers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    model = nn.Sequential(nn.Linear(2, 2))
    multiply_by_onednn(model, precision="fp32")
    assert isinstance(model[0], nn.Linear)
