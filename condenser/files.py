"""Files that become visible only when complete, and digests of them.

Every writer of the project goes through this module: bytes are written beside their final
place, flushed to disk and renamed, so that a reader sees the old file, the new file, or none.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

_CHUNK_BYTES = 1 << 20
# What numpy lets through from Python's parser, where a header is no literal. MemoryError is the parser's
# own stack: numpy gives it 10,000 characters at most.
_NO_LITERAL = (
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    RecursionError,
    SyntaxError,
    TokenError,
    TypeError,
)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial-{os.getpid()}")


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def full_disk_named(path: str | Path) -> Iterator[None]:
    """Where the block finds no room on the disk, let the OSError name the file or folder `path`.

    Python names no file when a write fails, and writers in Rust (safetensors, tokenizers) raise
    exceptions of their own, with the system's number in the text.
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
def atomic_write(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file that appears at `path` only if the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _beside(path)
    try:
        with full_disk_named(path), partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """An empty folder to fill, which takes the place of `path` only if the block ends well.

    An old folder at `path` is replaced whole.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _beside(path)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        with full_disk_named(path):
            yield partial
        for file in sorted(partial.rglob("*")):
            if file.is_file():
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
        old = path.with_name(f".{path.name}.old-{os.getpid()}")
        if path.exists():
            path.rename(old)
        partial.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _flush_folder(path.parent)


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as `json_bytes` renders it."""
    with atomic_write(path) as file:
        file.write(json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """Indented JSON with sorted keys and a final newline: what the file of a value holds, byte by byte."""
    return canonical_json(value, indent=2).encode() + b"\n"


def read_json(path: str | Path) -> Any:
    """Read a JSON file.

    Raises:
        ValueError: the file is not JSON; the message names file and line.
    """
    try:
        return json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:  # brackets nest too deeply for the parser
        line = getattr(error, "lineno", 1)
        raise ValueError(f"{path}:{line}: expected JSON, got something else ({error}).") from error


def canonical_json(value: Any, *, indent: int | None = None) -> str:
    """JSON whose bytes depend on the value alone: sorted keys, no NaN, no spaces unless indented."""
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(
        value, sort_keys=True, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False
    )


def save_npy(path: str | Path, array: np.ndarray) -> None:
    """Write an array as NPY, without pickle."""
    array = np.ascontiguousarray(array)
    with atomic_write(path) as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.reshape(-1).view(np.uint8).data)  # write_array hides why there is no room


def load_npy(path: str | Path, *, mapped: bool = True) -> np.ndarray:
    """Read an NPY file without pickle, memory-mapped read-only unless `mapped` is false.

    Its header must promise what the file's length holds: a file cut short is refused before memory
    is taken for it.

    Raises:
        ValueError: the file is no NPY array of version 1.0, is cut short, or holds something else than
            numbers row by row.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            shape, dtype = _npy_header(file)
            num_bytes = path.stat().st_size - file.tell()
        if math.prod(shape) * dtype.itemsize != num_bytes:
            raise ValueError(f"{num_bytes:,} bytes for {dtype} {list(shape)}")
        # what has no element cannot be mapped
        return np.load(path, mmap_mode="r" if mapped and num_bytes else None, allow_pickle=False)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{path}: expected a complete NPY array without pickle, got something else ({reason[:200]}). "
            "Remove it, and run again."
        ) from error


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of the NPY array that begins here.

    Raises:
        ValueError: it is another version than 1.0, or no array of numbers, the last axis innermost.
    """
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("another version than 1.0")
    try:
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except _NO_LITERAL as error:
        raise ValueError(f"a header that cannot be read: {type(error).__name__} {error}") from error
    if dtype.hasobject:
        raise ValueError("pickled objects")
    if dtype.kind not in "biuf":
        raise ValueError(f"{dtype} instead of numbers")
    if is_fortran:
        raise ValueError("columns one behind the other instead of rows")
    if not all(type(length) is int and 0 <= length < 2**63 for length in shape):
        raise ValueError("a shape of other than whole numbers from 0 to 2^63 - 1")
    return shape, dtype


def sha256_file(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def sha256_text(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
