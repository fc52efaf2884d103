"""Downloads that resume, and are accepted only with the right length and digest.

An incomplete download is the file `NAME.part` beside the destination. `NAME.part.json` records its
address and the version of the file, so that the bytes of two versions are never joined.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import time
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urljoin, urlsplit

import requests
import urllib3

from condenser.files import atomic_write, full_disk_named, open_no_link, read_json, sha256_file, write_json
from condenser.program import check_proxies
from condenser.progress import Progress

log = logging.getLogger("condenser")

_CHUNK_BYTES = 1 << 16
_MD5_DIGITS = 32  # a SHA-256 has 64
_LONGEST_WAIT_S = 60.0
_TRANSIENT = {408, 425, 429}  # and every status from 500
# The second header is for Azure, which hosts MS MARCO.
_HEADERS = {"Accept-Encoding": "identity", "X-Ms-Version": "2019-12-12"}


class _Interrupted(Exception):
    """A failure after which another attempt may succeed."""


class _NoConnection(_Interrupted):
    """No host was reached."""


class _Session(requests.Session):
    """One that is never redirected from https to where anybody may change what is sent."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        target = super().get_redirect_target(resp)
        if target is not None and urlsplit(resp.url).scheme == "https":
            place = urljoin(resp.url, target)
            if urlsplit(place).scheme != "https":
                raise ValueError(
                    f"{resp.url}: expected to stay with https, got a redirect to {place:.200}. "
                    "Fetch it by other means and set downloads.mirror to the folder that contains it."
                )
        return target


def download(
    url: str,
    path: Path,
    *,
    num_bytes: int | None,
    digest: str | None,
    mirror: Path | None,
    retries: int,
    timeout_s: float,
    wait_s: float = 1.0,
    first_seen: Path | None = None,
) -> dict[str, Any]:
    """Fetch `url` to `path`, or copy it from the mirror folder if it is there; returns what was done.

    `retries` attempts follow the first one, after pauses of `wait_s`, twice that, four times that, ...
    seconds. An attempt fails if the server sends nothing for `timeout_s`. With a mirror, one that reaches no
    host is the last. The server may ignore ranges, break the connection, or change the file between two
    attempts. A redirect from https to http is refused. Without a `digest`, the SHA-256 of the first download
    is kept in the file `first_seen`, and later ones must have it. The caller sees to it that no other process
    downloads to `path` at the same time.

    Raises:
        ValueError: the server refuses the file, or no attempt gives a file of `num_bytes` bytes (None: as
            many as the server says) with this MD5 or SHA-256 (None: unknown).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    known = first_seen if digest is None else None
    expected = _read_first_seen(known) if known else digest
    if_right = f" If it is right as it is now, delete {known}." if known else ""
    advice, places = "set downloads.mirror to a folder that contains the file", list[Path]()
    if mirror is not None:
        places = mirror_places(url, mirror)
        advice = f"put the file into the mirror, which has none of {', '.join(map(str, places))}"
    if copy := next(filter(Path.is_file, places), None):
        _copy(copy, path, num_bytes=num_bytes, digest=expected, if_right=if_right)
        how = {"from": "mirror", "attempts": 0, "resumed": 0}
    else:
        part = _Part(path, url, advice, if_right)
        num_attempts = _fetch(
            part,
            num_bytes=num_bytes,
            digest=expected,
            has_mirror=mirror is not None,
            retries=retries,
            timeout_s=timeout_s,
            wait_s=wait_s,
        )
        how = {"from": "network", "attempts": num_attempts, "resumed": part.num_resumed}
    if known and expected is None:
        with atomic_write(known) as file:
            file.write(f"{sha256_file(path)}  {path.name}\n".encode())
    return {"url": url, "bytes": path.stat().st_size, "digest": digest, **how}


def mirror_places(url: str, mirror: Path) -> list[Path]:
    """Where a file may be in a mirror folder: under its host and path, its path, or its name alone."""
    address = urlsplit(url)
    parts = [part for part in unquote(address.path).split("/") if part not in ("", ".", "..")]
    return [mirror.joinpath(address.netloc, *parts), mirror.joinpath(*parts), mirror / parts[-1]]


class _Part:
    """The bytes received so far of one version of a file.

    `advice` says where it may come from otherwise, `if_right` what to do if a changed one is right.
    """

    def __init__(self, path: Path, url: str, advice: str, if_right: str = "") -> None:
        self.url, self.advice, self.if_right, self.num_resumed = url, advice, if_right, 0
        self.path, self._target = path.with_name(f"{path.name}.part"), path
        self._state_path = path.with_name(f"{path.name}.part.json")

    def received(self) -> tuple[int, str | None]:
        """How many bytes are there, and what identifies their version; nothing if that is unknown."""
        try:
            state = read_json(self._state_path)
            if state["url"] == self.url and state["validator"]:
                return self.path.stat().st_size, state["validator"]
        except (ValueError, FileNotFoundError):
            pass
        return 0, None

    def open_at(self, begin: int, validator: str | None) -> IO[bytes]:
        """The part, cut to `begin` bytes, to be continued with bytes of this version."""
        file = open_no_link(self.path, "ab")
        file.truncate(begin)
        write_json(self._state_path, {"url": self.url, "validator": validator})
        return file

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._state_path.unlink(missing_ok=True)

    def finish(self) -> None:
        """Move the complete part to its place."""
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        self.path.replace(self._target)
        self._state_path.unlink(missing_ok=True)


def _fetch(
    part: _Part,
    *,
    num_bytes: int | None,
    digest: str | None,
    has_mirror: bool,
    retries: int,
    timeout_s: float,
    wait_s: float,
) -> int:
    """Fetch the whole file; returns the number of attempts."""
    check_proxies()
    for attempt in range(1, retries + 2):
        try:
            was_resumed = _receive(part, num_bytes=num_bytes, timeout_s=timeout_s)
            if mismatch := _mismatch(part.path, num_bytes=num_bytes, digest=digest):
                part.discard()
                if was_resumed:  # the bytes may be of two versions: download all of them again
                    raise _Interrupted(mismatch)
                raise _changed(part, mismatch)
        except _Interrupted as fault:
            log.warning("%s: %s (attempt %d of %d)", part.url, fault, attempt, retries + 1)
            reason = str(fault)
            if has_mirror and isinstance(fault, _NoConnection):
                break
        else:
            part.finish()
            return attempt
        if attempt <= retries:
            time.sleep(min(wait_s * 2 ** (attempt - 1), _LONGEST_WAIT_S))
    raise ValueError(
        f"{part.url}: expected {'the file' if num_bytes is None else f'{num_bytes:,} bytes'} within "
        f"{attempt} attempt{'s' * (attempt > 1)}, got {reason}. "
        f"What was received is kept: run again, or {part.advice}."
    )


def _receive(part: _Part, *, num_bytes: int | None, timeout_s: float) -> bool:
    """Append to the part what is missing; returns whether it begins with bytes of an earlier attempt."""
    begin, tag = part.received()
    if num_bytes is not None and begin >= num_bytes:
        return True
    headers = dict(_HEADERS)
    if begin and tag:
        headers |= {"Range": f"bytes={begin}-", "If-Range": tag}
    try:
        with (
            _Session() as session,
            session.get(part.url, headers=headers, stream=True, timeout=timeout_s) as response,
        ):
            received = begin = _accepted_begin(response, part, begin, tag)
            length = response.headers.get("Content-Length", "")
            offered = begin + int(length) if length.isdecimal() else num_bytes
            if offered is None:
                raise ValueError(
                    f"{part.url}: expected the length of the file, got an answer without one. "
                    f"Fetch it by other means and {part.advice}."
                )
            if num_bytes not in (None, offered):
                part.discard()
                raise _changed(part, f"expected {num_bytes:,} bytes, got the offer of {offered:,}")
            part.num_resumed += begin > 0
            with (
                full_disk_named(part.path),
                part.open_at(begin, response.headers.get("ETag")) as file,
                Progress(part.path.stem, total=offered, unit="bytes", start=begin) as progress,
            ):
                while chunk := response.raw.read(_CHUNK_BYTES):
                    received += len(chunk)
                    if received > offered:  # a server without Content-Length may never end
                        part.discard()
                        raise _changed(part, f"expected {offered:,} bytes, got more")
                    file.write(chunk)
                    progress.advance(len(chunk))
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise _fault(error, part) from error
    if received < offered:
        raise _Interrupted(f"{received:,} bytes")
    return begin > 0


def _accepted_begin(response: requests.Response, part: _Part, begin: int, tag: str | None) -> int:
    """The position in the file of the first byte of a response."""
    status, headers = response.status_code, response.headers
    if status in _TRANSIENT or status >= 500:
        raise _Interrupted(f"HTTP status {status}")
    if status == 200:
        return 0
    if status in (206, 416):
        rest = re.fullmatch(rf"bytes {begin}-(\d+)/(\d+)", headers.get("Content-Range", ""))
        is_whole_rest = rest is not None and int(rest[1]) + 1 == int(rest[2])
        if status == 206 and is_whole_rest and headers.get("ETag") == tag:
            return begin
        part.discard()
        raise _Interrupted(f"HTTP status {status}, without the range of this version that was asked for")
    raise ValueError(
        f"{part.url}: expected the file, got HTTP status {status} {response.reason}. "
        f"Fetch it by other means and {part.advice}."
    )


def _fault(error: Exception, part: _Part) -> _Interrupted:
    """A failure, with the names of a client's errors alone; their texts may have a password."""
    cause = error.args[0] if error.args else error
    reason = getattr(cause, "reason", cause)
    names = dict.fromkeys(type(fault).__name__ for fault in (error, reason))
    exceptions = urllib3.exceptions
    unreached = exceptions.NewConnectionError, exceptions.ConnectTimeoutError, exceptions.ProxyError
    kind = _NoConnection if isinstance(reason, unreached) else _Interrupted
    return kind(f"{part.received()[0]:,} bytes, then {', '.join(names)}")


def _mismatch(file: Path, *, num_bytes: int | None, digest: str | None) -> str | None:
    """`expected ..., got ...` if a file does not have the right length and digest."""
    if num_bytes is not None and (length := file.stat().st_size) != num_bytes:
        return f"expected {num_bytes:,} bytes, got {length:,}"
    if digest is not None:
        name = "MD5" if len(digest) == _MD5_DIGITS else "SHA-256"
        with file.open("rb") as stream:
            algorithm = name.replace("-", "").lower()
            hasher = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False))
        if hasher.hexdigest() != digest:
            return f"expected the {name} {digest}, got {hasher.hexdigest()}"
    return None


def _changed(part: _Part, mismatch: str) -> ValueError:
    return ValueError(
        f"{part.url}: {mismatch}. "
        f"The file has changed; set downloads.mirror to a folder that contains the old one.{part.if_right}"
    )


def _copy(source: Path, path: Path, *, num_bytes: int | None, digest: str | None, if_right: str) -> None:
    """Copy a file of the mirror, and check the copy."""
    with source.open("rb") as read, atomic_write(path) as write:
        shutil.copyfileobj(read, write, _CHUNK_BYTES)
        write.flush()
        if mismatch := _mismatch(Path(write.name), num_bytes=num_bytes, digest=digest):
            raise ValueError(f"{source}: {mismatch}. Copy it to the mirror again.{if_right}")


def _read_first_seen(file: Path) -> str | None:
    """The SHA-256 of the first download; None before it.

    Raises:
        ValueError: the file has something else.
    """
    if not file.is_file():
        return None
    text = file.read_text(encoding="utf-8", errors="replace")
    if (match := re.match(r"([0-9a-f]{64})  ", text)) is None:
        raise ValueError(f"{file}:1: expected a SHA-256 and a name, got {text!r:.60}. Delete it.")
    return match[1]
