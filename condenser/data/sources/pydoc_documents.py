"""Whole docstrings: texts to pre-train on, longer than the passages of `pydoc`.

A document is the body of a docstring, uncut. Its summary is left out, because summaries are queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from condenser.data.canonical import CanonicalFiles
from condenser.data.records import Passage
from condenser.data.sources.pydoc import Docstring, docstrings_of, row_of, versions_of
from condenser.nouns import Texts
from condenser.settings import Count


class Settings(Texts):
    """Texts without queries, for pre-training."""

    packages: Annotated[list[str], Field(min_length=1)]
    least_words: Count

    def installed(self) -> list[str]:
        """As pydoc's: the texts are those of installed packages."""
        return list(self.packages)


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the bodies of the docstrings of `packages` as a collection; gives the counts.

    Bodies of fewer than `least_words` words are left out; of equal bodies the first is taken.

    Raises:
        ValueError: a package is not installed, or no docstring remains.
    """
    left_out: Counter[str] = Counter()
    docstrings = docstrings_of(settings.packages, left_out)
    documents = choose_documents(docstrings, left_out, least_words=settings.least_words)
    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        rows = (row_of(document, Passage(document.place, "", document.body)) for document in documents)
        files.write_collection(rows, num_rows=len(documents))
        counts = files.counts
    del counts["files"]  # one entry for each of some thousand source files says nothing
    words = sum(len(document.body.split()) for document in documents)
    return counts | {
        "docstrings": len(docstrings),
        "left_out": dict(sorted(left_out.items())),
        "mean_document_words": round(words / len(documents), 1),
        "packages": versions_of(settings.packages),
    }


def choose_documents(
    docstrings: Sequence[Docstring], left_out: Counter[str], *, least_words: int
) -> list[Docstring]:
    """The docstrings whose bodies make documents, no body twice.

    `left_out` counts, one reason each: `body_short`, `equal_body`.
    """
    documents: list[Docstring] = []
    bodies = set[str]()
    for docstring in docstrings:
        if len(docstring.body.split()) < least_words:
            left_out["body_short"] += 1
        elif docstring.body.lower() in bodies:
            left_out["equal_body"] += 1
        else:
            bodies.add(docstring.body.lower())
            documents.append(docstring)
    return documents
