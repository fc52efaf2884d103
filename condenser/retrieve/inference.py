"""One way through a model: texts or pairs in batches of similar length, and what it gives in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import Tensor

from condenser.data.batches import NO_PROMPT, pack_texts, row_windows, token_batches
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.model.devices import Compute
from condenser.model.rows import Rows

Output = TypeVar("Output")


@dataclass(frozen=True)
class Batch:
    """Rows that go through a model together.

    Attributes:
        places: where they stand among the rows of all batches.
        ids: with padding; only the `lengths` distinguish it from text.
        types: of tokens, where the model has segments.
    """

    places: Int[np.ndarray, " row"]
    ids: Int[np.ndarray, "row token"]
    lengths: Int[np.ndarray, " row"]
    types: Int[np.ndarray, "row token"] | None = None


@dataclass(frozen=True)
class TextReader:
    """How a model reads a text of some shards: `[CLS] prompt tokens [SEP]`, cut to `max_tokens`.

    A batch has at most `batch_tokens` tokens with padding.
    """

    shards: TokenShards
    tokenizer: Tokenizer
    max_tokens: int
    batch_tokens: int
    prompt: Int[np.ndarray, " prompt_token"] = field(default_factory=lambda: NO_PROMPT)

    @property
    def num_around(self) -> int:
        """Tokens around a text: the special ones and the prompt."""
        return len(self.prompt) + 2

    def whole_lengths(self, rows: Int[np.ndarray, " row"]) -> Int[np.ndarray, " row"]:
        """Tokens of these rows before they are cut, with those around them."""
        return self.shards.row_starts[rows + 1] - self.shards.row_starts[rows] + self.num_around

    def batches(self, rows: Int[np.ndarray, " row"]) -> Iterator[Batch]:
        """Batches of these rows of the shards."""
        starts, lengths = row_windows(self.shards, rows, max_tokens=self.max_tokens - len(self.prompt))
        for places in token_batches(lengths + self.num_around, batch_tokens=self.batch_tokens):
            texts = starts[places], lengths[places]
            yield Batch(places, *pack_texts(self.shards, *texts, self.tokenizer, prompt=self.prompt))


def through(
    batches: Iterable[Batch], compute: Compute, model: Callable[[Rows, Batch], Output]
) -> Iterator[tuple[Batch, Output]]:
    """Each batch with what the model gives of it, on its device."""
    for batch in batches:
        with torch.inference_mode(), compute.autocast():
            rows = Rows.of(batch.ids, batch.lengths, token_types=batch.types, device=compute.device)
            output = model(rows.to(compute.device), batch)
        yield batch, output


def outputs_of(
    batches: Iterable[Batch],
    compute: Compute,
    model: Callable[[Rows], Tensor],
    *,
    shape: tuple[int, int],
    what: str,
    name_of_row: Callable[[int], str],
) -> Float32[np.ndarray, "row dim"]:
    """The numbers that a model gives of each row, in the rows' order; `shape` is theirs.

    Args:
        what: begins the message of an error: the folder of the model, and what was expected.

    Raises:
        ValueError: a number is NaN or infinite; the message names the first such row.
    """
    outputs = torch.empty(shape, device=compute.device)
    for batch, output in through(batches, compute, lambda rows, _: model(rows)):
        outputs[torch.from_numpy(batch.places).to(compute.device)] = output.float()
    found = outputs.cpu().numpy()
    if len(wrong := np.flatnonzero(~np.isfinite(found).all(axis=1))):
        raise ValueError(
            f"{what}, got NaN or infinity for {name_of_row(int(wrong[0]))} and {len(wrong) - 1} more of its "
            f"block. Precision is {compute.precision}: set compute.precision to fp32, or train again."
        )
    return found
