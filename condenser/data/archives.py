"""Members of archives, by expected name, as streams: nothing is unpacked to a path an archive names.

Every stream has a limit on its bytes, so that a small archive cannot fill disk or memory, and is
read to the archive's end, where the checksums stand, so that a cut or changed archive never passes.
"""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from condenser.files import atomic_write

_BROKEN = (EOFError, RecursionError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, tarfile.TarError)
_CHUNK_BYTES = 1 << 20
_MAX_HEADER_BYTES = 1 << 18
_HEADERS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


class _Refusal(ValueError):
    """A refusal whose message names the file."""


class _SparseMember(Exception):
    """A member with holes, whose map could fill the memory."""


class _Limited(io.RawIOBase):
    """A stream of at most so many bytes, whose faults name the file they come from."""

    def __init__(self, inner: Any, *, name: str, max_bytes: int) -> None:
        self._inner, self._name, self._max, self._read = inner, name, max_bytes, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _named_faults(self._name):
            data = self._inner.read(len(buffer))
        self._read += len(data)
        if self._read > self._max:
            raise _too_large(self._name, self._max)
        buffer[: len(data)] = data
        return len(data)


def _too_large(name: str, max_bytes: int) -> _Refusal:
    return _Refusal(f"{name}: expected at most {max_bytes:,} bytes unpacked, got more. Is it the right file?")


@contextmanager
def _named_faults(name: str) -> Iterator[None]:
    try:
        yield
    except _SparseMember as error:
        raise _Refusal(
            f"{name}: expected members without holes, got a sparse one. Is it the right file?"
        ) from error
    except _BROKEN as error:
        raise _Refusal(
            f"{name}: expected a complete archive, got a damaged or shortened one ({error}). "
            "Delete it and download it again."
        ) from error


class _Attributes(dict[str, str]):
    """Attributes of members (PAX), which are small and tell of no holes: tarfile holds them in memory.

    tarfile puts them here before it reads the map of a sparse member.
    """

    num_chars = 0

    def __setitem__(self, key: str, value: str) -> None:
        if key.startswith("GNU.sparse."):
            raise _SparseMember
        self.num_chars += len(key) + len(value)
        if self.num_chars > _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"attributes of {self.num_chars:,} characters")
        super().__setitem__(key, value)

    def copy(self) -> _Attributes:
        copied = _Attributes(self)
        copied.num_chars = self.num_chars
        return copied


class _Member(tarfile.TarInfo):
    """A member whose headers (long names, attributes) are small: tarfile holds them in memory."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> _Member:
        try:
            member = super().fromtarfile(archive)
        except _Refusal:
            raise
        except ValueError as error:  # a number of the header that is none
            raise tarfile.ReadError(str(error)) from error
        if member.size < 0:
            raise tarfile.ReadError(f"a member of {member.size:,} bytes")
        return member

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> _Member:
        member = super().frombuf(buf, encoding, errors)
        if member.type == tarfile.GNUTYPE_SPARSE:
            raise _SparseMember
        if member.type in _HEADERS and member.size > _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {member.size:,} bytes")
        return member


def _limited(inner: Any, *, name: str, max_bytes: int) -> io.BufferedReader:
    return io.BufferedReader(_Limited(inner, name=name, max_bytes=max_bytes), _CHUNK_BYTES)


@contextmanager
def open_gzip(path: str | Path, *, max_bytes: int) -> Iterator[IO[bytes]]:
    """The unpacked bytes of a gzip file.

    Raises:
        ValueError: the file is no gzip, is damaged or cut short, or unpacks to more than `max_bytes`.
    """
    with gzip.open(path) as inner:
        stream = _limited(inner, name=str(path), max_bytes=max_bytes)
        yield stream


def tar_members(
    path: str | Path, names: Collection[str], *, max_bytes: int
) -> Iterator[tuple[str, IO[bytes]]]:
    """The wanted members of a tar.gz, as (name, stream) in the archive's order, in one pass.

    A member is wanted when its path is one of `names`, or ends in one behind a folder; each stream
    must be used before the next is asked for. Other members are read past, never written.

    Raises:
        ValueError: the archive is damaged, a wanted member is missing, comes twice or is no plain
            file, any member is sparse, or the archive unpacks to more than `max_bytes`.
    """
    missing = set(names)
    with open_gzip(path, max_bytes=max_bytes) as unpacked, _named_faults(str(path)):
        with tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_Member, pax_headers=_Attributes()) as archive:
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # else tarfile keeps every one it has read
                if archive.offset > max_bytes:  # tarfile would look for the next one for ever
                    raise _too_large(str(path), max_bytes)
                name = _wanted_name(member.name, names)
                if name is None:
                    continue
                if name not in missing:
                    raise ValueError(f"{path}: expected one member {name}, got a second, {member.name!r}.")
                if not member.isreg():
                    raise ValueError(
                        f"{path}: expected {member.name!r} to be a plain file, got a link or folder."
                    )
                missing.remove(name)
                inner = archive.extractfile(member)
                assert inner is not None
                yield name, _limited(inner, name=f"{path}:{name}", max_bytes=max_bytes)
        while unpacked.read(_CHUNK_BYTES):  # to the end, where gzip keeps its checksum
            pass
    if missing:
        raise ValueError(
            f"{path}: expected the members {', '.join(sorted(missing))}, got none. Is it the right file?"
        )


def extract_tar_members(
    path: str | Path, names: Collection[str], folder: Path, *, max_bytes: int
) -> dict[str, Path]:
    """Copy the wanted members of a tar.gz to `folder`, under our own names; gives their paths."""
    extracted = {}
    for name, stream in tar_members(path, names, max_bytes=max_bytes):
        extracted[name] = folder / name
        with atomic_write(extracted[name]) as file:
            while chunk := stream.read(_CHUNK_BYTES):
                file.write(chunk)
    return extracted


def _wanted_name(member: str, names: Collection[str]) -> str | None:
    """The last part of a member's path if it is wanted."""
    last = PurePosixPath(member).name
    return last if last in names else None
