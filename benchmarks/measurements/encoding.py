"""Encoding passages, from texts to vectors, against sentence-transformers at its best batch size."""

from __future__ import annotations

from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np
import torch
from measuring import Form, Operators, in_turn, line, seconds_of
from sentence_transformers import SentenceTransformer
from steps import shape_of
from torch import nn

from condenser.data.records import Passage, read_passages, write_passages
from condenser.data.tokens import Tokenizer, TokenShards, tokenise_collection
from condenser.files import load_npy
from condenser.model.devices import choose_device, choose_precision, set_up
from condenser.model.products import linear
from condenser.model.retriever import Retriever
from condenser.pipeline.costs.arithmetic import inference_batches
from condenser.pipeline.costs.measure import measure_device
from condenser.retrieve.encode import encode_texts

BATCH_TOKENS, BLOCK_ROWS, LENGTH = 16384, 1024, 128
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def measure(form: Form) -> list[dict[str, Any]]:
    """In each precision that the device is quick in, and in fp32 onnxruntime on the same graph."""
    place = choose_device(form.device)
    every = read_passages(form.inputs / "data" / "collection.jsonl")
    passages = list(islice(every, form.size(512, 1 << 20)))
    write_passages(form.work / "collection.jsonl", passages)
    (form.work / "doc_ids.txt").write_text("".join(f"{passage.doc_id}\n" for passage in passages))
    (form.work / "backbone").symlink_to((form.inputs / "model").absolute())
    own = choose_precision("auto", place)
    return [
        found
        for precision in dict.fromkeys(("fp32", own))
        for found in _lines(form, passages, precision, place)
    ]


def _lines(form: Form, passages: list[Passage], precision: str, place: torch.device) -> list[dict[str, Any]]:
    model, texts = form.inputs / "model", [passage.text for passage in passages]
    theirs = SentenceTransformer(str(model), device=place.type, model_kwargs={"dtype": DTYPES[precision]})
    theirs.max_seq_length = LENGTH
    batch_sizes = form.size(8, 64), form.size(32, 256), form.size(128, 1024)
    sample = texts[:: max(1, len(texts) // (4 * batch_sizes[1]))]
    swept = {
        size: seconds_of(lambda size=size: theirs.encode(sample, batch_size=size), clock=form.clock)
        for size in (batch_sizes[1], *batch_sizes)
    }  # the first is repeated: it warms up
    best = min(swept, key=swept.__getitem__)
    vectors: dict[str, np.ndarray] = {}
    works = {
        "ours": lambda: vectors.update(ours=_ours(form, precision, place)),
        "theirs": lambda: vectors.update(theirs=theirs.encode(texts, batch_size=best)),
    }
    if precision == "fp32" and place.type == "cpu":
        session = _onnx_session(form)
        works["onnx"] = lambda: vectors.update(onnx=_onnx(session, theirs, texts, best))
    seconds = in_turn(works, repeats=form.size(2, 3), clock=form.clock)
    loading = seconds_of(lambda: (Tokenizer(model), Retriever.load(model, dropout=None)), clock=form.clock)
    ours, profile = seconds["ours"] - loading, Operators()
    profile.start()
    works["ours"]()
    profile.stop()
    for name, found in vectors.items():
        cosines = (found * vectors["ours"]).sum(axis=1)
        assert cosines.mean() > 0.999, f"{name}: not the same vectors, cosine {cosines.mean():.4f}"
    lengths = np.minimum(np.diff(TokenShards([form.work / "tokens.0-of-1"]).row_starts) + 2, LENGTH)
    shape = shape_of(form.work, {})
    peak = measure_device(place, precision=precision, threads=form.threads, clock=form.clock).flops_per_s
    if place.type == "cpu":
        peak = max(peak, _onednn_rate(form, precision))
    batches = [
        batch
        for begin in range(0, len(lengths), BLOCK_ROWS)
        for batch in inference_batches(
            lengths[begin : begin + BLOCK_ROWS], batch_tokens=BATCH_TOKENS, on_cpu=place.type == "cpu"
        )
    ]
    limit = len(texts) * peak / sum(map(shape.encoder_flops, batches))
    names = {"theirs": f"sentence-transformers, batch size {best}", "onnx": f"onnxruntime, batch size {best}"}
    return [
        line(
            f"encoding passages, {precision}",
            "passages/s",
            len(texts) / ours,
            better="more",
            against=names[name],
            peer=len(texts) / seconds[name],
            least_ratio=1.2,
            limit=limit,
            profile=profile.said,
            note=f"{len(texts):,} texts of {lengths.mean():.0f} tokens, tokenising included, loading not",
        )
        for name in list(works)[1:]
    ]


def _onednn_rate(form: Form, precision: str) -> float:
    """Operations a second of a large product, by what encoding uses on a processor."""
    size, dtype = 1024, DTYPES[precision]
    layer, square = nn.Linear(size, size).to(dtype), torch.randn(size, size, dtype=dtype)
    with torch.inference_mode():
        return (
            2 * size**3 / min(seconds_of(lambda: linear(square, layer), clock=form.clock) for _ in range(30))
        )


def _ours(form: Form, precision: str, place: torch.device) -> np.ndarray:
    """Tokenise and encode, with files, as the two rules do."""
    folder, model = form.work, form.inputs / "model"
    tokenise_collection(
        folder / "collection.jsonl",
        folder / "doc_ids.txt",
        folder / "tokens.0-of-1",
        Tokenizer(model),
        shard="0-of-1",
        multiple_of=BLOCK_ROWS,
        leading_separator=False,
        batch_size=512,
    )
    work = folder / f"work-{perf_counter()}"
    encode_texts(
        model,
        folder / "tokens.0-of-1",
        folder / "embeddings.npy",
        rows=None,
        role="passage",
        max_tokens=LENGTH,
        batch_tokens=BATCH_TOKENS,
        block_rows=BLOCK_ROWS,
        compute=set_up(device=place.type, precision=precision, threads=form.threads),
        work_folder=work,
        name_of_row=str,
    )
    return np.array(load_npy(folder / "embeddings.npy"))


def _onnx_session(form: Form) -> Any:
    import shutil

    import onnxruntime

    from condenser.export.onnx_files import ONNX_FILE, write_onnx

    folder = form.work / "export"
    shutil.copytree(form.inputs / "model", folder)
    write_onnx(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = form.threads
    return onnxruntime.InferenceSession(str(folder / ONNX_FILE), options, providers=["CPUExecutionProvider"])


def _onnx(session: Any, theirs: SentenceTransformer, texts: list[str], batch_size: int) -> np.ndarray:
    """Sorted by length, padded to the longest of a batch, as sentence-transformers does."""
    order = np.argsort([-len(text) for text in texts], kind="stable")
    vectors = np.empty((len(texts), theirs.get_embedding_dimension()), np.float32)
    for begin in range(0, len(texts), batch_size):
        rows = order[begin : begin + batch_size]
        found = theirs.tokenize([texts[row] for row in rows])
        inputs = {name: found[name].numpy() for name in ("input_ids", "attention_mask")}
        (vectors[rows],) = session.run(None, inputs)
    return vectors
