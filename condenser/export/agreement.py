"""Whether sentence-transformers makes the vectors and rankings of this workflow from an exported model.

The truth is this workflow's own encoder in float32, from its own tokens: it shares neither the tokenizer's
settings nor the pooling nor a file of the export with the library. Other libraries are compared in
tests/workflow/test_export.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from condenser.data.records import read_passages, read_queries
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.export.folders import joined, passage_encoder_folder
from condenser.export.onnx_files import INPUTS, INT8_FILE, OUTPUT
from condenser.files import load_npy
from condenser.model.devices import Compute, set_up
from condenser.model.retriever import Retriever, query_encoder_folder
from condenser.model.text_vector import Role, read_text_vector
from condenser.retrieve.inference import TextReader, outputs_of

NUM_QUERIES = NUM_PASSAGES = 50
LARGEST_DIFFERENCE = 1e-4
"""Of the library's vector from ours, as a part of our vector's length."""
TIE = 1e-5
"""Scores this near are equal, as parts of a score above 1: passages may then change places."""
LARGEST_DEVIATION = 0.2
"""Of a stored vector from that in float32, as a part of its length; 16 bits make it some hundredths."""

Vectors = Float32[np.ndarray, "text dim"]


def check_agreement(
    retriever: Path,
    model: Path,
    embeddings: Sequence[Path],
    collection: Path,
    queries: Path | None,
    *,
    lengths: Mapping[str, int],
    encode: Mapping[str, Any],
    threads: int,
) -> dict[str, Any]:
    """Compare the exported `model` with its `retriever`; gives the content of `agreement.json`.

    The first queries are compared, and passages that lie evenly over the collection; without queries the
    first passages serve as such.

    Args:
        embeddings: the stored vectors of the collection, by shard.
        lengths: tokens of a query and of a passage.

    Raises:
        ValueError: the library makes other vectors or ranks otherwise, or the stored vectors are not those
            of this retriever.
    """
    from sentence_transformers import SentenceTransformer

    shards = [load_npy(file) for file in embeddings]
    num_rows = sum(map(len, shards))
    rows = np.unique(np.linspace(0, num_rows - 1, NUM_PASSAGES).astype(np.int64))
    passages = [
        (passage.title, passage.text) for row, passage in enumerate(read_passages(collection)) if row in rows
    ]
    if queries is None:
        first = islice(read_passages(collection), NUM_QUERIES)
        query_texts = [passage.text if passage.text.strip() else passage.title for passage in first]
    else:
        query_texts = [query.text for query in islice(read_queries(queries), NUM_QUERIES)]

    compute = set_up(device="cpu", precision="fp32", threads=threads)
    read = lengths, encode, compute
    own_queries = _own_vectors(
        query_encoder_folder(retriever), [("", text) for text in query_texts], "query", *read
    )
    own_passages = _own_vectors(retriever, passages, "passage", *read)
    deviation = largest_difference(own_passages, _stored_vectors(shards, rows))
    if not deviation <= LARGEST_DEVIATION:
        raise ValueError(
            f"{embeddings[0]}: expected the vectors that {retriever} makes, got some that deviate "
            f"by {deviation:.0%} of their length. Encode the collection with this model."
        )

    loaded = SentenceTransformer(str(model), device="cpu")
    separator = Tokenizer(query_encoder_folder(model)).joint
    always = encode["separator"] == "always"
    texts = [joined(title, text, separator=separator, always=always) for title, text in passages]
    their_queries = np.asarray(loaded.encode_query(query_texts, show_progress_bar=False))
    their_passages = np.asarray(loaded.encode_document(texts, show_progress_bar=False))
    difference = max(
        largest_difference(own_queries, their_queries), largest_difference(own_passages, their_passages)
    )
    their_scores = loaded.similarity(their_queries, their_passages).numpy()
    num_same = int(same_rankings(own_queries @ own_passages.T, their_scores).sum())
    result = {
        "library": "sentence-transformers",
        "version": version("sentence-transformers"),
        "queries": len(query_texts),
        "query_texts": "passages" if queries is None else queries.name,
        "passages": len(rows),
        "passages_of_collection": num_rows,
        "same_rankings": num_same,
        "largest_difference": _rounded(difference),
        "required": {"largest_difference": LARGEST_DIFFERENCE, "tie": TIE},
        "stored_vectors": {"largest_deviation": _rounded(deviation)},
    }
    refuse_disagreement(result)
    folder = passage_encoder_folder(model)
    if (folder / INT8_FILE).is_file():
        loss = int8_loss(folder, texts, own_passages, max_tokens=lengths["passage"])
        result["int8"] = {"largest_difference": _rounded(loss)}
    return result


def int8_loss(folder: Path, passages: Sequence[str], own: Vectors, *, max_tokens: int) -> float:
    """The `largest_difference` of the ONNX file with weights of 8 bits, which encodes each text alone."""
    import onnxruntime
    from transformers import AutoTokenizer

    tokenizer, prompt = AutoTokenizer.from_pretrained(folder), read_text_vector(folder).passage_prompt
    session = onnxruntime.InferenceSession(str(folder / INT8_FILE), providers=["CPUExecutionProvider"])
    vectors = []
    for text in passages:
        tokens = tokenizer(prompt + text, truncation=True, max_length=max_tokens, return_tensors="np")
        given = {name: tokens[name].astype(np.int64) for name in INPUTS}
        vectors.append(session.run([OUTPUT], given)[0][0])
    return largest_difference(own, np.stack(vectors))


def refuse_disagreement(result: Mapping[str, Any]) -> None:
    """See that the library makes the vectors and the rankings of this workflow.

    Raises:
        ValueError: it does not.
    """
    is_near = result["largest_difference"] <= LARGEST_DIFFERENCE
    if not is_near or result["same_rankings"] < result["queries"]:
        raise ValueError(
            f"{result['library']} {result['version']}: expected this workflow's vectors within "
            f"{LARGEST_DIFFERENCE:g} and its ranking of {result['passages']} passages for "
            f"{result['queries']} queries, got a difference of {result['largest_difference']:g} and the same "
            f"ranking for {result['same_rankings']}. Nothing was exported. If the versions are those of "
            "requirements.lock, only the library obeys a setting in the JSON files of the model's start."
        )


def largest_difference(expected: Vectors, found: Vectors) -> float:
    """The largest distance of a vector from the expected one, as a part of the expected one's length."""
    distances = np.linalg.norm(found - expected, axis=1)
    return float((distances / np.linalg.norm(expected, axis=1)).max())


def same_rankings(
    expected: Float[np.ndarray, "query passage"], found: Float[np.ndarray, "query passage"]
) -> np.ndarray:
    """For which queries two matrices of scores rank all passages alike, but for ties (`TIE`).

    >>> expected = np.array([[0.9, 0.5, 0.5], [0.1, 0.3, 0.2]])
    >>> found = np.array([[0.9, 0.4, 0.5], [0.1, 0.2, 0.3]])
    >>> same_rankings(expected, found).tolist()
    [True, False]
    """
    best = -np.sort(-expected, axis=1)
    in_their_order = np.take_along_axis(expected, np.argsort(-found, axis=1), axis=1)
    return (np.abs(in_their_order - best) <= TIE * np.maximum(1.0, np.abs(best))).all(axis=1)


def _stored_vectors(shards: Sequence[np.ndarray], rows: np.ndarray) -> Vectors:
    """The vectors of rows of the collection, from shards that follow each other."""
    starts = np.cumsum([0, *map(len, shards)])
    shard_of_row = np.searchsorted(starts, rows, side="right") - 1
    return np.stack(
        [shards[shard][row - starts[shard]] for shard, row in zip(shard_of_row, rows, strict=True)]
    )


def _own_vectors(
    encoder: Path,
    texts: Sequence[tuple[str, str]],
    role: Role,
    lengths: Mapping[str, int],
    encode: Mapping[str, Any],
    compute: Compute,
) -> Vectors:
    """The vectors that this workflow makes of titles and texts."""
    tokenizer, retriever = Tokenizer(encoder), Retriever.load(encoder, dropout=None).eval()
    prompt, is_passage = retriever.vector.prompt(role), role == "passage"
    shards = TokenShards.of_texts(
        texts,
        tokenizer,
        leading_space=tokenizer.leading_space(prompt),
        split=is_passage,
        leading_separator=is_passage and encode["separator"] == "always",
    )
    of_prompt = tokenizer.encode_prompt(prompt, max_tokens=lengths[role])
    reader = TextReader(shards, tokenizer, lengths[role], encode["batch_tokens"], of_prompt)
    return outputs_of(
        *(reader.batches(np.arange(len(texts))), compute, retriever),
        shape=(len(texts), retriever.dim),
        what=f"{encoder}: expected finite embeddings",
        name_of_row=lambda row: f"{role} {row} of the check",
    )


def _rounded(number: float) -> float:
    """To two digits: more of them depend on the processor."""
    return float(f"{number:.2g}")
