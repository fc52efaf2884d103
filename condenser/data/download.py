"""Downloads that resume, and are accepted only whole: right length, right checksum.

What has come so far lies beside the destination in `NAME.part`, with `NAME.part.json` saying which
version of which address it belongs to. A version that changed in between is started anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import requests
import urllib3

from condenser.files import atomic_write, full_disk_named, read_json, write_json
from condenser.progress import Progress

log = logging.getLogger("condenser")

_CHUNK_BYTES = 1 << 16
_LONGEST_WAIT_S = 60.0
_MENDABLE = {408, 425, 429}  # and all from 500
# The second is for Azure, where MS MARCO lies.
_HEADERS = {"Accept-Encoding": "identity", "X-Ms-Version": "2019-12-12"}


class _Interrupted(Exception):
    """A fault that another attempt may mend."""


def download(
    url: str,
    path: Path,
    *,
    num_bytes: int,
    md5: str | None,
    mirror: Path | None,
    retries: int,
    timeout_s: float,
    wait_s: float = 1.0,
) -> dict[str, Any]:
    """Fetch `url` to `path`, from the mirror folder if the file is there; gives what was done.

    In the mirror a file may stand under its host and path, its path, or its name alone. `retries`
    attempts follow the first, `wait_s`, twice that, ... apart; `timeout_s` is how long the server
    may be silent. The server may ignore ranges, cut anywhere, or change the file in between.

    Raises:
        ValueError: no attempt brought a file of `num_bytes` bytes with this MD5 (None: not known),
            the server refuses it, or another process is downloading it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    done: dict[str, Any] = {"url": url, "bytes": num_bytes, "md5": md5}
    for candidate in mirror_places(url, mirror) if mirror else []:
        if candidate.is_file():
            _copy(candidate, path, num_bytes=num_bytes, md5=md5)
            return done | {"from": "mirror", "attempts": 0, "resumed": 0}
    with _Part(path, url) as part:
        for attempt in range(1, retries + 2):
            try:
                was_resumed = _attempt(part, num_bytes=num_bytes, md5=md5, timeout_s=timeout_s)
                _check_md5(part, md5, was_resumed=was_resumed)
            except _Interrupted as fault:
                log.warning("%s: %s (attempt %d of %d)", url, fault, attempt, retries + 1)
                reason = str(fault)
            else:
                part.finish()
                return done | {"from": "network", "attempts": attempt, "resumed": part.num_resumed}
            if attempt <= retries:
                time.sleep(min(wait_s * 2 ** (attempt - 1), _LONGEST_WAIT_S))
    raise ValueError(
        f"{url}: expected {num_bytes:,} bytes within {retries + 1} attempts, got {reason}. "
        "What came is kept: run again, or set downloads.mirror to a folder that holds the file."
    )


def mirror_places(url: str, mirror: Path) -> list[Path]:
    """Where a file may stand in a mirror folder: host and path, path, or name."""
    address = urlsplit(url)
    parts = [part for part in unquote(address.path).split("/") if part not in ("", ".", "..")]
    return [mirror.joinpath(address.netloc, *parts), mirror.joinpath(*parts), mirror / parts[-1]]


class _Part:
    """What has come so far of one file, held by one process at a time."""

    def __init__(self, path: Path, url: str) -> None:
        self.url, self._target, self.num_resumed = url, path, 0
        self.path = path.with_name(f"{path.name}.part")
        self._state_path = path.with_name(f"{path.name}.part.json")

    def __enter__(self) -> _Part:
        while True:
            self._lock = self.path.open("ab")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._lock.close()
                raise ValueError(
                    f"{self.path}: expected to be alone, got another process that downloads it. Wait for it."
                ) from None
            if self._is_at_its_place():
                return self
            self._lock.close()  # its holder took it away between our opening and our locking it

    def _is_at_its_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._lock.fileno()), self.path.stat())
        except FileNotFoundError:
            return False

    def __exit__(self, *_: object) -> None:
        if self._is_at_its_place() and self.num_bytes == 0:
            self.path.unlink()
            self._state_path.unlink(missing_ok=True)
        self._lock.close()

    @property
    def num_bytes(self) -> int:
        return self.path.stat().st_size

    @property
    def validator(self) -> str | None:
        """What tells the version that the part belongs to; None where it cannot be told."""
        try:
            state = read_json(self._state_path)
            return _sendable(state["validator"]) if state["url"] == self.url else None
        except (ValueError, FileNotFoundError, KeyError, TypeError):
            return None

    def open_at(self, begin: int, validator: str | None) -> IO[bytes]:
        """The part, cut to `begin` bytes, to go on with this version of the file."""
        file = self.path.open("r+b")
        file.truncate(begin)
        file.seek(begin)
        write_json(self._state_path, {"url": self.url, "validator": validator})
        return file

    def discard(self) -> None:
        """Forget what has come; the file stays, and with it the lock."""
        os.truncate(self.path, 0)
        self._state_path.unlink(missing_ok=True)

    def finish(self) -> None:
        """Put the complete part in its place."""
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        self.path.replace(self._target)
        self._state_path.unlink(missing_ok=True)


def _attempt(part: _Part, *, num_bytes: int, md5: str | None, timeout_s: float) -> bool:
    """Bring the part to its end if the server lets us; true if it went on from earlier bytes."""
    begin, validator = part.num_bytes, part.validator
    if validator is None or begin > num_bytes:
        begin = 0
    if begin == num_bytes:
        return True
    headers = dict(_HEADERS)
    if begin and validator:
        headers |= {"Range": f"bytes={begin}-", "If-Range": validator}
    try:
        with requests.get(part.url, headers=headers, stream=True, timeout=timeout_s) as response:
            begin = _accepted_begin(response, part, begin, validator, num_bytes=num_bytes, md5=md5)
            length = response.headers.get("Content-Length", "")
            if length.isdecimal() and begin + int(length) != num_bytes:
                part.discard()
                raise ValueError(
                    f"{part.url}: expected {num_bytes:,} bytes, got the offer of {begin + int(length):,}. "
                    "The file has changed; set downloads.mirror to a folder that holds the old one."
                )
            part.num_resumed += begin > 0
            with full_disk_named(part.path), part.open_at(begin, _validator(response.headers)) as file:
                _receive(response, file, part, begin=begin, num_bytes=num_bytes)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise _Interrupted(_reason(error, part, num_bytes)) from error
    return begin > 0


def _accepted_begin(
    response: requests.Response,
    part: _Part,
    begin: int,
    validator: str | None,
    *,
    num_bytes: int,
    md5: str | None,
) -> int:
    """Where the bytes of this response belong.

    With an MD5 the sum has the last word. Without one, bytes that need unpacking are refused, and
    more bytes must come under the validator of the first ones.
    """
    status = response.status_code
    coding = response.headers.get("Content-Encoding", "identity")
    if status in (200, 206) and md5 is None and coding.strip().lower() != "identity":
        raise ValueError(
            f"{part.url}: expected the file as it is, got it in the Content-Encoding {coding!r}. "
            "Fetch it by other means and set downloads.mirror to the folder that holds it."
        )
    if status == 200:
        return 0
    if status == 206 and begin:
        offered = response.headers.get("Content-Range", "")
        is_rest = re.fullmatch(rf"bytes {begin}-{num_bytes - 1}/(\*|{num_bytes})", offered) is not None
        came = _validator(response.headers)
        if is_rest and (came == validator or (came is None and md5 is not None)):
            return begin
        part.discard()
        raise _Interrupted("another part of the file than was asked for, or of another version")
    if status == 416:
        part.discard()
        raise _Interrupted("HTTP status 416, the range is refused")
    if status in _MENDABLE or status >= 500:
        raise _Interrupted(f"HTTP status {status}")
    raise ValueError(
        f"{part.url}: expected the file, got HTTP status {status} {response.reason}. "
        "Fetch it by other means and set downloads.mirror to the folder that holds it."
    )


def _receive(
    response: requests.Response, file: IO[bytes], part: _Part, *, begin: int, num_bytes: int
) -> None:
    total = begin
    with Progress(part.path.stem, total=num_bytes, unit="bytes", start=begin) as progress:
        while chunk := response.raw.read(_CHUNK_BYTES):
            total += len(chunk)
            if total > num_bytes:
                file.flush()  # what is written later would come behind the cut
                part.discard()
                raise ValueError(
                    f"{part.url}: expected {num_bytes:,} bytes, got more. "
                    "The file has changed; set downloads.mirror to a folder that holds the old one."
                )
            file.write(chunk)
            progress.advance(len(chunk))
    if total < num_bytes:
        raise _Interrupted(f"{total:,} bytes")


def _validator(headers: Mapping[str, str]) -> str | None:
    """What If-Range may name: a strong ETag, else the date of change (RFC 9110, 13.1.5)."""
    tag = _sendable(headers.get("ETag"))
    return tag if tag and not tag.startswith("W/") else _sendable(headers.get("Last-Modified"))


def _sendable(validator: object) -> str | None:
    """The validator if a header can carry it, which takes printable ASCII; else None."""
    if isinstance(validator, str) and re.fullmatch(r"[!-~]([ -~]*[!-~])?", validator):
        return validator
    return None


def _reason(error: Exception, part: _Part, num_bytes: int) -> str:
    """How far it came, and the innermost cause, which the client's layers wrap up."""
    cause = error.args[0] if error.args else error
    text = str(getattr(cause, "reason", cause)).rpartition(": ")[2]
    return f"{part.num_bytes:,} of {num_bytes:,} bytes, then {type(error).__name__} ({text[:200]})"


def _check_md5(part: _Part, md5: str | None, *, was_resumed: bool) -> None:
    if md5 is None:
        return
    with part.path.open("rb") as file:
        found = hashlib.file_digest(file, _md5).hexdigest()
    if found == md5:
        return
    part.discard()
    if was_resumed:  # two versions may have been spliced: once more from the beginning
        raise _Interrupted(f"the MD5 {found} instead of {md5}")
    raise ValueError(
        f"{part.url}: expected the MD5 {md5}, got {found}. "
        "The file has changed; set downloads.mirror to a folder that holds the old one."
    )


def _copy(source: Path, path: Path, *, num_bytes: int, md5: str | None) -> None:
    """Copy a mirror's file, checked on the way."""
    digest, total = _md5(), 0
    with source.open("rb") as read, atomic_write(path) as write:
        while chunk := read.read(_CHUNK_BYTES):
            digest.update(chunk)
            total += len(chunk)
            write.write(chunk)
        if total != num_bytes:
            raise ValueError(
                f"{source}: expected {num_bytes:,} bytes, got {total:,}. Copy it to the mirror again."
            )
        if md5 is not None and digest.hexdigest() != md5:
            raise ValueError(
                f"{source}: expected the MD5 {md5}, got {digest.hexdigest()}. Copy it to the mirror again."
            )


def _md5() -> Any:
    return hashlib.md5(usedforsecurity=False)
