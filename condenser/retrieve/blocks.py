"""Finished blocks of a long job, so that it resumes after the last one.

A block that is a file of its own is written under another name first (`condenser.files.atomic_write`):
where it has its name, it is whole. Arrays that would be copied once more for that are one `BlockFile`.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np

from condenser.files import atomic_write, open_no_link

log = logging.getLogger(__name__)


def row_of_numbers(dim: int) -> np.dtype:
    """A row of so many float32 numbers, for `BlockFile`."""
    return np.dtype(("<f4", (dim,)))


def block_bounds(num_rows: int, rows_of_block: int) -> list[int]:
    """0, and the rows that there are at the end of each block; the last one may be shorter.

    >>> block_bounds(10, 4)
    [0, 4, 8, 10]
    """
    return [*range(0, num_rows, rows_of_block), num_rows] if num_rows else [0]


class BlockFile:
    """Rows of finished blocks in an NPY file, and the SHA-256 of each block in another.

    The NPY file `path` is whole after the last block. A killed process may have written part of a block:
    a block is finished if its SHA-256 is there and correct, and so are those of all earlier blocks.
    """

    def __init__(self, folder: Path, name: str, *, row: np.dtype, bounds: Sequence[int]) -> None:
        """Open no file yet.

        Args:
            row: the type of a row.
            bounds: 0, and the rows that there are at the end of each block.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._digests_path = folder / f"{name}.npy", folder / f"{name}.sha256"
        header = io.BytesIO()
        shape = (bounds[-1], *row.shape)
        described = {"descr": np.lib.format.dtype_to_descr(row.base), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, described)
        self._header, self._bounds, self._row_bytes = header.getvalue(), bounds, row.itemsize
        self._count = 0

    def __enter__(self) -> BlockFile:
        with ExitStack() as stack:
            self._data = stack.enter_context(open_no_link(self.path, "a+b"))
            self._digests = stack.enter_context(open_no_link(self._digests_path, "a+b"))
            self._keep_whole_blocks()
            self._files = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    @property
    def num_done(self) -> int:
        """The finished blocks."""
        return self._count

    @property
    def num_rows_done(self) -> int:
        """The rows in them."""
        return self._bounds[self._count]

    def _keep_whole_blocks(self) -> None:
        """Count the finished blocks, and cut both files after them."""
        self._data.seek(0)
        self._digests.seek(0)
        told = self._digests.read().splitlines(keepends=True)
        if self._data.read(len(self._header)) != self._header:
            self._data.truncate(0)
            self._data.write(self._header)
            told = []
        for begin, end in pairwise(self._bounds[: len(told) + 1]):
            if told[self._count] != _digest_line(self._data.read((end - begin) * self._row_bytes)):
                log.warning(
                    "%s: block %d is damaged or incomplete; resuming from it", self.path, self._count + 1
                )
                break
            self._count += 1
        self._data.truncate(len(self._header) + self.num_rows_done * self._row_bytes)
        self._digests.truncate(sum(map(len, told[: self._count])))

    def append(self, content: bytes) -> None:
        for file, part in ((self._data, content), (self._digests, _digest_line(content))):
            file.write(part)
            file.flush()
        self._count += 1

    def link_to(self, output: Path) -> None:
        """Give the whole file another name, which takes no room; a copy where no link is possible."""
        assert self.num_rows_done == self._bounds[-1], "every row is computed once"
        self._data.flush()
        os.fsync(self._data.fileno())
        output.parent.mkdir(parents=True, exist_ok=True)
        output.unlink(missing_ok=True)
        try:
            os.link(self.path, output)
        except OSError:  # another file system, or one without links
            with atomic_write(output) as file, self.path.open("rb") as data:
                shutil.copyfileobj(data, file, 1 << 20)


def _digest_line(block: bytes) -> bytes:
    return hashlib.sha256(block).hexdigest().encode() + b"\n"


def join_blocks(blocks: Sequence[Path], output: Path) -> None:
    """Write one file of the contents of several."""
    with atomic_write(output) as file:
        for block in blocks:
            with block.open("rb") as part:
                shutil.copyfileobj(part, file, 1 << 20)
