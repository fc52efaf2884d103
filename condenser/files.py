"""Files that appear only when they are complete, JSON, NPY arrays and digests.

Every file of a result is written through this module: under another name first, then flushed to disk
and renamed. A reader sees the old file, the new file or no file, never half of one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

_CHUNK_BYTES = 1 << 20
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _beside(path: Path, *, kind: str = "partial") -> Path:
    """A random name: in a folder that others may write, somebody could place a link under a known name."""
    return path.with_name(f".{path.name}.{kind}-{secrets.token_hex(8)}")


def open_no_link(path: str | Path, mode: str) -> IO[Any]:
    """Open a file that must be no link: in a folder that others may write, it may lead to the user's own.

    Raises:
        ValueError: it is a link.
    """
    try:
        return open(path, mode, opener=lambda file, flags: os.open(file, flags | os.O_NOFOLLOW, 0o666))
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ValueError(
            f"{path}: expected a file, got a link. Remove it, and see who put it there."
        ) from error


def leads_out(file: Path, folder: Path) -> bool:
    """Whether a file in a folder is, or lies behind, a link to a place outside the folder.

    The folder itself may be a link. What a snapshot of the hub's cache shares with others is not outside.
    """
    place = folder.resolve()
    snapshots = [each.parent for each in (place, *place.parents) if each.parent.name == "snapshots"]
    inside = [place, *(each.with_name("blobs") for each in snapshots)]
    return not any(file.resolve().is_relative_to(each) for each in inside)


def refuse_link_out(file: Path, folder: Path) -> None:
    """See that a file of a model of others is no link to a file of the user's own.

    Raises:
        ValueError: it leads out of the model's folder.
    """
    if leads_out(file, folder):
        raise ValueError(
            f"{file}: expected a file of the checkpoint, got a link to {file.resolve()}. "
            "Copy that file into the folder if it belongs to the model."
        )


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def full_disk_named(path: str | Path) -> Iterator[None]:
    """If the disk is full inside the block, raise an OSError that names the file or folder `path`.

    Python names no file if a write fails; writers in Rust (safetensors, tokenizers) raise exceptions of
    their own, with the error number of the system in the text.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM and error.filename is None:
            error.filename = str(path)
        raise
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number and int(number[1]) in NO_ROOM:
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
        raise


@contextmanager
def atomic_write(path: str | Path, *, is_synced: bool = True) -> Iterator[IO[bytes]]:
    """A binary file to write, which appears at `path` if the block ends without an error.

    Unless `is_synced` is false it is forced to the disk first, so that no crash leaves half of it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _beside(path)
    try:
        with full_disk_named(path), open_no_link(partial, "xb") as file:
            yield file
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if is_synced:
        _flush_folder(path.parent)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """An empty folder to fill, which replaces the folder `path` if the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _beside(path)
    partial.mkdir()
    try:
        with full_disk_named(path):
            yield partial
        for file in sorted(partial.rglob("*")):
            if file.is_file():
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
        old = _beside(path, kind="old")
        if path.exists():
            path.rename(old)
        partial.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _flush_folder(path.parent)


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as JSON, with the bytes of `json_bytes`."""
    with atomic_write(path) as file:
        file.write(json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """Indented JSON with sorted keys and a final newline, the exact content of a JSON file."""
    return canonical_json(value, indent=2).encode() + b"\n"


def read_json(path: str | Path) -> Any:
    """Read a JSON file.

    Raises:
        ValueError: the file is not JSON; the message names the file and the line.
    """
    try:
        return json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:  # RecursionError: brackets are nested too deeply
        line = getattr(error, "lineno", 1)
        raise ValueError(f"{path}:{line}: expected JSON, got something else ({error}).") from error


def canonical_json(value: Any, *, indent: int | None = None) -> str:
    """JSON with sorted keys and without NaN or spaces (unless indented): equal values give equal text."""
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(
        value, sort_keys=True, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False
    )


def save_npy(path: str | Path, array: np.ndarray) -> None:
    """Write an array as NPY, without pickle."""
    array = np.ascontiguousarray(array)
    with atomic_write(path) as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.reshape(-1).view(np.uint8).data)  # write_array would hide that the disk is full


def load_npy(path: str | Path, *, mapped: bool = True) -> np.ndarray:
    """Read an NPY file without pickle, memory-mapped read-only unless `mapped` is false."""
    return np.load(path, mmap_mode="r" if mapped else None)  # numpy refuses pickles unless asked


def count_lines(path: str | Path) -> int:
    """The number of line feeds in a file."""
    with Path(path).open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))


def sha256_file(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_text(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
