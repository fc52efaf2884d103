"""Triplets of sentences from Wikipedia: anchor and positive of one section, the negative of another one.

All three are of one article.

Without `path` it is the archive of sentence-transformers, whose members `train.csv`, `validation.csv` and
`test.csv` are CSV files with a header; of their columns `Sentence1`, `Sentence2` and `Sentence3` (anchor,
positive, negative) are read. With `path` it is a folder with the file `triplets.tsv`, whose header has
`article`, `section`, `anchor`, `positive` and `negative`; quotes have no meaning there. It is split by
article: see `split_of_article`. Source: Ein Dor et al. 2018.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from condenser.data.archives import open_unpacked, open_zip_member
from condenser.data.canonical import CanonicalFiles
from condenser.data.official import check_official_rows
from condenser.data.parsing import Row, csv_cells, headed_rows, tab_cells
from condenser.data.randomness import stream_key
from condenser.data.records import Item
from condenser.nouns import Sentences
from condenser.settings import HomePath, Share, Whole

ARCHIVE = "wikipedia-sections-triplets.zip"
OFFICIAL_ROWS = {"train.csv": 1_779_417, "validation.csv": 220_400, "test.csv": 222_957}
TRIPLETS = "triplets.tsv"

Split = Literal["train", "validation", "test"]


class Settings(Sentences):
    """The official archive, or the folder of the user's file and how that is split."""

    OFFICIAL_ROWS: ClassVar[Mapping[str, Any]] = OFFICIAL_ROWS

    TASK = "triplets"

    path: HomePath | None = None  # the folder of the file; null: the official one is downloaded
    train_split: Split = "train"  # the triplets that are learnt from
    eval_split: Split | None = "test"  # the triplets that are measured on; null: none
    measures: list[str] | None = Field(default_factory=lambda: ["accuracy"])  # replace `metrics.measures`
    validation_share: Share  # of the file
    test_share: Share  # of the file
    split_seed: Whole  # draws the shares

    @model_validator(mode="after")
    def _something_is_left_to_train_on(self) -> Settings:
        if self.validation_share + self.test_share >= 1:
            raise ValueError("validation_share and test_share: expected less than 1 together")
        return self

    def raw_files(self) -> list[str]:
        """The official archive, unless the user has another file."""
        return [] if self.path else [ARCHIVE]

    def local_files(self) -> list[Path]:
        """The file in the folder `path`."""
        return [Path(self.path, TRIPLETS)] if self.path else []


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the triplets of the splits into `folder`; gives the counts.

    `official` among them is the name that the test split of the official archive has in tables.

    Raises:
        ValueError: a row does not fit (with `bad_rows` "strict"), a split is empty, or an official file has
            another number of rows than the official one (`OFFICIAL_ROWS`).
    """
    splits = settings.splits
    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        if settings.path is not None:
            shares = {"validation": settings.validation_share, "test": settings.test_share}
            triplets = Path(settings.path, TRIPLETS)
            of_split = _split_by_article(triplets, files, shares, seed=settings.split_seed)
            for split in of_split.keys() - set(splits):
                rows = of_split[split]
                files.tally(triplets).update(rows=len(rows), of_other_splits=len(rows))
            files.write_items({split: of_split[split] for split in splits})
            return files.counts
        files.write_items({split: _member_rows(raw[ARCHIVE], f"{split}.csv", files) for split in splits})
        members = [f"{split}.csv" for split in splits]
        check_official_rows(files.counts["files"], members, settings.OFFICIAL_ROWS)
        return files.counts | ({"official": "Wikipedia sections"} if settings.eval_split == "test" else {})


def split_of_article(article: str, shares: Mapping[str, float], *, seed: int) -> str:
    """The split of all triplets of an article: by a hash of its title and `seed`.

    Each split of `shares` gets about that share of the articles, `train` the rest. Where articles are added
    or removed, the others stay in their splits.

    >>> {split_of_article(f"article {n}", {"test": 0.5}, seed=1) for n in range(20)} == {"train", "test"}
    True
    """
    draw = stream_key(seed, f"split of {article}") / 2**63
    for split, share in shares.items():
        if draw < share:
            return split
        draw -= share
    return "train"


def _split_by_article(
    path: Path, files: CanonicalFiles, shares: Mapping[str, float], *, seed: int
) -> dict[str, list[Row[Item]]]:
    """The rows of the user's file by split; one that cannot be read counts as the train split's."""

    def parse(cells: Mapping[str, str]) -> tuple[str, Item]:
        return (
            split_of_article(cells["article"], shares, seed=seed),
            Item("", (cells["anchor"], cells["positive"], cells["negative"])),
        )

    of_split: dict[str, list[Row[Item]]] = {split: [] for split in ("train", *shares)}
    needed = ("article", "section", "anchor", "positive", "negative")
    with open_unpacked(path) as stream:
        for row in headed_rows(str(path), files.lines(path, stream), tab_cells, parse, needed=needed):
            if isinstance(row.record, tuple):
                split, item = row.record
                of_split[split].append(Row(row.file, row.line, item))
            else:
                of_split["train"].append(Row(row.file, row.line, row.record))
    return of_split


def _member_rows(path: Path, name: str, files: CanonicalFiles) -> Iterator[Row[Item]]:
    columns = ("Sentence1", "Sentence2", "Sentence3")

    def parse(cells: Mapping[str, str]) -> Item:
        return Item("", tuple(cells[column] for column in columns))

    with open_zip_member(path, name) as stream:
        yield from headed_rows(name, files.lines(name, stream), csv_cells, parse, needed=columns)
