"""Finished blocks of a long job: files that a later start takes as they are, if they still are."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from condenser.files import read_json, sha256_file, write_json

log = logging.getLogger(__name__)


def finish_block(mark: Path, files: Sequence[Path]) -> None:
    """Say in the file `mark` that these files are whole, by their SHA-256."""
    write_json(mark, {file.name: sha256_file(file) for file in files})


def is_finished(mark: Path, files: Sequence[Path]) -> bool:
    """Whether the files are what they were when they were finished; damage is named in the log."""
    if not mark.exists():
        return False
    try:
        is_whole = read_json(mark) == {file.name: sha256_file(file) for file in files}
    except (ValueError, FileNotFoundError):
        is_whole = False
    if not is_whole:
        log.warning("%s: its files are not as they were written: making them again", mark)
    return is_whole
