"""Downloads that resume, and are accepted only with the right length and digest.

An incomplete download is the file `NAME.part` beside the destination. `NAME.part.json` records its
address and the version of the file, so that the bytes of two versions are never joined.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import shutil
import time
from collections.abc import Mapping
from http.client import HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter

from condenser.files import atomic_write, full_disk_named, open_no_link, read_json, sha256_file, write_json
from condenser.program import check_proxies
from condenser.progress import Progress

log = logging.getLogger("condenser")

_CHUNK_BYTES = 1 << 16
_MD5_DIGITS = 32  # a SHA-256 has 64
_LONGEST_WAIT_S = 60.0
_LEAST_BYTES = 1 << 12  # of an answer, in each timeout_s
_LARGEST_BYTES = 64 << 30  # of a file whose owner publishes no length; all official files are smaller
_TRANSIENT = {408, 425, 429}  # and every status from 500
# The second header is for Azure, which hosts MS MARCO.
_HEADERS = {"Accept-Encoding": "identity", "X-Ms-Version": "2019-12-12"}


class _Interrupted(Exception):
    """A failure after which another attempt may succeed."""


class _NoConnection(_Interrupted):
    """No host was reached."""


class _Changed(ValueError):
    """The file is not the one that was expected."""


class _Paced(io.RawIOBase):
    """The bytes of a connection; too few are a TimeoutError, as none are: a server may drip without end."""

    def __init__(self, connection: io.RawIOBase, timeout_s: float) -> None:
        self._connection, self._timeout_s = connection, timeout_s
        self._received, self._waited_s = 0, 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        began = time.monotonic()
        received = self._connection.readinto(buffer)
        self._received += received or 0
        self._waited_s += time.monotonic() - began
        if self._received >= _LEAST_BYTES:
            self._received, self._waited_s = 0, 0.0
        elif self._waited_s > self._timeout_s:
            raise TimeoutError
        return received

    def close(self) -> None:
        self._connection.close()
        super().close()


class _Adapter(HTTPAdapter):
    """Reads the whole answer of a server, from its first line, by `_Paced`."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__()
        self._timeout_s = timeout_s

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        def paced_answer(*of: Any, **more: Any) -> HTTPResponse:
            answer = HTTPResponse(*of, **more)
            answer.fp = io.BufferedReader(_Paced(answer.fp.detach(), self._timeout_s))
            return answer

        pool: Any = super().get_connection_with_tls_context(*args, **kwargs)
        answers = {"response_class": staticmethod(paced_answer)}
        pool.ConnectionCls = type("PacedConnection", (pool.ConnectionCls,), answers)
        return pool


class _Session(requests.Session):
    """One that is never redirected from https to where anybody may change what is sent."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__()
        for scheme in ("https://", "http://"):
            self.mount(scheme, _Adapter(timeout_s))

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
    seconds. An attempt fails if in `timeout_s` the server sends fewer than `_LEAST_BYTES`. With a mirror, one
    that reaches no host is the last. The server may ignore ranges, break the connection, or change the file
    between two attempts. A redirect from https to http is refused. Without a `digest`, the SHA-256 of the
    first download is kept in the file `first_seen`, and later ones must have it. The caller sees to it that
    no other process downloads to `path` at the same time.

    Raises:
        ValueError: the server refuses the file, or no attempt gives a file of `num_bytes` bytes (None: as
            many as the server says) with this MD5 or SHA-256 (None: unknown).
    """
    if digest is None and first_seen is not None:
        seen = _read_first_seen(first_seen)
        try:
            received = download(
                url,
                path,
                num_bytes=num_bytes,
                digest=seen,
                mirror=mirror,
                retries=retries,
                timeout_s=timeout_s,
                wait_s=wait_s,
            )
        except _Changed as error:
            raise _Changed(f"{error} If it is right as it is now, delete {first_seen}.") from None
        if seen is None:
            with atomic_write(first_seen) as file:
                file.write(f"{sha256_file(path)}  {path.name}\n".encode())
        return received | {"digest": None}
    path.parent.mkdir(parents=True, exist_ok=True)
    done: dict[str, Any] = {"url": url, "bytes": num_bytes, "digest": digest}
    advice = "set downloads.mirror to a folder that contains the file"
    if mirror is not None:
        places = mirror_places(url, mirror)
        for candidate in filter(Path.is_file, places):
            _copy(candidate, path, num_bytes=num_bytes, digest=digest)
            return done | {"bytes": path.stat().st_size, "from": "mirror", "attempts": 0, "resumed": 0}
        advice = f"put the file into the mirror, which has none of {', '.join(map(str, places))}"
    check_proxies()
    part = _Part(path, url, advice)
    for attempt in range(1, retries + 2):
        try:
            if num_bytes is None:
                done["bytes"] = num_bytes = _offered_bytes(part, timeout_s=timeout_s)
            was_resumed = _receive(part, num_bytes=num_bytes, timeout_s=timeout_s)
            _check(part, num_bytes=num_bytes, digest=digest, was_resumed=was_resumed)
        except _Interrupted as fault:
            log.warning("%s: %s (attempt %d of %d)", url, fault, attempt, retries + 1)
            reason = str(fault)
            if mirror is not None and isinstance(fault, _NoConnection):
                break
        else:
            part.finish()
            return done | {"from": "network", "attempts": attempt, "resumed": part.num_resumed}
        if attempt <= retries:
            time.sleep(min(wait_s * 2 ** (attempt - 1), _LONGEST_WAIT_S))
    raise ValueError(
        f"{url}: expected {'the file' if num_bytes is None else f'{num_bytes:,} bytes'} within "
        f"{attempt} attempt{'s' * (attempt > 1)}, got {reason}. "
        f"What was received is kept: run again, or {advice}."
    )


def mirror_places(url: str, mirror: Path) -> list[Path]:
    """Where a file may be in a mirror folder: under its host and path, its path, or its name alone."""
    address = urlsplit(url)
    parts = [part for part in unquote(address.path).split("/") if part not in ("", ".", "..")]
    return [mirror.joinpath(address.netloc, *parts), mirror.joinpath(*parts), mirror / parts[-1]]


class _Part:
    """The bytes received so far of one version of a file; `advice` says where it may come from otherwise."""

    def __init__(self, path: Path, url: str, advice: str) -> None:
        self.url, self.advice, self.num_resumed = url, advice, 0
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


def _offered_bytes(part: _Part, *, timeout_s: float) -> int:
    """The length of a file of which its owner publishes none, as the server says it."""
    try:
        with (
            _Session(timeout_s) as session,
            session.head(part.url, headers=_HEADERS, timeout=timeout_s, allow_redirects=True) as response,
        ):
            status, length = response.status_code, response.headers.get("Content-Length", "")
    except requests.RequestException as error:
        raise _fault(error, f"no answer ({type(error).__name__})") from error
    if status in _TRANSIENT or status >= 500:
        raise _Interrupted(f"HTTP status {status}")
    if status != 200 or not length.isdecimal():
        raise ValueError(
            f"{part.url}: expected the length of the file, got HTTP status {status} without one. "
            f"Fetch it by other means and {part.advice}."
        )
    if int(length) > _LARGEST_BYTES:
        raise ValueError(
            f"{part.url}: expected at most {_LARGEST_BYTES:,} bytes, got the offer of {int(length):,}."
        )
    return int(length)


def _receive(part: _Part, *, num_bytes: int, timeout_s: float) -> bool:
    """Append to the part what is missing; returns whether it begins with bytes of an earlier attempt."""
    begin, validator = part.received()
    if begin >= num_bytes:
        return True
    headers = dict(_HEADERS)
    if begin and validator:
        headers |= {"Range": f"bytes={begin}-", "If-Range": validator}
    try:
        with (
            _Session(timeout_s) as session,
            session.get(part.url, headers=headers, stream=True, timeout=timeout_s) as response,
        ):
            begin = _accepted_begin(response, part, begin, validator, num_bytes=num_bytes)
            length = response.headers.get("Content-Length", "")
            if length.isdecimal() and begin + int(length) != num_bytes:
                part.discard()
                raise _changed(
                    part, f"expected {num_bytes:,} bytes, got the offer of {begin + int(length):,}"
                )
            part.num_resumed += begin > 0
            with (
                full_disk_named(part.path),
                part.open_at(begin, _validator(response.headers)) as file,
                Progress(part.path.stem, total=num_bytes, unit="bytes", start=begin) as progress,
            ):
                received = begin
                while chunk := response.raw.read(_CHUNK_BYTES):
                    received += len(chunk)
                    if received > num_bytes:  # a server without Content-Length may never end
                        part.discard()
                        raise _changed(part, f"expected {num_bytes:,} bytes, got more")
                    file.write(chunk)
                    progress.advance(len(chunk))
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise _fault(error, _reason(error, part, num_bytes)) from error
    return begin > 0


def _accepted_begin(
    response: requests.Response, part: _Part, begin: int, validator: str | None, *, num_bytes: int
) -> int:
    """The position in the file of the first byte of a response."""
    status = response.status_code
    if status == 200:
        return 0
    if status == 206 and begin:
        offered = response.headers.get("Content-Range", "")
        is_rest = re.fullmatch(rf"bytes {begin}-{num_bytes - 1}/(\*|{num_bytes})", offered) is not None
        if is_rest and _validator(response.headers) == validator:
            return begin
        part.discard()
        raise _Interrupted("another range than requested, or of another version of the file")
    if status == 416:
        part.discard()
        raise _Interrupted("HTTP status 416, the range is refused")
    if status in _TRANSIENT or status >= 500:
        raise _Interrupted(f"HTTP status {status}")
    raise ValueError(
        f"{part.url}: expected the file, got HTTP status {status} {response.reason}. "
        f"Fetch it by other means and {part.advice}."
    )


def _validator(headers: Mapping[str, str]) -> str | None:
    """What If-Range may contain: a strong ETag, else the date of the last change (RFC 9110, 13.1.5)."""
    tag = headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")


def _fault(error: Exception, text: str) -> _Interrupted:
    """The failure behind a client's error, in these words."""
    cause = getattr(error.args[0] if error.args else None, "reason", None)
    exceptions = urllib3.exceptions
    unreached = exceptions.NewConnectionError, exceptions.ConnectTimeoutError, exceptions.ProxyError
    return (_NoConnection if isinstance(cause, unreached) else _Interrupted)(text)


def _reason(error: Exception, part: _Part, num_bytes: int) -> str:
    """How many bytes were received, and the names of a client's errors; their texts may have a password."""
    cause = error.args[0] if error.args else error
    names = dict.fromkeys(type(fault).__name__ for fault in (error, getattr(cause, "reason", cause)))
    return f"{part.received()[0]:,} of {num_bytes:,} bytes, then {', '.join(names)}"


def _check(part: _Part, *, num_bytes: int, digest: str | None, was_resumed: bool) -> None:
    num_received = part.path.stat().st_size
    if num_received < num_bytes:
        raise _Interrupted(f"{num_received:,} bytes")
    if mismatch := _mismatch(part.path, num_bytes=num_bytes, digest=digest):
        part.discard()
        if was_resumed:  # the bytes may be of two versions: download all of them again
            raise _Interrupted(mismatch)
        raise _changed(part, mismatch)


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


def _changed(part: _Part, mismatch: str) -> _Changed:
    return _Changed(
        f"{part.url}: {mismatch}. "
        "The file has changed; set downloads.mirror to a folder that contains the old one."
    )


def _copy(source: Path, path: Path, *, num_bytes: int | None, digest: str | None) -> None:
    """Copy a file of the mirror, and check the copy."""
    with source.open("rb") as read, atomic_write(path) as write:
        shutil.copyfileobj(read, write, _CHUNK_BYTES)
        write.flush()
        if mismatch := _mismatch(Path(write.name), num_bytes=num_bytes, digest=digest):
            raise _Changed(f"{source}: {mismatch}. Copy it to the mirror again.")


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
