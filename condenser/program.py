"""What every program of workflow_scripts shares: one-line errors, logs, specs and manifests."""

from __future__ import annotations

import datetime
import errno
import fcntl
import glob
import logging
import os
import platform
import select
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from condenser.files import canonical_json, read_json, sha256_file, sha256_text, write_json

log = logging.getLogger("condenser")

# Set by the workflow for the programs it starts (condenser.pipeline.environment).
CONTROLLER_VARIABLE, CLAIMS_VARIABLE = "CONDENSER_CONTROLLER", "CONDENSER_CLAIMS"
STARTED_VARIABLE = "CONDENSER_STARTED_NS"

# Asks the system for a signal when the parent ends, and becomes the command; 1 is PR_SET_PDEATHSIG.
_BIND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[1]), 0, 0, 0)
if os.getppid() != int(sys.argv[2]): sys.exit("the parent ended first")
os.execv(sys.argv[3], sys.argv[3:])
"""


def run(main: Callable[[Sequence[str] | None], None]) -> None:
    """Run a program's `main`: a person's mistake is one line on standard error and status 1.

    So is memory that the system or a GPU refuses. A fault of ours also leaves its traceback on standard
    error, above the line that says so.
    SIGTERM ends the program with status 143 after its `finally` blocks have run. When the Snakemake
    that started it is killed, it gets SIGTERM: nobody waits for its result any more.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for noisy in ("httpx", "transformers", "faiss", "faiss.loader"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if CONTROLLER_VARIABLE in os.environ:
        _end_with(int(os.environ[CONTROLLER_VARIABLE]))
    try:
        main(None)
    except (ValueError, FileNotFoundError, PermissionError) as error:
        print(f"error: {error}", file=sys.stderr)
        log.debug("", exc_info=error)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        name = error.filename2 or error.filename or "a file"  # of two, the second is written
        print(f"error: {error.strerror or error}: {name}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        if is_out_of_memory(error):
            said = str(error).strip().partition("\n")[0] or type(error).__name__
            print(
                f"error: memory is full: {said}. Give this job more, or less to hold at once "
                "(rows_per_chunk, encode.batch_tokens).",
                file=sys.stderr,
            )
            sys.exit(1)
        traceback.print_exc()
        print(f"internal error ({type(error).__name__}): {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nobody catches what it raises while Python ends


def is_out_of_memory(error: Exception) -> bool:
    """Whether Python, or PyTorch for a GPU or on a processor, was refused memory."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True  # the latter is torch's allocator's; not every program imports torch
    said = str(error)
    # a processor's allocator; what a GPU's driver and its library take besides torch's allocator
    signs = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return any(sign in said for sign in signs)


def _end_with(controller: int) -> None:
    """Send this process SIGTERM when the process `controller` has ended."""
    try:
        descriptor = os.pidfd_open(controller)
    except (AttributeError, OSError):  # it is Linux's alone; or the controller is out of sight in a container
        return

    def watch() -> None:
        select.select([descriptor], [], [])
        log.warning("the workflow that started this program has ended: stopping")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="watch-controller", daemon=True).start()


def bound(command: Sequence[str], *, number: signal.Signals) -> list[str]:
    """The command (its program by full path) as a child to start that gets a signal when this process ends.

    The system sends it, however this process ends. That is Linux's alone, elsewhere it is the command
    itself. To Linux the parent is the thread that starts it, which therefore must wait for its end.
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _BIND, str(int(number)), str(os.getpid()), *command]


class Manifest:
    """The record kept beside a result: what made it, from what, when and where.

    In a workflow only one process at a time makes a result: a second waits until one that an earlier,
    killed workflow left behind has ended, takes away what it left half-written, and ends well itself
    where that one has made the very same result meanwhile.

    Fields: spec (configuration, code digests, versions, seed, lineage), inputs and outputs with
    their SHA-256, counts, wall time in seconds, device, and the SHA-256 of all that. Only wall
    time, device and date differ between two runs of the same spec.
    """

    def __init__(self, path: str | Path, spec: dict[str, Any], *, inputs: Sequence[str | Path]) -> None:
        self._path, self._spec = Path(path), spec
        self._inputs = [Path(file) for file in inputs]
        self._began = time.monotonic()
        if STARTED_VARIABLE in os.environ:
            _refuse_other_code(spec, started_ns=int(os.environ[STARTED_VARIABLE]))
        claims = os.environ.get(CLAIMS_VARIABLE)
        if claims and os.environ.get("RANK", "0") == "0":  # of several processes the first one writes
            self._claim_file, waited = _claim(Path(claims), self._path)
            if waited and "RANK" not in os.environ and self._is_made():
                log.info("%s: was made meanwhile", self._path)
                sys.exit(0)
            _sweep(self._path)

    @cached_property
    def fingerprint(self) -> str:
        """What a result depends on: the SHA-256 of the spec and of the bytes of all inputs.

        The spec alone does not tell: a model made again on another device has the same, and other bytes.
        """
        return sha256_text(canonical_json({"spec": self._spec, "inputs": self._input_digests}))

    def own_folder(self, work_folder: Path) -> Path:
        """Where in the spec's work folder the finished parts of this fingerprint lie, and no others."""
        own = work_folder / self.fingerprint[:16]
        for other in work_folder.glob("*"):
            if other != own:
                log.info("%s: not gone on with, it was made from other inputs", other)
        return own

    @cached_property
    def _input_digests(self) -> dict[str, str]:
        return self._digests(self._inputs)

    def _is_made(self) -> bool:
        """Whether the result is there, of the same spec and whole."""
        try:
            record = read_json(self._path)
            outputs = [self._path.parent / name for name in record["outputs"]]
            return record["spec"] == self._spec and record["outputs"] == self._digests(outputs)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def write(
        self,
        *,
        outputs: Sequence[str | Path],
        counts: dict[str, Any],
        device: str = "cpu",
        work_folder: Path | None = None,
    ) -> None:
        """Digest the files and write the manifest; call it last, when all outputs are in place.

        Then remove `work_folder`: a job killed before that loses its outputs to Snakemake, and begins
        again from what the work folder keeps.
        """
        record: dict[str, Any] = {
            "spec": self._spec,
            "inputs": self._input_digests,
            "outputs": self._digests([Path(file) for file in outputs]),
            "counts": counts,
            "wall_time_s": round(time.monotonic() - self._began, 3),
            "device": device,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        write_json(self._path, sealed(record))
        if work_folder is not None:
            shutil.rmtree(work_folder)

    def _digests(self, paths: Sequence[Path]) -> dict[str, str]:
        """SHA-256 by path relative to the manifest's folder, so that a moved folder still verifies."""
        digests = {}
        for path in paths:
            files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
            for file in files:
                digests[Path(os.path.relpath(file, self._path.parent)).as_posix()] = sha256_file(file)
        return digests


def _refuse_other_code(spec: dict[str, Any], *, started_ns: int) -> None:
    """See that the code that is about to run is what the spec tells of.

    Raises:
        ValueError: a file of code is newer than the workflow, and a module no longer the one that the
            spec tells of: the result would not be what its manifest says.
    """
    root = Path(__file__).resolve().parents[1]
    program = root / "workflow_scripts" / f"{spec['stage']}.py"
    files = [program, *(root / "condenser").rglob("*.py")]
    if all(file.stat().st_ctime_ns <= started_ns for file in files):
        return
    from condenser.pipeline.code import code_digests

    now = code_digests(program, root=root, modules=set(spec["code"]) - {program.name})
    for name, digest in spec["code"].items():
        if now.get(name) != digest:
            raise ValueError(f"{name}: changed since this workflow was started. Give the same command again.")


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """A manifest's record with its own SHA-256."""
    return {**record, "sha256": sha256_text(canonical_json(record))}


def _claim(claims: Path, result: Path) -> tuple[IO[bytes], bool]:
    """Hold one byte of the file `claims`, chosen by the result's path, while this process lives.

    Gives the file, to be kept open, and whether another process had to be waited for. The system lets
    go of the byte when the process ends, however it ends.
    """
    claims.parent.mkdir(parents=True, exist_ok=True)
    byte = int(sha256_text(str(result.absolute()))[:12], 16)
    file = claims.open("ab")
    try:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            log.info("%s: another process is at work on it: waiting until it ends", result)
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
    result = manifest.with_name(manifest.name.removesuffix(".manifest.json"))
    name = glob.escape(result.name)
    for folder, patterns in (
        (result.parent, [f".{name}.partial-*", f".{name}.*.partial-*", f".{name}.old-*"]),
        (result, [".*.partial-*", ".collect-*"]),
    ):
        for pattern in patterns:
            for left in folder.glob(pattern):
                log.info("%s: removed, left half-written by a killed process", left)
                shutil.rmtree(left) if left.is_dir() else left.unlink()
