"""MS MARCO passage ranking from its official files, with RocketQA's titles where wanted.

Splits: `train` (queries.train.tsv, qrels.train.tsv), `dev` (the 6,980 queries of dev.small) and
`dl19` (TREC Deep Learning 2019; graded 0-3, of 200 topics 43 are judged). Of the 808,731 train queries
502,939 are judged; the others, of which nobody found an answer in the passages that were shown, can be a set
of queries without judgements. Source of the counts: microsoft.github.io/msmarco and the files' owners.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import field_validator, model_validator

from condenser.data.archives import extract_tar_members
from condenser.data.canonical import CanonicalFiles
from condenser.data.official import check_official_rows
from condenser.data.parsing import (
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
        names = [name for split in splits for name in SPLITS[split]]
        is_titled = settings.titles == "rocketqa"
        corpus = "para.txt" if is_titled else "collection.tsv"
        in_archive = {corpus, *names} - {"para.txt", DL19_QUERIES, DL19_QRELS}
        paths = {**raw, **extract_tar_members(raw[ARCHIVE], in_archive, files.scratch)}
        if is_titled:
            paths |= extract_tar_members(raw[TITLED], [corpus, "para.title.txt"], files.scratch)
        passages = files.rows(paths[corpus], _row)
        if is_titled:
            passages = _titled(passages, paths["para.title.txt"], files, counts)
        files.write_collection(passages, num_rows=settings.OFFICIAL_ROWS[corpus])
        files.write_splits(
            {split: files.rows(paths[SPLITS[split][1]], trec_qrel) for split in splits},
            [((split,), files.rows(paths[SPLITS[split][0]], tsv_query)) for split in splits],
        )
        counts |= files.counts
        check_official_rows(counts["files"], [corpus, *names], settings.OFFICIAL_ROWS)
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


def _row(line: bytes) -> Passage:
    doc_id, text = tab_columns(line, names=("id", "text"))
    return Passage(doc_id, "", text)


def _titled(
    rows: Iterator[Row[Passage]], file: Path, files: CanonicalFiles, counts: dict[str, Any]
) -> Iterator[Row[Passage]]:
    """The passages, each with its title from a file `id<tab>title`; all titles are held, some 2 GB."""
    titles: dict[str, str] = {}

    def check(title: Passage) -> None:
        if title.doc_id in titles:
            raise BadRow("one title a passage", f"a second for {title.doc_id}", "Fetch the archive again.")

    for _, _, title in files.good_rows("titles", files.rows(file, _row), check):
        titles[title.doc_id] = title.text.strip()
    counts["passages_without_title"] = 0
    for row in rows:
        if isinstance(row.record, Passage):
            doc_id, text = row.record.doc_id, row.record.text
            files.tally(file)["kept"] += doc_id in titles
            counts["passages_without_title"] += not titles.get(doc_id)
            row = Row(row.file, row.line, Passage(doc_id, titles.pop(doc_id, ""), text))
        yield row
    for doc_id in titles:
        unfit = BadRow("the id of a passage of para.txt", preview(doc_id), "Fetch the archive again.")
        files.reject("titles", str(file), f"id {doc_id}", unfit)
