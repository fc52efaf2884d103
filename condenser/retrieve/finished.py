"""Finished blocks of a long job: files that a resumed job reuses if they are undamaged."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from condenser.files import read_json, sha256_file, write_json

log = logging.getLogger(__name__)


def finish_block(mark: Path, files: Sequence[Path]) -> None:
    """Record in the file `mark` that these files are complete, with their SHA-256."""
    write_json(mark, {file.name: sha256_file(file) for file in files})


def is_finished(mark: Path, files: Sequence[Path]) -> bool:
    """Whether the files are complete and have the SHA-256 of their mark; logs it if they are damaged."""
    if not mark.exists():
        return False
    try:
        is_undamaged = read_json(mark) == {file.name: sha256_file(file) for file in files}
    except (ValueError, FileNotFoundError):
        is_undamaged = False
    if not is_undamaged:
        log.warning("%s: the files of this block are damaged; computing them again", mark)
    return is_undamaged
