"""Manifests: the record beside each result of what made it, from what, when and where.

A result is a folder, a file, or files with a common beginning of their names; its manifest is
`NAME.manifest.json` beside it.
"""

from __future__ import annotations

import datetime
import errno
import fcntl
import glob
import json
import logging
import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from condenser.files import canonical_json, json_bytes, open_no_link, sha256_file, sha256_text, write_json

log = logging.getLogger("condenser")

SUFFIX = ".manifest.json"
OTHER_BYTES = "it was changed after its rule wrote it"

STARTED_VARIABLE = "CONDENSER_STARTED_NS"
"""Set by the workflow for its programs: when it read the code that the specs speak of."""


class Manifest:
    """The manifest of a result that is being made.

    Of processes that share a file of `claims` only one at a time makes a result. A second one waits until
    one that an earlier, killed workflow left behind has ended; then it removes what that one left
    half-written, or exits with status 0 where the same result was made meanwhile.

    Fields: spec (settings, code digests, versions, lineage), inputs and outputs with their SHA-256,
    counts, wall time in seconds, what the process used, device, the run that made it (when it started and
    what was asked; absent outside the workflow), and the SHA-256 of all that. Only times, memory, device,
    date and run differ between two runs of the same spec.
    """

    def __init__(
        self,
        path: str | Path,
        spec: dict[str, Any],
        *,
        inputs: Sequence[str | Path],
        claims: Path | None = None,
    ) -> None:
        self._path, self._spec = Path(path), spec
        self._inputs = [Path(file) for file in inputs]
        self._began = time.monotonic()
        self._claim_file: IO[bytes] | None = None
        if STARTED_VARIABLE in os.environ:
            _refuse_other_code(spec, started_ns=int(os.environ[STARTED_VARIABLE]))
        if claims and os.environ.get("RANK", "0") == "0":  # of several processes the first one writes
            self._claim_file, waited = _claim(claims, self._path)
            if waited and "RANK" not in os.environ and self._is_made():
                log.info("%s: was made meanwhile", self._path)
                sys.exit(0)
            _sweep(self._path)
        if os.environ.get("RANK", "0") == "0":
            self._refuse_damaged(self._input_digests)

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *_: object) -> None:
        """Let others make the result."""
        if self._claim_file is not None:
            self._claim_file.close()

    @cached_property
    def fingerprint(self) -> str:
        """What a result depends on: the SHA-256 of the spec and of the bytes of all inputs.

        The spec alone is not enough: a model made again on another device has the same spec, and other
        bytes.
        """
        return sha256_text(canonical_json({"spec": self._spec, "inputs": self._input_digests}))

    def own_folder(self, work_folder: Path) -> Path:
        """The part of the spec's work folder that holds partial work of this fingerprint, and no other."""
        own = work_folder / self.fingerprint[:16]
        for other in work_folder.glob("*"):
            if other != own:
                log.info("%s: not resumed: its inputs have changed", other)
        return own

    @cached_property
    def _input_digests(self) -> dict[str, str]:
        return self._digests(self._inputs)

    def add_inputs(self, files: Sequence[Path]) -> None:
        """Name further inputs, which were not known before the job began."""
        digests = self._digests(files)
        self._refuse_damaged(digests)
        self._input_digests.update(digests)

    def _refuse_damaged(self, digests: dict[str, str]) -> None:
        """See that inputs are as their rules wrote them; the manifest needs their digests in any case.

        Raises:
            ValueError: the bytes of an input are not those of its own manifest.
        """
        for file, digest in _beside(self._path, digests).items():
            record = record_of(file)
            if record is not None and record.outputs[file] != digest:
                raise ValueError(
                    f"{file}: {OTHER_BYTES}, {record.spec.get('rule', 'unknown')}. "
                    "Delete it and give the same command again, which makes it anew."
                )

    def _is_made(self) -> bool:
        """Whether the result is there, whole and of the same spec."""
        record = sound_record(self._path)
        return (record is not None and record.spec == self._spec) and all(
            file.is_file() and sha256_file(file) == digest for file, digest in record.outputs.items()
        )

    def write(
        self,
        *,
        outputs: Sequence[str | Path],
        counts: dict[str, Any],
        device: str = "cpu",
        kept_by: str | None = None,
    ) -> None:
        """Write the manifest with the digests of the outputs; call it last, when they are in place.

        With `kept_by`, a digest of what a model depends on but the texts, the inputs are noted as
        `learnt_from`: the model stays as it is when they change.
        """
        inputs = self._input_digests
        record: dict[str, Any] = {
            "spec": self._spec,
            **({"inputs": {}, "learnt_from": inputs, "kept_by": kept_by} if kept_by else {"inputs": inputs}),
            "outputs": self._digests([Path(file) for file in outputs]),
            "counts": counts,
            "wall_time_s": round(time.monotonic() - self._began, 3),
            **_used(),
            "device": device,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        write_json(self._path, sealed(record))

    def _digests(self, paths: Sequence[Path]) -> dict[str, str]:
        """SHA-256 by path relative to the manifest's folder, so that a moved folder still verifies."""
        digests = {}
        for path in paths:
            files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
            for file in files:
                digests[Path(os.path.relpath(file, self._path.parent)).as_posix()] = sha256_file(file)
        return digests


@dataclass(frozen=True)
class Record:
    """What the sound manifest at `path` says; inputs and outputs are SHA-256 by path, `whole` has all.

    `made_from` has the inputs, and of a kept model what it has learnt from, as that was then.
    """

    path: Path
    spec: dict[str, Any]
    inputs: dict[Path, str]
    outputs: dict[Path, str]
    counts: dict[str, Any]
    whole: dict[str, Any]

    @property
    def made_from(self) -> dict[Path, str]:
        return {**self.inputs, **_beside(self.path, self.whole.get("learnt_from", {}))}


def read_manifest(path: Path) -> Record:
    """The manifest at `path`.

    Raises:
        ValueError: it cannot be read, or is not as a rule wrote it; the message says why.
    """
    try:
        str(path).encode()  # other files name it, as UTF-8
        as_read = path.read_bytes()
        manifest = json.loads(as_read)
        rest = {name: value for name, value in manifest.items() if name != "sha256"}
        is_whole = sealed(rest) == manifest and json_bytes(manifest) == as_read
        inputs, outputs = (_beside(path, manifest[part]) for part in ("inputs", "outputs"))
        record = Record(path, manifest["spec"], inputs, outputs, manifest["counts"], manifest)
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no readable manifest ({error!r})") from error
    if not is_whole:
        raise ValueError(OTHER_BYTES)
    return record


def sound_record(path: Path) -> Record | None:
    """The manifest at `path`; None where it cannot be read, or is not as a rule wrote it."""
    try:
        return read_manifest(path)
    except ValueError:
        return None


def manifests_beside(file: Path) -> list[Path]:
    """The manifests that may name a file as an output, the most likely first.

    They lie beside the file, under its name or the beginning of that, or beside a folder that it is in.
    """
    parts = file.name.split(".")
    names = [file.with_name(".".join(parts[:end]) + SUFFIX) for end in range(len(parts), 0, -1)]
    folders = [Path(f"{folder}{SUFFIX}") for folder in file.parents]
    return [manifest for manifest in [*names, *folders] if manifest.is_file()]


def record_of(file: Path, read: Callable[[Path], Record | None] = sound_record) -> Record | None:
    """The sound manifest that names a file as an output; None of a user's own file."""
    records = filter(None, map(read, manifests_beside(file)))
    return next((record for record in records if file in record.outputs), None)


def _used() -> dict[str, Any]:
    """Processor time of this process and those it started (BM25 runs in one); peak memory of the largest.

    Of a training on several GPUs, those of the first process; `processes` is their number, one for each GPU.
    """
    usages = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    used: dict[str, Any] = {
        "processor_s": round(sum(usage.ru_utime + usage.ru_stime for usage in usages), 3),
        "peak_memory_mb": round(max(usage.ru_maxrss for usage in usages) / unit),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
    }
    torch = sys.modules.get("torch")  # not every program imports it
    if torch is not None and torch.cuda.is_initialized():
        used["peak_gpu_memory_mb"] = round(torch.cuda.max_memory_allocated() / (1 << 20))
    return used


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """A manifest's record with its own SHA-256."""
    return {**record, "sha256": sha256_text(canonical_json(record))}


def _beside(manifest: Path, digests: dict[str, str]) -> dict[Path, str]:
    """Digests by path, from those by path relative to the manifest's folder."""
    return {Path(os.path.normpath(manifest.parent / name)): digest for name, digest in digests.items()}


def _refuse_other_code(spec: dict[str, Any], *, started_ns: int) -> None:
    """See that the code that is about to run is the code of the spec.

    Raises:
        ValueError: a module was edited after the workflow started: the manifest would be wrong.
    """
    root = Path(__file__).resolve().parents[1]
    program = root / "workflow_scripts" / f"{spec['rule']}.py"
    files = [program, *(root / "condenser").rglob("*.py")]
    if all(file.stat().st_ctime_ns <= started_ns for file in files):
        return
    from condenser.pipeline.code import code_digests

    now = code_digests(program, root, tuple(set(spec["code"]) - {program.name}))
    for name, digest in spec["code"].items():
        if now.get(name) != digest:
            raise ValueError(f"{name}: changed since this workflow was started. Give the same command again.")


def _claim(claims: Path, result: Path) -> tuple[IO[bytes], bool]:
    """Hold one byte of the file `claims`, chosen by the result's path, while this process lives.

    Gives the file, to be kept open, and whether another process had to be waited for. The system releases
    the byte when the process ends, however it ends.
    """
    claims.parent.mkdir(parents=True, exist_ok=True)
    byte = int(sha256_text(str(result.absolute()))[:12], 16)
    file = open_no_link(claims, "ab")
    try:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            log.info("%s: another process is making it: waiting until it ends", result)
            fcntl.lockf(file, fcntl.LOCK_EX, 1, byte)
            return file, True
    except OSError as error:
        log.warning("%s: no locks on this file system (%s)", claims, error)
    return file, False


def _sweep(manifest: Path) -> None:
    """Remove what killed processes left half-written of the result that `manifest` belongs to.

    By the names that condenser.files and condenser.data.canonical give: beside the manifest under the
    result's name, and anywhere in a folder of that name.
    """
    result = manifest.with_name(manifest.name.removesuffix(SUFFIX))
    name = glob.escape(result.name)
    for folder, patterns in (
        (result.parent, [f".{name}.partial-*", f".{name}.*.partial-*", f".{name}.old-*"]),
        (result, [".*.partial-*", ".collect-*"]),
    ):
        for pattern in patterns:
            for left in folder.glob(pattern):
                log.info("%s: removed, left half-written by a killed process", left)
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
