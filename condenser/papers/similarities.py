"""How similar the sentences of pairs and triplets are, by their vectors."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from condenser.data.records import Item, read_items, write_similarities
from condenser.papers.word_vectors import read_word_vectors
from condenser.progress import track

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from condenser.model.devices import Compute

Encode = Callable[[list[str]], np.ndarray]  # texts -> float32 [text, dim]


def _cosine(first: np.ndarray, second: np.ndarray) -> float:
    """0 where a vector is 0."""
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if norms else 0.0


_SIMILARITIES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "cosine": _cosine,
    "manhattan": lambda first, second: -float(np.abs(first - second).sum()),
    "euclidean": lambda first, second: -float(np.linalg.norm(first - second)),
    "dot": lambda first, second: float(first @ second),
}
_OF_TASK = {"similarity": ["cosine"], "triplets": ["euclidean"]}


def similarities_of(
    items: Sequence[Item], encode: Encode, *, task: str, similarities: Sequence[str] | None, batch_rows: int
) -> Iterator[tuple[str, list[float]]]:
    """The similarities of each item, by its id: of a pair each kind, of a triplet two of each kind.

    A triplet's are those of the anchor with the positive, then with the negative. A distance counts with a
    minus. Each text is encoded once, with texts of similar length. Holds the vectors of all texts in memory.

    Args:
        similarities: the kinds; None for the cosine of pairs and the Euclidean distance of triplets.
        batch_rows: texts that are encoded at a time.
    """
    kinds = [_SIMILARITIES[kind] for kind in similarities or _OF_TASK[task]]
    texts = sorted({text for item in items for text in item.texts}, key=lambda text: (-len(text), text))
    batches = [texts[begin : begin + batch_rows] for begin in range(0, len(texts), batch_rows)]
    vectors = np.concatenate(
        [encode(batch) for batch in track(batches, "encoding", total=len(batches), unit="batches")]
    )
    row_of = {text: row for row, text in enumerate(texts)}
    for item in items:
        first, *others = (vectors[row_of[text]].astype(np.float64) for text in item.texts)
        yield item.item_id, [kind(first, other) for kind in kinds for other in others]


def write_model_similarities(
    folder: Path,
    items_file: Path,
    output: Path,
    *,
    task: str,
    similarities: Sequence[str] | None,
    max_tokens: int,
    batch_tokens: int,
    compute: Compute,
) -> dict[str, int]:
    """Write the similarities of all items by the encoder of a Hugging Face folder; gives counts.

    Args:
        similarities: see `similarities_of`.
        max_tokens: that a text is cut to, specials included.
        batch_tokens: in one forward pass at most.
    """
    import torch
    from sentence_transformers.util import batch_to_device

    from condenser.papers.sentence_encoder import load_sentence_encoder

    encoder: SentenceTransformer = load_sentence_encoder(folder, max_tokens=max_tokens, device=compute.device)
    encoder.eval()

    @torch.inference_mode()
    def encode(texts: list[str]) -> np.ndarray:
        features = batch_to_device(dict(encoder.preprocess(texts)), compute.device)
        with compute.autocast():
            return encoder(features)["sentence_embedding"].float().cpu().numpy()

    items = list(read_items(items_file))
    batch_rows = max(1, batch_tokens // max_tokens)
    rows = similarities_of(items, encode, task=task, similarities=similarities, batch_rows=batch_rows)
    return {"items": write_similarities(output, rows)}


def write_word_similarities(
    vectors_file: Path, items_file: Path, output: Path, *, task: str
) -> dict[str, int]:
    """Write the similarities of all items by the mean of their words' vectors; gives counts.

    Words are those of sentence-transformers: between white space, without punctuation around them and in
    small letters where the file has them only so, and no English stop words. A line of the file that is not
    a word and as many numbers as in the first line is left out, and counted.

    Raises:
        ValueError: the file has a vector for no word of the items.
    """
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    items = list(read_items(items_file))
    words = {form for item in items for text in item.texts for word in text.split() for form in _forms(word)}
    vectors, num_left_out = read_word_vectors(vectors_file, words)
    if not vectors:
        raise ValueError(
            f"{vectors_file}: expected a word and its vector in each line, got none of the words of "
            f"{items_file}. Is it a text file such as GloVe's?"
        )
    tokenizer = WhitespaceTokenizer(vocab=list(vectors))
    matrix = np.stack(list(vectors.values()))

    def encode(texts: list[str]) -> np.ndarray:
        rows = [tokenizer.tokenize(text) for text in texts]
        return np.stack([matrix[row].mean(axis=0) if row else np.zeros_like(matrix[0]) for row in rows])

    count = write_similarities(
        output, similarities_of(items, encode, task=task, similarities=None, batch_rows=1024)
    )
    without = sum(not tokenizer.tokenize(text) for text in {text for item in items for text in item.texts})
    return {
        "items": count,
        "words": len(vectors),
        "texts_without_a_word": without,
        "lines_left_out": num_left_out,
    }


def _forms(word: str) -> tuple[str, str, str]:
    """A word as it stands, without punctuation around it, and in small letters."""
    bare = word.strip(string.punctuation)
    return word, bare, bare.lower()
