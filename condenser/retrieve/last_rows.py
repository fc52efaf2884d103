"""Rows that were encoded before: after a change of the collection only new and changed passages are encoded.

A folder keeps what an encoding wrote, as links, with a key of each row, a digest of its tokens, and the
`identity` of all else that a vector depends on. A row with the same key is copied. (Snakemake removes the
outputs of a job before the job begins, so they cannot be read in their place.)
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Int64

from condenser.data.row_keys import Keys
from condenser.files import (
    atomic_folder,
    atomic_write,
    load_npy,
    read_json,
    save_npy,
    sha256_file,
    write_json,
)

_FILES = ("embeddings", "states", "starts", "keys")
_MADE = "made.json"  # the identity, and the digests of these

_Starts = Sequence[int] | Int64[np.ndarray, " row_and_end"]


@dataclass
class LastRows:
    """What was encoded last into one file of embeddings.

    Attributes:
        folder: where it is kept; nothing at first. What has another identity, or is damaged, is removed, so
            that it takes no room beside what is made.
        identity: names the model, its settings and its code.
        embeddings, states, starts: as they were written, mapped.
    """

    folder: Path
    identity: str
    embeddings: Any = None
    states: Any = None
    starts: Any = None
    _keys: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for half in self.folder.parent.glob(f".{self.folder.name}.partial-*"):  # of a process that was killed
            shutil.rmtree(half, ignore_errors=True)
        files, made = self._files(self.folder), self.folder / _MADE
        is_whole = made.is_file() and all(map(Path.is_file, files))
        if is_whole and read_json(made) == self._described(files):
            self.embeddings, self.states, self.starts, self._keys = map(load_npy, files)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def find(self, keys: Keys, *, with_states: bool) -> Int[np.ndarray, " row"]:
        """The place of each row among the last ones; -1 of a new one."""
        if self._keys is None or not len(self._keys) or (with_states and len(self.starts) == 0):
            return np.full(len(keys), -1)
        order = np.argsort(self._keys, kind="stable")
        places = np.searchsorted(self._keys, keys, sorter=order).clip(max=len(order) - 1)
        return np.where(self._keys[order[places]] == keys, order[places], -1)

    def keep(self, keys: Keys, embeddings: Path, states: Path, starts: Path) -> None:
        """Keep what was written in place of the last rows, for the next encoding."""
        with atomic_folder(self.folder) as made:
            *files, keys_file = self._files(made)
            for file, kept in zip((embeddings, states, starts), files, strict=True):
                try:
                    os.link(file, kept)
                except OSError:  # another file system, or one without links
                    shutil.copyfile(file, kept)
            save_npy(keys_file, keys)
            write_json(made / _MADE, self._described(self._files(made)))

    def _described(self, files: Sequence[Path]) -> dict[str, str]:
        return {"identity": self.identity, **{file.name: sha256_file(file) for file in files}}

    @staticmethod
    def _files(folder: Path) -> list[Path]:
        return [folder / f"{name}.npy" for name in _FILES]


def write_joined(
    output: Path,
    copied: Int[np.ndarray, " row"],
    last: np.ndarray,
    new: np.ndarray,
    *,
    block_rows: int,
    starts: tuple[_Starts, _Starts] | None = None,
) -> None:
    """Write an NPY file of rows from two arrays.

    Args:
        copied: the place of each row in `last`; -1 of those that stand in `new`, in their order.
        starts: where each row begins in `last` and in `new`, if it is of several records.
    """
    of_last, of_new = starts or (range(len(last) + 1), range(len(new) + 1))
    places = np.where(copied < 0, np.cumsum(copied < 0) - 1, copied)
    bounds = [
        (source, int(begins[place]), int(begins[place + 1]))
        for is_new, place in zip((copied < 0).tolist(), places.tolist(), strict=True)
        for source, begins in [(new, of_new) if is_new else (last, of_last)]
    ]
    num_rows = sum(end - begin for _, begin, end in bounds)
    with atomic_write(output) as file:
        described = {
            "descr": np.lib.format.dtype_to_descr(last.dtype),
            "fortran_order": False,
            "shape": (num_rows, *last.shape[1:]),
        }
        np.lib.format.write_array_header_1_0(file, described)
        for start in range(0, len(bounds), block_rows):
            parts = [source[begin:end] for source, begin, end in bounds[start : start + block_rows]]
            file.write(b"".join(part.tobytes() for part in parts))
