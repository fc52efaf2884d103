"""The weight of each word in its passage, in a file that an index reads in place of the texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import Tensor

from condenser.data.records import read_doc_ids
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.files import atomic_write, full_disk_named
from condenser.model.devices import Compute
from condenser.model.operations import weights_unchanged
from condenser.model.rows import Rows
from condenser.papers.term_weigher import TermWeigher
from condenser.papers.terms import WordReader
from condenser.progress import Progress
from condenser.retrieve.blocks import join_blocks
from condenser.retrieve.inference import Batch, TextReader, through

_DIGITS = 6  # of a weight; TF is a whole number of hundredths of it, or so


def weigh_terms(
    model: TermWeigher,
    initial: Path,
    token_prefixes: Sequence[Path],
    doc_ids: Path,
    output: Path,
    *,
    max_tokens: int,
    batch_tokens: int,
    block_rows: int,
    device: torch.device,
    precision: str,
    work_folder: Path,
) -> None:
    """Write `{"id", "contents": {word: weight}}` for each passage, by row.

    The weight of a word is that of its first token; of a word that occurs twice the larger one. Words whose
    weight is not above zero, or that lie behind `max_tokens` tokens (with [CLS] and [SEP]), are left out.
    An interrupted job resumes after the last finished block in `work_folder`.

    Args:
        initial: the folder with the model's tokenizer.
    """
    shards, ids, tokenizer = TokenShards(token_prefixes), read_doc_ids(doc_ids), Tokenizer(initial)
    reader, compute = WordReader(tokenizer), Compute(device, precision)
    texts = TextReader(shards, tokenizer, max_tokens, batch_tokens)
    model.to(device).eval()
    blocks = []
    with (
        weights_unchanged(),
        full_disk_named(work_folder),
        Progress("term weights", total=shards.num_rows, unit="passages") as progress,
    ):
        for start in range(0, shards.num_rows, block_rows):
            rows = np.arange(start, min(start + block_rows, shards.num_rows))
            block = work_folder / f"passages-{start:09}.jsonl"
            if not block.is_file():
                words = _words_of_rows(model, texts, rows, reader, compute)
                with atomic_write(block) as file:
                    for row, of_row in zip(rows.tolist(), words, strict=True):
                        line = json.dumps({"id": ids[row], "contents": of_row}, ensure_ascii=False)
                        file.write(f"{line}\n".encode())
            blocks.append(block)
            progress.advance(len(rows))
    join_blocks(blocks, output)


def _words_of_rows(
    model: TermWeigher, texts: TextReader, rows: Int[np.ndarray, " row"], reader: WordReader, compute: Compute
) -> list[dict[str, float]]:
    """The words of each row with their weights, in the row's order."""

    def weights_of(inputs: Rows, batch: Batch) -> tuple[list[list[str]], Tensor]:
        """The words of each row, and the weights of all."""
        firsts, words = zip(
            *(reader.words(ids[1 : size - 1]) for ids, size in zip(batch.ids, batch.lengths, strict=True)),
            strict=True,
        )
        begins = np.cumsum(batch.lengths) - batch.lengths
        places = np.concatenate([begin + 1 + first for begin, first in zip(begins, firsts, strict=True)])
        return list(words), model(inputs, torch.from_numpy(places).to(compute.device))

    found: list[dict[str, float]] = [{} for _ in rows]
    for batch, (words, weights) in through(texts.batches(rows), compute, weights_of):
        of_rows = np.split(weights.cpu().numpy(), np.cumsum(list(map(len, words)))[:-1])
        for row, of_row, values in zip(batch.places, words, of_rows, strict=True):
            found[row] = _largest(of_row, values)
    return found


def _largest(words: Sequence[str], weights: Float32[np.ndarray, " word"]) -> dict[str, float]:
    """Each word with the largest of its weights above zero."""
    largest: dict[str, float] = {}
    for word, weight in zip(words, weights.tolist(), strict=True):
        rounded = round(weight, _DIGITS)
        if rounded > largest.get(word, 0.0):
            largest[word] = rounded
    return largest
