"""Matrix products by oneDNN, of a model that only encodes on a processor.

PyTorch multiplies float32 matrices by Intel's MKL, which leaves half of the vector units of other makers'
processors unused. oneDNN, which it has too, does not, and adds the bias on the way. PyTorch gives it
float32 only in compiled models, by the operator that is called here (docs/log.md, 2026-11-23).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Linear(nn.Module):
    """A linear layer without gradients, as under autocast: weights, inputs and outputs have one dtype."""

    def __init__(self, linear: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self._weight = linear.weight.detach().to(dtype)
        self._bias = linear.bias.detach().to(dtype)

    def forward(self, states: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows out"]:
        """Products of `states` with the weights, and the bias."""
        multiply = torch.ops.mkldnn._linear_pointwise
        product: Tensor = multiply(states.to(self._weight.dtype), self._weight, self._bias, "none", [], "")
        return product


def multiply_by_onednn(model: nn.Module, *, precision: str) -> None:
    """Replace the linear layers of a model on a processor, in place; `precision` is fp32 or bf16.

    It does nothing where PyTorch was built without oneDNN, or the processor is too old for its bfloat16.
    """
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    if not torch.backends.mkldnn.is_available():
        return
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, Linear(child, dtype))
