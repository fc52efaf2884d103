"""An encoder as ONNX: text ids in, the finished vector out; in float32 and with weights of 8 bits.

Torch's own exporter writes the graph and onnxruntime quantises it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from condenser.files import atomic_write
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows

ONNX_FILE = "onnx/model.onnx"
INT8_FILE = "onnx/model_int8.onnx"
INPUTS = ("input_ids", "attention_mask")
OUTPUT = "sentence_embedding"
_OPSET = 20  # the first with Gelu


class _Encoder(nn.Module):
    """A retriever whose mask is of integers, as every tokenizer gives it."""

    def __init__(self, retriever: Retriever) -> None:
        super().__init__()
        self.retriever = retriever

    def forward(
        self, input_ids: Int[Tensor, "row token"], attention_mask: Int[Tensor, "row token"]
    ) -> Float[Tensor, "row dim"]:
        """The vector of each row, pooled and normalised as the model's folder says."""
        return self.retriever(Rows.traced(input_ids, attention_mask.bool()))


def write_onnx(encoder: Path) -> None:
    """Write `onnx/model.onnx` and `onnx/model_int8.onnx` into the folder of an encoder.

    Inputs are int64 `input_ids` and `attention_mask` [row, token], the output is float32
    `sentence_embedding` [row, dim]; rows and tokens may be of any number that the encoder has positions for.
    The bytes depend on the weights and the versions of the packages alone.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = _Encoder(Retriever.load(encoder, dropout=None)).eval()
    ids = torch.ones(2, 9, dtype=torch.int64)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0  # a padded row
    axes = {0: "row", 1: "token"}
    with _quiet():
        program = torch.onnx.export(
            model,
            (ids, mask),
            dynamo=True,
            input_names=INPUTS,
            output_names=[OUTPUT],
            dynamic_shapes=dict.fromkeys(INPUTS, axes),
            opset_version=_OPSET,
            verbose=False,
        )
    assert program is not None
    exported, quantised = encoder / ONNX_FILE, encoder / INT8_FILE
    _write(program.model_proto, exported)
    # One scale for each column of a weight. Seven of the eight bits are used, because sums of products of two
    # full ones overflow on processors without VNNI.
    with _quiet():
        quantize_dynamic(
            exported, quantised, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True
        )
    _write(onnx.load(quantised), quantised)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the progress messages of the exporter and the quantiser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def _write(model: Any, file: Path) -> None:
    """Write an ONNX model without metadata of its producer, which contains local paths.

    Shapes of intermediate values go too: the exporter leaves some that its own optimiser made wrong.
    """
    graph = model.graph
    del graph.value_info[:]
    parts = (model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer)
    for part in parts:
        del part.metadata_props[:]
        part.ClearField("doc_string")
    with atomic_write(file) as output:
        output.write(model.SerializeToString(deterministic=True))
