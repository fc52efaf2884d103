"""The STS benchmark: pairs of English sentences with a score of their similarity, from 0 to 5.

Without `path` it is the file of sentence-transformers: a tab-separated table with a header, of whose columns
`split` (train, dev, test), `score`, `sentence1` and `sentence2` are read; quotes have no meaning. With `path`
it is a folder of CSV files in the form of stsb-multi-mt, `stsb-en-<split>.csv`: sentence1, sentence2, score,
without a header. Source: Cer et al. 2017, SemEval-2017 task 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from condenser.data.archives import open_gzip
from condenser.data.canonical import CanonicalFiles
from condenser.data.official import check_official_rows
from condenser.data.parsing import BadRow, Row, csv_cells, headed_rows, preview, tab_cells
from condenser.data.records import Item
from condenser.data.sources import plain_or_packed
from condenser.nouns import Sentences
from condenser.settings import HomePath

FILE = "stsbenchmark.tsv.gz"
OFFICIAL_ROWS = {"train": 5_749, "dev": 1_500, "test": 1_379}
HIGHEST_SCORE = 5.0

Split = Literal["train", "dev", "test"]


class Settings(Sentences):
    """The official file, or the folder of the user's files."""

    OFFICIAL_ROWS: ClassVar[Mapping[str, Any]] = OFFICIAL_ROWS

    TASK = "similarity"

    path: HomePath | None = None  # the folder of the files; null: the official ones are downloaded
    train_split: Split = "train"  # the sentences that are learnt from
    eval_split: Split | None = "test"  # the sentences that are measured on; null: none
    measures: list[str] | None = Field(default_factory=lambda: ["spearman"])  # replace `metrics.measures`

    def raw_files(self) -> list[str]:
        """The official file, unless the user has others."""
        return [] if self.path else [FILE]

    def local_files(self) -> list[Path]:
        """The files of the splits in the folder `path`."""
        if not self.path:
            return []
        return [_csv_file(self.path, split) for split in self.splits]


def _csv_file(folder: str, split: str) -> Path:
    return plain_or_packed(Path(folder, f"stsb-en-{split}.csv"))


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the pairs of the splits into `folder`; gives the counts.

    `official` among them is the name that the test split of the official file has in tables.

    Raises:
        ValueError: a row does not fit (with `bad_rows` "strict"), a split is empty, or the official file has
            another number of rows than the official one (`OFFICIAL_ROWS`).
    """
    splits = settings.splits
    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        if settings.path is not None:
            rows = {split: _csv_file(settings.path, split) for split in splits}
            files.write_items({split: files.rows(file, _csv_pair) for split, file in rows.items()})
            return files.counts
        of_split: dict[str, list[Row[Item]]] = {split: [] for split in settings.OFFICIAL_ROWS}
        for split, row in _official_rows(raw[FILE], files, settings.OFFICIAL_ROWS):
            of_split[split].append(row)
        found = {f"{FILE}, {split}": {"rows": len(rows)} for split, rows in of_split.items()}
        check_official_rows(found, found, {f"{FILE}, {s}": num for s, num in settings.OFFICIAL_ROWS.items()})
        for split in settings.OFFICIAL_ROWS.keys() - set(splits):
            files.tally(raw[FILE]).update(rows=len(of_split[split]), of_other_splits=len(of_split[split]))
        files.write_items({split: of_split[split] for split in splits})
        return files.counts | ({"official": "STS benchmark"} if settings.eval_split == "test" else {})


def _official_rows(
    path: Path, files: CanonicalFiles, splits: Iterable[str]
) -> Iterator[tuple[str, Row[Item]]]:
    """The rows with their splits; one that cannot be read counts as the first split's."""
    known = tuple(splits)

    def parse(cells: Mapping[str, str]) -> tuple[str, Item]:
        if cells["split"] not in known:
            raise BadRow(f"a split ({', '.join(known)})", preview(cells["split"]), "Fetch the file again.")
        return cells["split"], _pair(cells["sentence1"], cells["sentence2"], cells["score"])

    needed = ("split", "score", "sentence1", "sentence2")
    with open_gzip(path) as stream:
        for row in headed_rows(str(path), files.lines(path, stream), tab_cells, parse, needed=needed):
            split, record = (known[0], row.record) if isinstance(row.record, BadRow) else row.record
            yield split, Row(row.file, row.line, record)


def _csv_pair(line: bytes) -> Item:
    cells = csv_cells(line)
    if len(cells) != 3:
        raise BadRow(
            "3 cells (sentence1, sentence2, score)",
            f"{len(cells)} in {preview(line.decode(errors='replace'))}",
            "Put sentences with commas in quotes.",
        )
    return _pair(*cells)


def _pair(first: str, second: str, score: str) -> Item:
    try:
        number = float(score)
    except ValueError:
        number = math.nan
    if not 0 <= number <= HIGHEST_SCORE:
        raise BadRow(f"a score from 0 to {HIGHEST_SCORE:g}", preview(score), "Is it the column of the score?")
    return Item("", (first, second), number)
