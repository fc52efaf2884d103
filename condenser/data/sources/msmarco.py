"""MS MARCO passage ranking from its official files, with RocketQA's titles where wanted.

Splits: `train` (queries.train.tsv, qrels.train.tsv), `dev` (the 6,980 queries of dev.small) and
`dl19` (TREC Deep Learning 2019; graded 0-3, of 200 topics 43 are judged). Of the 808,731 train queries
502,939 are judged; the others, of which nobody found an answer in the passages that were shown, can be a set
of queries without judgements. Source of the counts: microsoft.github.io/msmarco and the files' owners.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import field_validator, model_validator

from condenser.data.archives import extract_tar_members, tar_members
from condenser.data.canonical import CanonicalFiles
from condenser.data.official import check_official_rows
from condenser.data.parsing import (
    MAX_LINE_BYTES,
    BadRow,
    Row,
    preview,
    tab_columns,
    trec_qrel,
    tsv_query,
)
from condenser.data.records import Passage, Qrel, Query
from condenser.data.triples import OFFICIAL_ROWS as NUM_TRIPLES
from condenser.data.triples import make_triple_examples
from condenser.files import write_json
from condenser.nouns import JudgedTexts
from condenser.settings import Name

ARCHIVE = "collectionandqueries.tar.gz"
TRIPLES = "qidpidtriples.train.full.2.tsv.gz"
TITLED = "marco.tar.gz"
DL19_QUERIES, DL19_QRELS = "msmarco-test2019-queries.tsv.gz", "2019qrels-pass.txt"

SPLITS = {
    "train": ("queries.train.tsv", "qrels.train.tsv"),
    "dev": ("queries.dev.small.tsv", "qrels.dev.small.tsv"),
    "dl19": (DL19_QUERIES, DL19_QRELS),
}

OFFICIAL_ROWS = {
    "collection.tsv": 8_841_823,
    "para.txt": 8_841_823,
    "queries.train.tsv": 808_731,
    "qrels.train.tsv": 532_761,
    "queries.dev.small.tsv": 6_980,
    "qrels.dev.small.tsv": 7_437,
    DL19_QUERIES: 200,
    DL19_QRELS: 9_260,
}

_CANONICAL_NUMBER = re.compile(r"0|[1-9][0-9]{0,7}")  # "007" is another id than "7"


Split = Literal["train", "dev", "dl19"]


class Settings(JudgedTexts):
    """MS MARCO; `triples` names the system whose negatives the official triples give.

    `unjudged` is the name of the set of the official train queries without a judgement.
    """

    MORE_SPLITS = True
    OFFICIAL_ROWS: ClassVar[Mapping[str, Any]] = OFFICIAL_ROWS

    AFTER_COLLECTING = ("triples", "unjudged")
    # TREC DL 2019: binary measures count a passage from this grade on
    LEAST_GRADES: ClassVar[dict[str, int]] = {"dl19": 2}

    train_split: Split = "train"  # the queries that are learnt from
    eval_split: Split = "dev"  # the queries that are measured on
    titles: Literal["rocketqa", "none"] = "rocketqa"  # RocketQA's titles of the passages, or none
    # the system whose negatives the official triples give; null: it makes its own
    triples: Name | None = None
    unjudged: Name | None = None  # the name of the set of official train queries without a judgement

    @field_validator("other_eval_splits")
    @classmethod
    def _splits_are_official(cls, given: dict[str, Any] | None) -> dict[str, Any] | None:
        if unknown := [split for split in given or {} if split not in SPLITS]:
            raise ValueError(f"expected splits out of {', '.join(SPLITS)}, got {preview(unknown[0])}")
        return given

    @model_validator(mode="after")
    def _unjudged_is_a_new_name(self) -> Settings:
        if self.unjudged in (*SPLITS, *(self.queries or ())):
            raise ValueError(f"unjudged: {self.unjudged!r} names a split or queries already: name another")
        return self

    def raw_files(self) -> list[str]:
        """The official archive, and what titles and splits need besides."""
        return [
            ARCHIVE,
            *([TITLED] if self.titles == "rocketqa" else []),
            *([DL19_QUERIES, DL19_QRELS] if "dl19" in self.splits else []),
        ]

    def example_files(self, system: str) -> list[str]:
        """The official triples, for the system whose negatives they give (coC §3.4: BM25)."""
        return [TRIPLES] if self.triples == system else []

    def unjudged_files(self) -> list[str]:
        """The official archive, where `unjudged` names the train queries without a judgement."""
        return [ARCHIVE] if self.unjudged else []


def make_examples(raw: Mapping[str, Path], *files: Path, **choices: Any) -> dict[str, int]:
    """Write training examples from the official triples (`make_triple_examples`); gives the counts."""
    return make_triple_examples(raw[TRIPLES], *files, **choices, official_rows=NUM_TRIPLES)


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the canonical files into `folder`; gives the counts.

    With `titles` "rocketqa" passages and titles come from RocketQA's archive (Tevatron), row for row
    the official ids; a passage without a title there has an empty one, counted.

    Raises:
        ValueError: a file is damaged, has a row that does not fit, or another number of rows than the
            official one (`OFFICIAL_ROWS`).
    """
    splits = settings.splits
    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        counts: dict[str, Any] = {}
        if settings.titles == "rocketqa":
            member, collection = "para.txt", _titled_rows(raw[TITLED], files, counts)
        else:
            member, collection = "collection.tsv", _plain_rows(raw[ARCHIVE], files)
        files.write_collection(collection, num_rows=settings.OFFICIAL_ROWS[member])
        names = [name for split in splits for name in SPLITS[split]]
        in_archive = [name for name in names if name not in (DL19_QUERIES, DL19_QRELS)]
        paths = extract_tar_members(raw[ARCHIVE], in_archive, files.scratch)
        paths |= {name: raw[name] for name in names if name not in paths}
        files.write_splits(
            {split: files.rows(paths[SPLITS[split][1]], trec_qrel) for split in splits},
            [((split,), files.rows(paths[SPLITS[split][0]], tsv_query)) for split in splits],
        )
        counts |= files.counts
        check_official_rows(counts["files"], [member, *names], settings.OFFICIAL_ROWS)
    return counts


def collect_unjudged(
    folder: Path,
    raw: Mapping[str, Path],
    *,
    name: str,
    bad_rows: str,
    official_rows: Mapping[str, int] = OFFICIAL_ROWS,
) -> dict[str, Any]:
    """Write the train queries without a judgement into `folder`, as `condenser.data.unjudged` does.

    Raises:
        ValueError: as `collect`.
    """
    with CanonicalFiles(folder, bad_rows=bad_rows) as files:
        paths = extract_tar_members(raw[ARCHIVE], SPLITS["train"], files.scratch)
        of_queries, of_qrels = SPLITS["train"]
        judged = set[str]()
        for row in files.rows(paths[of_qrels], trec_qrel):
            files.tally(row.file)["rows"] += 1
            if isinstance(row.record, Qrel):
                judged.add(row.record.query_id)

        def unjudged() -> Iterator[Row[Query]]:
            for row in files.rows(paths[of_queries], tsv_query):
                if isinstance(row.record, Query) and row.record.query_id in judged:
                    files.tally(row.file).update(rows=1, judged=1)
                else:
                    yield row

        files.write_unjudged(name, unjudged())
        counts = {key: files.counts[key] for key in ("files", "rejected", "queries")}
        check_official_rows(counts["files"], SPLITS["train"], official_rows)
    write_json(folder / "counts.json", counts)
    return counts


def _plain_rows(archive: Path, files: CanonicalFiles) -> Iterator[Row[Passage]]:
    """The passages of collection.tsv, without titles."""
    for name, stream in tar_members(archive, ["collection.tsv"]):
        yield from files.stream_rows(f"{archive}/{name}", stream, _untitled)


def _untitled(line: bytes) -> Passage:
    doc_id, text = tab_columns(line, names=("id", "text"))
    return Passage(doc_id, "", text)


def _titled_rows(archive: Path, files: CanonicalFiles, counts: dict[str, Any]) -> Iterator[Row[Passage]]:
    """The passages of para.txt, each with its title from para.title.txt."""
    name = "para.title.txt"
    path = extract_tar_members(archive, [name], files.scratch)[name]
    with _Titles(path, files) as titles:
        for member, stream in tar_members(archive, ["para.txt"]):
            for row in files.stream_rows(f"{archive}/{member}", stream, _untitled):
                if isinstance(row.record, Passage):
                    passage = row.record
                    titled = Passage(passage.doc_id, titles.of(passage.doc_id), passage.text)
                    row = Row(row.file, row.line, titled)
                yield row
        titles.reject_unused()
        counts["passages_without_title"] = titles.num_missing


class _Titles:
    """The titles of para.title.txt by id: eight bytes an id in memory, the texts stay in the file."""

    def __init__(self, path: Path, files: CanonicalFiles) -> None:
        self._path, self._files = path, files
        self._begins = np.full(1 << 20, -1, dtype=np.int64)  # where the line of each id begins
        self.num_missing = 0

    def __enter__(self) -> _Titles:
        for number, begin, line in self._lines():
            self._files.tally(self._path)["rows"] += 1
            try:
                self._note(line, begin)
            except BadRow as unfit:
                self._files.reject("titles", str(self._path), number, unfit)
        self._used = np.zeros(len(self._begins), dtype=bool)
        self._file = self._path.open("rb")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Number, place and content of each line."""
        begin, number = 0, 0
        with self._path.open("rb") as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                number += 1
                yield number, begin, line
                begin += len(line)

    def _note(self, line: bytes, begin: int) -> None:
        number, _ = _title(line)
        if number >= len(self._begins):
            more = max(number + 1 - len(self._begins), len(self._begins))
            self._begins = np.concatenate([self._begins, np.full(more, -1, dtype=np.int64)])
        if self._begins[number] >= 0:
            raise BadRow("one title a passage", f"a second for {number}", "Fetch the archive again.")
        self._begins[number] = begin

    def of(self, doc_id: str) -> str:
        """The title of a passage; empty, and counted, where there is none."""
        number = int(doc_id) if _is_number(doc_id) else -1
        title = ""
        if 0 <= number < len(self._begins) and self._begins[number] >= 0:
            self._used[number] = True
            self._file.seek(self._begins[number])
            _, title = _title(self._file.readline(MAX_LINE_BYTES))
        self.num_missing += not title
        return title

    def reject_unused(self) -> None:
        """Count the titles that passages took, and reject those that none did."""
        tally = self._files.tally(self._path)
        tally["kept"] = int(self._used.sum())
        if tally["kept"] + tally["rejected"] == tally["rows"]:
            return
        for number, begin, line in self._lines():
            try:
                doc_id, _ = _title(line)
            except BadRow:
                continue  # rejected before
            if self._begins[doc_id] == begin and not self._used[doc_id]:
                unfit = BadRow("the id of a passage of para.txt", str(doc_id), "Fetch the archive again.")
                self._files.reject("titles", str(self._path), number, unfit)


def _title(line: bytes) -> tuple[int, str]:
    doc_id, title = tab_columns(line.rstrip(b"\r\n"), names=("id", "title"))
    if not _is_number(doc_id):
        raise BadRow("a passage number", preview(doc_id), "Fetch the archive again.")
    return int(doc_id), title.strip()


def _is_number(doc_id: str) -> bool:
    return _CANONICAL_NUMBER.fullmatch(doc_id) is not None
