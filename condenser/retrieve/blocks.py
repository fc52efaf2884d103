"""Numbers that a long job computes block by block, and keeps so that it resumes after the last block."""

from __future__ import annotations

import hashlib
import logging
import shutil
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from condenser.files import atomic_write, open_no_link

log = logging.getLogger(__name__)


class BlockFile:
    """Rows of finished blocks, float32 [row, dim], in one file, and the SHA-256 of each block in another.

    A killed process may have written part of a block: a block is finished if its SHA-256 is there and
    correct, and so are those of all earlier blocks.
    """

    def __init__(self, folder: Path, name: str, *, num_rows: int, rows_of_block: int, dim: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._digests_path = folder / f"{name}.float32", folder / f"{name}.sha256"
        self._num_rows, self._rows_of_block, self._dim = num_rows, rows_of_block, dim
        self._count = 0

    def __enter__(self) -> BlockFile:
        with ExitStack() as stack:
            self._data = stack.enter_context(open_no_link(self._path, "a+b"))
            self._digests = stack.enter_context(open_no_link(self._digests_path, "a+b"))
            self._keep_whole_blocks()
            self._files = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    @property
    def num_rows_done(self) -> int:
        return min(self._count * self._rows_of_block, self._num_rows)  # the last block may be shorter

    def _keep_whole_blocks(self) -> None:
        """Count the finished blocks, and cut both files after them."""
        block_bytes = self._rows_of_block * self._dim * 4
        self._data.seek(0)
        self._digests.seek(0)
        told = self._digests.read().splitlines(keepends=True)
        while self.num_rows_done < self._num_rows and self._count < len(told):
            if told[self._count] != _digest_line(self._data.read(block_bytes)):
                log.warning(
                    "%s: block %d is damaged or incomplete; resuming from it", self._path, self._count + 1
                )
                break
            self._count += 1
        self._data.truncate(self.num_rows_done * self._dim * 4)
        self._digests.truncate(sum(map(len, told[: self._count])))

    def append(self, block: Float32[np.ndarray, "row dim"]) -> None:
        content = block.tobytes()
        for file, part in ((self._data, content), (self._digests, _digest_line(content))):
            file.write(part)
            file.flush()
        self._count += 1

    def write_to(self, output: Path) -> None:
        """Write all blocks as an NPY file; they also stay in the work folder."""
        shape = (self._num_rows, self._dim)
        assert self._path.stat().st_size == 4 * self._num_rows * self._dim, "every row is computed once"
        with atomic_write(output) as file, self._path.open("rb") as data:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<f4", "fortran_order": False, "shape": shape}
            )
            shutil.copyfileobj(data, file, 1 << 20)


def _digest_line(block: bytes) -> bytes:
    return hashlib.sha256(block).hexdigest().encode() + b"\n"
