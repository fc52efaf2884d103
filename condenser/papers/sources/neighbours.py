"""Neighbouring sentences of running text, such as BookCorpus: a sentence, and the one that follows it.

The parts are those of `condenser.data.sources.hub_text`, with a sentence a row; it and the next are a pair.
Source: Kiros et al. 2015 (skip-thoughts), whose corpus it is; Logeswaran and Lee 2018 (quick-thoughts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from condenser.data.canonical import CanonicalFiles
from condenser.data.parsing import Row
from condenser.data.records import Item, Passage
from condenser.data.sources.hub_text import Part, files_of, part_passages
from condenser.nouns import Sentences


class Settings(Sentences):
    """Parts with a sentence a row; nothing is evaluated on them, encoders are for another data set."""

    NEEDS_NETWORK = True
    TASK = "neighbours"

    parts: Annotated[list[Part], Field(min_length=1)]
    # stop at a row that cannot be used, or leave it out and count it
    bad_rows: Literal["strict", "skip"] = "skip"
    train_split: Literal["train"] = "train"  # the sentences that are learnt from
    eval_split: None = None  # nothing is measured on it

    def local_files(self) -> list[Path]:
        return files_of(self.parts)


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the pairs of all parts into `folder`; gives the counts, with the commits of parts on the hub.

    A row that is no sentence has no neighbours.

    Raises:
        ValueError: a part cannot be opened, a row does not fit (with `bad_rows` "strict"), or none is left.
    """
    short, commits = Counter[str](), dict[str, str]()

    def pairs() -> Iterator[Row[Item]]:
        number = 0  # ids count the pairs, as lines of several files are alike
        for part in settings.parts:
            before: str | None = None
            for row in part_passages(part, files, short, commits):
                sentence = row.record.text if isinstance(row.record, Passage) else None
                if not isinstance(row.record, Passage):
                    yield Row(row.file, row.line, row.record)
                elif before is not None:
                    number += 1
                    yield Row(row.file, number, Item("", (before, row.record.text)))
                before = sentence

    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        files.write_items({settings.train_split: pairs()})
        return files.counts | ({"revisions": commits} if commits else {})
