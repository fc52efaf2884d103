"""Encoding passages, from texts to vectors, against sentence-transformers at its best batch size."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import jobs
import numpy as np
import torch
from measuring import Form, best_size, in_turn, lines, seconds_of
from sentence_transformers import SentenceTransformer
from torch import nn

from condenser.data.records import Passage, read_passages, write_passages
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.model.devices import choose_device, choose_precision, set_up
from condenser.model.retriever import Retriever

BATCH_TOKENS, BLOCK_ROWS, LENGTH = 16384, 1024, 128
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def measure(form: Form) -> list[dict[str, Any]]:
    """In each precision that the device is quick in, and in fp32 onnxruntime on a graph that it can fuse."""
    place = choose_device(form.device)
    every = read_passages(form.inputs / "data" / "collection.jsonl")
    passages = list(islice(every, form.size(512, 1 << 20)))
    write_passages(form.work / "collection.jsonl", passages)
    (form.work / "doc_ids.txt").write_text("".join(f"{passage.doc_id}\n" for passage in passages))
    (form.work / "backbone").symlink_to((form.inputs / "model").absolute())
    precisions = dict.fromkeys(("fp32", choose_precision("auto", place)))
    return [found for precision in precisions for found in _lines(form, passages, precision, place)]


def _lines(form: Form, passages: list[Passage], precision: str, place: torch.device) -> list[dict[str, Any]]:
    model, texts = form.inputs / "model", [passage.text for passage in passages]
    theirs = SentenceTransformer(str(model), device=place.type, model_kwargs={"dtype": DTYPES[precision]})
    theirs.max_seq_length = LENGTH
    sizes = form.size(8, 64), form.size(32, 256), form.size(128, 1024)
    encoders: dict[str, Callable[[list[str], int], np.ndarray]] = {
        "sentence-transformers": lambda texts, size: theirs.encode(texts, batch_size=size)
    }
    if precision == "fp32" and place.type == "cpu":
        encoders["onnxruntime, fused graph"] = partial(_onnx, _onnx_session(form), theirs)
    sample = texts[:: max(1, len(texts) // (4 * sizes[1]))]
    vectors: dict[str, np.ndarray] = {}
    works: dict[str, Callable[[], None]] = {
        "ours": lambda: vectors.update(ours=_ours(form, precision, place))
    }
    for name, encode in encoders.items():
        best = best_size(partial(encode, sample), sizes, clock=form.clock)
        name = f"{name}, batch size {best}"
        works[name] = lambda name=name, encode=encode, best=best: vectors.update({name: encode(texts, best)})
    seconds = in_turn(works, repeats=form.size(2, 3), clock=form.clock)
    loading = seconds_of(lambda: (Tokenizer(model), Retriever.load(model, dropout=None)), clock=form.clock)
    for name, found in vectors.items():
        cosines = (found * vectors["ours"]).sum(axis=1)
        assert cosines.mean() > 0.999, f"{name}: not the same vectors, cosine {cosines.mean():.4f}"
    lengths = np.minimum(np.diff(TokenShards([form.work / "tokens.0-of-1"]).row_starts) + 2, LENGTH)
    ours = len(texts) / (seconds.pop("ours") - loading)
    peers = {name: len(texts) / each for name, each in seconds.items()}
    return lines(
        f"encoding passages, {precision}", "passages/s", ours, peers, goals=dict.fromkeys(peers, 1.2),
        note=f"{len(texts):,} texts of {lengths.mean():.0f} tokens, tokenising included, loading not",
    )  # fmt: skip


def _ours(form: Form, precision: str, place: torch.device) -> np.ndarray:
    """Tokenise and encode, with files, as the two rules do."""
    folder, model, tokens = form.work, form.inputs / "model", form.work / "tokens.0-of-1"
    jobs.tokenise(folder / "collection.jsonl", folder / "doc_ids.txt", tokens, Tokenizer(model))
    compute = set_up(device=place.type, precision=precision, threads=form.threads)
    sizes = {"max_tokens": LENGTH, "batch_tokens": BATCH_TOKENS, "block_rows": BLOCK_ROWS}
    return jobs.encode(model, tokens, compute, **sizes)


def _onnx_session(form: Form) -> Any:
    """transformers' BERT in the form whose attention, GELU and LayerNorm onnxruntime's optimiser fuses.

    Raises:
        AssertionError: it did not fuse every layer.
    """
    import onnxruntime
    from onnxruntime.transformers.optimizer import optimize_model
    from transformers import BertModel

    settings = {"attn_implementation": "eager", "add_pooling_layer": False}
    bert = BertModel.from_pretrained(form.inputs / "model", **settings)
    ids = torch.ones(2, 9, dtype=torch.int64)
    names, file = ["input_ids", "attention_mask"], str(form.work / "plain.onnx")
    logging.getLogger("onnxruntime.transformers").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _LastStates(bert).eval(), (ids, torch.ones_like(ids)), file, input_names=names,
            dynamo=False,  # the optimiser knows the graphs of this exporter
            output_names=["states"], opset_version=17,
            dynamic_axes={name: {0: "row", 1: "token"} for name in (*names, "states")},
        )  # fmt: skip
    heads, layers = bert.config.num_attention_heads, bert.config.num_hidden_layers
    fused = optimize_model(file, model_type="bert", num_heads=heads, hidden_size=bert.config.hidden_size)
    num_fused = fused.get_fused_operator_statistics()["Attention"]
    assert num_fused == layers, f"fused {num_fused} of {layers} layers"
    fused.save_model_to_file(file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = form.threads
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


class _LastStates(nn.Module):
    """The last layer's states of a BERT, with positional arguments, as the exporter wants them."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        return states


def _onnx(session: Any, theirs: SentenceTransformer, texts: list[str], batch_size: int) -> np.ndarray:
    """Sorted by tokens, padded to the longest of a batch; mean pooling and length 1."""
    encoded = theirs.tokenizer(texts, truncation=True, max_length=LENGTH)["input_ids"]
    order = np.argsort([-len(ids) for ids in encoded], kind="stable")
    vectors = np.empty((len(texts), theirs.get_embedding_dimension()), np.float32)
    for rows in np.split(order, range(batch_size, len(order), batch_size)):
        ids = np.zeros((len(rows), len(encoded[rows[0]])), np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(encoded[row])] = encoded[row]
        is_token = (ids > 0).astype(np.int64)
        (states,) = session.run(None, {"input_ids": ids, "attention_mask": is_token})
        means = (states * is_token[:, :, None]).sum(axis=1) / is_token.sum(axis=1, keepdims=True)
        vectors[rows] = means / np.linalg.norm(means, axis=1, keepdims=True)
    return vectors
