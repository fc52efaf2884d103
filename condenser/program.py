"""What every program of workflow_scripts shares: one-line errors, logs, specs and manifests."""

from __future__ import annotations

import datetime
import logging
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from condenser.files import canonical_json, sha256_file, sha256_text, write_json

log = logging.getLogger("condenser")


def run(main: Callable[[Sequence[str] | None], None]) -> None:
    """Run a program's `main`: a person's mistake is one line on standard error and status 1.

    A fault of ours also leaves its traceback on standard error, above the line that says so.
    SIGTERM ends the program with status 143 after its `finally` blocks have run.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for noisy in ("httpx", "transformers", "faiss", "faiss.loader"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
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
        print(f"error: {error.strerror or error}: {error.filename or 'a file'}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        traceback.print_exc()
        print(f"internal error ({type(error).__name__}): {error}", file=sys.stderr)
        sys.exit(2)


class Manifest:
    """The record kept beside a result: what made it, from what, when and where.

    Fields: spec (configuration, code digests, versions, seed, lineage), inputs and outputs with
    their SHA-256, counts, wall time in seconds, device, and the SHA-256 of all that. Only wall
    time, device and date differ between two runs of the same spec.
    """

    def __init__(self, path: str | Path, spec: dict[str, Any], *, inputs: Sequence[str | Path]) -> None:
        self._path, self._spec = Path(path), spec
        self._inputs = [Path(file) for file in inputs]
        self._began = time.monotonic()

    def write(self, *, outputs: Sequence[str | Path], counts: dict[str, Any], device: str = "cpu") -> None:
        """Digest the files and write the manifest; call it last, when all outputs are in place."""
        record = {
            "spec": self._spec,
            "inputs": self._digests(self._inputs),
            "outputs": self._digests([Path(file) for file in outputs]),
            "counts": counts,
            "wall_time_s": round(time.monotonic() - self._began, 3),
            "device": device,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        write_json(self._path, {**record, "sha256": sha256_text(canonical_json(record))})

    def _digests(self, paths: Sequence[Path]) -> dict[str, str]:
        """SHA-256 by path relative to the manifest's folder, so that a moved folder still verifies."""
        digests = {}
        for path in paths:
            files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
            for file in files:
                digests[Path(os.path.relpath(file, self._path.parent)).as_posix()] = sha256_file(file)
        return digests
