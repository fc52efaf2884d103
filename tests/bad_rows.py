"""Bad rows of a source: refused with their place, or left out, counted and listed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from configs import sources


def rejected_rows(folder: Path) -> list[dict[str, Any]]:
    """What `rejected.jsonl` of a collected data set lists."""
    return [json.loads(line) for line in (folder / "rejected.jsonl").read_text().splitlines()]


def refuse_and_skip(
    folder: Path, raw: Mapping[str, Path], settings: Mapping[str, Any], message: str
) -> tuple[dict[str, Any], list[tuple[str, int | str]]]:
    """Collect bad rows under both policies: "strict" says `message` in one line and leaves no file.

    Gives the counts of skipping them into `folder`, and file and line of each row that is left out.
    """
    strict = folder.with_name(f"{folder.name}-strict")
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        sources.collect(strict, raw, {**settings, "bad_rows": "strict"})
    assert message in str(caught.value)
    assert list(strict.iterdir()) == []
    counts = sources.collect(folder, raw, {**settings, "bad_rows": "skip"})
    listed = [(row["file"], row["line"]) for row in rejected_rows(folder)]
    assert counts["rejected"] == len(listed) > 0
    return counts, listed
