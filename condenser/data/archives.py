"""Streams from plain and gzip files, and from the members of tar.gz and zip archives.

Every stream is read to the end of the archive, where gzip keeps its checksum: a damaged or shortened
archive is always noticed.
"""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from condenser.files import atomic_write

_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError, zipfile.BadZipFile)
_CHUNK_BYTES = 1 << 20
_GZIP_BEGIN = b"\x1f\x8b"  # no text in UTF-8 begins so


@contextmanager
def _damage_named(path: str | Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise ValueError(
            f"{path}: expected a complete archive, got a damaged or shortened one ({error}). "
            "Put a whole copy in its place, or delete it to download it again."
        ) from error


class _Stream(io.RawIOBase):
    """A stream whose read errors name the archive, also when another function reads it."""

    def __init__(self, inner: Any, path: str | Path) -> None:
        self._inner, self._path = inner, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _damage_named(self._path):
            return self._inner.readinto(buffer)


@contextmanager
def open_gzip(path: str | Path) -> Iterator[IO[bytes]]:
    """The unpacked bytes of a gzip file, as a stream.

    Raises:
        ValueError: the file is not gzip, or is damaged or shortened (raised while it is read).
    """
    with gzip.open(path) as inner:
        yield io.BufferedReader(_Stream(inner, path), _CHUNK_BYTES)


@contextmanager
def open_unpacked(path: str | Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if it is gzip: its content decides, not its name.

    Raises:
        ValueError: a gzip file is damaged or shortened (raised while it is read).
    """
    with Path(path).open("rb") as file:
        is_gzip = file.read(len(_GZIP_BEGIN)) == _GZIP_BEGIN
        if not is_gzip:
            file.seek(0)
            yield file
            return
    with open_gzip(path) as stream:
        yield stream


def count_unpacked_lines(path: str | Path) -> int:
    """The number of line feeds in a file, unpacked if it is gzip."""
    with open_unpacked(path) as stream:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(_CHUNK_BYTES), b""))


@contextmanager
def open_zip_member(path: str | Path, name: str) -> Iterator[IO[bytes]]:
    """The unpacked bytes of one member of a zip archive, whose path there ends with `name`, as a stream.

    Raises:
        ValueError: the archive is damaged or shortened, or has no such member, or two.
    """
    with _damage_named(path):
        archive = zipfile.ZipFile(path)
    with archive:
        members = [member for member in archive.namelist() if PurePosixPath(member).name == name]
        if len(members) != 1:
            raise ValueError(f"{path}: expected one member {name}, got {len(members)}. Is it the right file?")
        with archive.open(members[0]) as inner:
            yield io.BufferedReader(_Stream(inner, path), _CHUNK_BYTES)


def extract_tar_members(path: str | Path, names: Collection[str], folder: Path) -> dict[str, Path]:
    """Copy the wanted members of a tar.gz to `folder`, each as its entry of `names`; gives their paths.

    A member is wanted if it is the first file whose path ends with one of `names`. The paths inside the
    archive decide nothing else, so that no file is written outside `folder`.

    Raises:
        ValueError: the archive is damaged or shortened, or a wanted member is missing.
    """
    extracted: dict[str, Path] = {}
    with open_gzip(path) as unpacked, _damage_named(path):
        with tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                content = archive.extractfile(member) if name in names and member.isfile() else None
                if content is not None and name not in extracted:
                    extracted[name] = folder / name
                    with atomic_write(extracted[name], is_synced=False) as file:
                        shutil.copyfileobj(content, file, _CHUNK_BYTES)
        while unpacked.read(_CHUNK_BYTES):  # up to the checksum
            pass
    if missing := set(names) - extracted.keys():
        raise ValueError(
            f"{path}: expected the members {', '.join(sorted(missing))}, got none. Is it the right file?"
        )
    return extracted
