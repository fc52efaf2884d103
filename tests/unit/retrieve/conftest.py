from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch


@pytest.fixture(autouse=True)
def no_lasting_settings() -> Iterator[None]:
    """Threads and determinism as they were before a test that sets a device up."""
    threads = torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Notes something of each call of a function from now on; one call is interrupted, if asked for."""

    def note_calls(
        module: ModuleType, name: str, note: Callable[..., Any], *, breaks_at: int | None = None
    ) -> list[Any]:
        real, notes = getattr(module, name), list[Any]()

        def noting(*arguments: Any, **named: Any) -> Any:
            notes.append(note(*arguments, **named))
            if len(notes) == breaks_at:
                raise KeyboardInterrupt
            return real(*arguments, **named)

        monkeypatch.setattr(module, name, noting)
        return notes

    return note_calls
