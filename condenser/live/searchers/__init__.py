"""How the systems of a kind answer a new query.

The systems of the kind NAME (`condenser.systems.NAME`) are asked through the module
`condenser.live.searchers.NAME`, found by its name. A kind without one cannot be asked. The module holds:

- `Searcher(files, settings, *, doc_ids)`: opens these files; `settings` are the blocks `system`, `recipe`,
  `encode` and `compute` of its jobs, `doc_ids` the ids in row order. It raises ValueError where a file is
  damaged or does not belong to the others. Its `search(query, depth)` gives a `Found`.

A kind that ranks the hits of other systems has these instead:

- `STEP`: what its own work is called where times are shown;
- `ranker(files, settings, texts: Texts) -> Ranker`: opens its files; `settings` has `depth` too, the hits of
  its runs. With an `initial` its files have the `tokenizer` of the tokens, too. A `Ranker` ranks as the
  kind's rule would, by the same function.

What must be made first says `condenser.nouns.System.files_to_answer`. To the files of a system with an
`initial` its encoder's weights are added as `model`, and where a length of its recipe is `auto`, the lengths
of the texts as `lengths`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from condenser.data.records import ScoredDoc
from condenser.manifest import Record, read_manifest

FOLDER = "live/searchers"
ORIGIN = ".from.json"
"""Ends the name of the file that says what the list of what can be asked was written from."""


@dataclass(frozen=True)
class Found:
    """What a searcher found.

    Attributes:
        hits: the passage's row in the collection, or its id, and its score, best first.
        milliseconds: time of each step, by its name.
        notes: sentences on what was done otherwise than asked.
    """

    hits: list[tuple[int, float]] | list[tuple[str, float]]
    milliseconds: dict[str, float]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ranker:
    """A system that ranks the hits of others.

    Attributes:
        rank: from a query, and its hits in the run of each part (one part has some), to its ranking.
        depth: the first hits of each part that it reads.
        notes: as those of `Found`, of every answer.
    """

    rank: Callable[[str, list[list[ScoredDoc]]], Iterable[ScoredDoc]]
    depth: int
    notes: list[str] = field(default_factory=list)


QUERY_ID = "query"


def sound_manifest(path: Path) -> Record:
    """The manifest at `path`.

    Raises:
        ValueError: it is missing or damaged; the message names it.
    """
    try:
        return read_manifest(path)
    except ValueError as error:
        raise ValueError(f"{path}: expected the manifest of a finished result; it {error}.") from error
