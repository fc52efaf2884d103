"""What layers compute here by other means than PyTorch's, which are slow on a CPU: products and dropout.

Linear layers multiply in the precision that autocast asks for; weights and their gradients stay in float32.
On a CPU the products are oneDNN's, which adds the bias on the way. PyTorch multiplies float32 matrices by
Intel's MKL, which leaves half of the vector units of other makers' processors unused
(docs/studies/engineering).

PyTorch's dropout on a CPU draws one random number for each value, which takes a sixth of a fine-tuning step.
Here a number of 64 bits serves four values. On a GPU, dropout is PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int16
from torch import Tensor, nn
from torch.nn import functional

_LEVELS = 1 << 15
"""On a CPU a probability is rounded to a multiple of 1 / this."""

_ONE = {torch.bfloat16: 0x3F80, torch.float16: 0x3C00}  # the bits of 1.0

_Copies = dict[tuple[object, ...], tuple[Tensor, Tensor | None]]
_copies: ContextVar[_Copies | None] = ContextVar("copies", default=None)


@contextmanager
def weights_unchanged() -> Iterator[None]:
    """Within it no weight changes, so that each is converted to the products' precision only once."""
    token = _copies.set({})
    try:
        yield
    finally:
        _copies.reset(token)


def linear(states: Float[Tensor, "token dim"], *layers: nn.Linear) -> Float[Tensor, "token out"]:
    """The outputs of one or several linear layers of the same input, side by side."""
    return product(states, [layer.weight for layer in layers], [layer.bias for layer in layers])


def product(
    states: Float[Tensor, "token dim"], weights: Sequence[Tensor], biases: Sequence[Tensor | None]
) -> Float[Tensor, "token out"]:
    """As `linear`, but given weights [out, dim] and their biases (or None) in place of layers."""
    if torch.compiler.is_compiling():  # an export: the operators below have no names in ONNX
        parts = zip(weights, biases, strict=True)
        return torch.cat([functional.linear(states, *part) for part in parts], dim=-1)
    dtype = product_dtype(states)
    given = [bias for bias in biases if bias is not None]
    weight, bias = _converted(weights, given, dtype)
    outputs: Tensor = _Linear.apply(states.to(dtype), weight, bias, len(weights), *weights, *given)
    return outputs


def product_dtype(states: Tensor) -> torch.dtype:
    """What autocast multiplies these numbers in."""
    kind = states.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return states.dtype


def _converted(
    weights: Sequence[Tensor], biases: Sequence[Tensor], dtype: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """Weights and biases of all layers, one below the other; None without biases."""
    kept, key = _copies.get(), (dtype, *((part.data_ptr(), part.shape) for part in weights))
    if kept is not None and key in kept:
        return kept[key]
    weight, bias = (_stacked([part.detach().to(dtype) for part in parts]) for parts in (weights, biases))
    assert weight is not None
    if kept is not None:
        kept[key] = weight, bias
    return weight, bias


def _stacked(parts: Sequence[Tensor]) -> Tensor | None:
    if not parts:
        return None
    return torch.cat([*parts]) if len(parts) > 1 else parts[0]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, num_parts: int, *parts: Tensor
    ) -> Tensor:
        ctx.save_for_backward(states, weight)
        ctx.sizes = [len(part) for part in parts[:num_parts]]
        ctx.dtype, ctx.has_bias = parts[0].dtype, bias is not None
        return _product(states, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, weight = ctx.saved_tensors
        of_states = _product(gradient, weight.t(), None) if ctx.needs_input_grad[0] else None
        of_weights = torch.mm(gradient.t(), states).split(ctx.sizes)
        of_biases = gradient.sum(dim=0).split(ctx.sizes) if ctx.has_bias else ()
        return of_states, None, None, None, *(part.to(ctx.dtype) for part in (*of_weights, *of_biases))


def _product(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`states` times the transposed weights, plus the bias."""
    if states.device.type != "cpu" or not has_onednn(states.dtype):
        return functional.linear(states, weight, bias)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")
    return product


@cache
def has_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies numbers of this type here: not in every build of PyTorch, nor processor."""
    if not torch.backends.mkldnn.is_available():
        return False
    return dtype == torch.float32 or (
        dtype == torch.bfloat16 and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


def dropout(values: Float[Tensor, "*rows dim"], probability: float) -> Float[Tensor, "*rows dim"]:
    """Zero each value with this probability, and scale the others up to keep the mean."""
    if not is_drawn_here(values, probability):
        return functional.dropout(values, probability)
    return values * _ones_kept(values, probability) * kept_scale(probability)


def add_dropped(
    states: Float[Tensor, "*rows dim"], values: Float[Tensor, "*rows dim"], probability: float
) -> Float[Tensor, "*rows dim"]:
    """`states` plus the values after dropout, in the precision of `states`."""
    if not is_drawn_here(values, probability):
        return states + functional.dropout(values, probability)
    total: Tensor = _AddDropped.apply(states, values, probability)
    return total


def is_drawn_here(values: Tensor, probability: float) -> bool:
    """Whether dropout of these values is this module's: on a CPU, unless next to nothing is dropped."""
    return values.device.type == "cpu" and round(probability * _LEVELS) > 0


def kept_scale(probability: float) -> float:
    """What the values that stay are multiplied by, for the probability as it is rounded."""
    return _LEVELS / (_LEVELS - round(probability * _LEVELS))


def dropped_signs(count: int, probability: float) -> Int16[Tensor, " {count}"]:
    """The lowest number of int16, which is its sign alone, with this probability, else 0; `count` times."""
    # of an even and an odd number, the last bit becomes the sign
    return _draws(count, _least_kept(probability)).mul_(-_LEVELS)


def _ones_kept(values: Tensor, probability: float) -> Tensor:
    """1 where a value is kept, 0 where it is dropped, in the type of the values."""
    least, one = _least_kept(probability), _ONE.get(values.dtype)
    kept = _draws(values.numel(), least).sub_(least - 1).view(values.shape)
    return kept.to(values.dtype) if one is None else kept.mul_(one).view(values.dtype)


def _least_kept(probability: float) -> int:
    """The least number of int16 that keeps a value; even."""
    return 2 * (round(probability * _LEVELS) - _LEVELS // 2)


def _draws(count: int, least: int) -> Tensor:
    """int16 numbers: `least`, or `least` - 1 with the probability of a draw below it.

    These operations in place are vectorised on a CPU; comparisons and masked_fill are not.
    """
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return draws.view(torch.int16)[:count].clamp_(least - 1, least)


class _AddDropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, values: Tensor, probability: float) -> Tensor:
        kept = _ones_kept(values, probability)
        ctx.save_for_backward(kept)
        ctx.scale = kept_scale(probability)
        return torch.add(states, (values * kept).to(states.dtype), alpha=ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (kept,) = ctx.saved_tensors
        return gradient, (gradient * ctx.scale).to(kept.dtype).mul_(kept), None
