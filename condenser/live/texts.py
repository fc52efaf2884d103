"""A collection's ids and passages by row, without holding them in memory."""

from __future__ import annotations

import json
import mmap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from condenser.data.records import Passage

_CHUNK_BYTES = 1 << 26
_MOST_HELD = 1_000_000  # lines whose rows are held in memory; of more the file is searched, for milliseconds


class Lines:
    """The lines of a file, which is mapped; eight bytes of memory for each line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes: Any = b""
        if path.stat().st_size:  # an empty file cannot be mapped
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    @cached_property
    def _ends(self) -> Int64[np.ndarray, " line"]:
        """The position behind each line's line feed."""
        ends = [np.zeros(0, np.int64)]
        for start in range(0, len(self._bytes), _CHUNK_BYTES):
            chunk = np.frombuffer(self._bytes[start : start + _CHUNK_BYTES], np.uint8)
            ends.append(np.flatnonzero(chunk == ord("\n")) + (start + 1))
        return np.concatenate(ends)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: int) -> bytes:
        """Line `row`, without its line feed."""
        begin = int(self._ends[row - 1]) if row else 0
        return bytes(self._bytes[begin : int(self._ends[row]) - 1])

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        """The row of each line, some 100 bytes of memory for each."""
        return {line: row for row, line in reversed(list(enumerate(bytes(self._bytes).split(b"\n")[:-1])))}

    def row_of(self, line: bytes) -> int:
        """The first row with this text.

        Raises:
            ValueError: no line has it.
        """
        if len(self) <= _MOST_HELD and line in self._rows:
            return self._rows[line]
        wanted = line + b"\n"
        if self._bytes[: len(wanted)] == wanted:
            return 0
        position = self._bytes.find(b"\n" + wanted)
        if position < 0:
            raise ValueError(
                f"{self.path}: expected the id {line.decode(errors='replace')!r:.80}, found none."
            )
        return int(np.searchsorted(self._ends, position + 1)) + 1  # behind the row that ends there


@dataclass(frozen=True)
class Texts:
    """The passages of a collection and their ids, by row; `is_split`: they are parts of documents."""

    collection: Lines
    doc_ids: Lines
    is_split: bool = False

    def passage(self, row: int) -> Passage:
        """The passage of a row.

        Raises:
            ValueError: the collection has another passage there than the ids say.
        """
        place = f"{self.collection.path}:{row + 1}"
        try:
            record = json.loads(self.collection[row])
            passage = Passage(record["doc_id"], record["title"], record["text"])
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(f"{place}: expected a passage, got something else.") from error
        expected = self.doc_ids[row].decode()
        if passage.doc_id != expected:
            raise ValueError(
                f"{place}: expected passage {expected!r:.80} as in {self.doc_ids.path}, "
                f"got {passage.doc_id!r:.80}."
            )
        return passage
