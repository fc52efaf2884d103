"""A disk without room, as the system's limit on the size of a file plays it."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def small_files(num_bytes: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: not for longer than a write, or pytest's own log is cut."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
