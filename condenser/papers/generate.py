"""Texts that a sequence-to-sequence model generates from passages or queries, in a file of expansions.

Sources: docT5query (Nogueira and Lin 2019), queries sampled for a passage from the `top_k` most probable
tokens; GAR (Mao et al. 2021, §3.2), one text for a query by greedy decoding. Departures: the released
docT5query reads the passage alone, here its title stands before it; beams are not searched.

What is drawn for a token depends on the seed, the row of the text, the number of the sample and the place of
the token, and on nothing else. So an interrupted job resumes to the same bytes. Another `rows_per_chunk` pads
texts otherwise: then only rounding differs, which rarely moves a draw, and in float32 almost never.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from condenser.data.randomness import uniforms
from condenser.files import atomic_write, full_disk_named, read_json, write_json
from condenser.model.devices import Compute
from condenser.papers.generator import Generator
from condenser.progress import Progress
from condenser.retrieve.blocks import join_blocks

_CHUNKS = 16  # of a block, whose texts are sorted by length


def generate_texts(
    folder: Path,
    texts: Iterable[tuple[str, str]],
    output: Path,
    *,
    total: int,
    unit: str,
    prefix: str,
    samples: int,
    top_k: int | None,
    max_tokens: int,
    max_input_tokens: int,
    rows_per_chunk: int,
    seed: int,
    compute: Compute,
    work_folder: Path,
) -> dict[str, int]:
    """Write `{"id", "contents": [text, ...]}` for each text, by row; returns counts.

    Counts: the texts, `generated`, `inputs_cut` (longer than `max_input_tokens`) and `unfinished` (cut at
    `max_tokens`). An interrupted job resumes after the last finished block in `work_folder`.

    Args:
        folder: the generator's.
        texts: with their ids, in the order of rows; `total` of them.
        unit: what they are, such as "passages".
        prefix: stands before each text.
        rows_per_chunk: generated texts that are computed at a time.

    Raises:
        ValueError: the folder holds no generator, or one that is too small for these lengths.
    """
    generator = Generator.load(folder, compute)
    generator.check_positions(max_input_tokens=max_input_tokens, max_tokens=max_tokens)
    texts_per_chunk = max(1, rows_per_chunk // samples)
    counts: Counter[str] = Counter({unit: 0, "generated": 0, "inputs_cut": 0, "unfinished": 0})
    blocks: list[Path] = []
    with (
        full_disk_named(work_folder),
        Progress(f"generate from {unit}", total=total, unit=unit) as progress,
    ):
        iterator, first_row = iter(texts), 0
        while block := list(islice(iterator, _CHUNKS * texts_per_chunk)):
            file = work_folder / f"{unit}-{first_row:09}.jsonl"
            counted = file.with_suffix(".counts.json")
            if file.is_file() and counted.is_file():
                progress.advance(len(block))
            else:
                ids, num_cut = generator.encode(
                    [prefix + text for _, text in block], max_tokens=max_input_tokens
                )
                contents: list[list[str]] = [[] for _ in block]
                num_unfinished = 0
                by_length = sorted(range(len(block)), key=lambda row: (len(ids[row]), row))
                for start in range(0, len(by_length), texts_per_chunk):
                    chunk = by_length[start : start + texts_per_chunk]
                    rows = first_row + np.array(chunk)
                    positions = (rows[:, None] * samples + np.arange(samples)).ravel()
                    generated, unfinished = generator.generate(
                        [ids[row] for row in chunk],
                        samples=samples,
                        top_k=top_k,
                        max_tokens=max_tokens,
                        noise=partial(gumbel, seed, positions),
                    )
                    num_unfinished += unfinished
                    for row, of_row in zip(chunk, generated, strict=True):
                        contents[row] = of_row
                    progress.advance(len(chunk))
                with atomic_write(file) as opened:
                    for (text_id, _), of_row in zip(block, contents, strict=True):
                        line = json.dumps({"id": text_id, "contents": of_row}, ensure_ascii=False)
                        opened.write(f"{line}\n".encode())
                write_json(
                    counted,
                    {
                        **{unit: len(block), "generated": samples * len(block)},
                        **{"inputs_cut": num_cut, "unfinished": num_unfinished},
                    },
                )
            counts.update(read_json(counted))
            blocks.append(file)
            first_row += len(block)
    join_blocks(blocks, output)
    return dict(counts)


def gumbel(seed: int, positions: np.ndarray, token: int, choices: int) -> Float64[Tensor, "position choice"]:
    """Gumbel noise for the token number `token` of the generated texts at these positions."""
    drawn = uniforms(seed, "generate", token, positions, columns=choices)
    return torch.from_numpy(-np.log(-np.log(np.maximum(drawn, np.finfo(np.float64).tiny))))
