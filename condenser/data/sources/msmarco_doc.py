"""MS MARCO document ranking from its official files; without splits, texts to pre-train on.

A document is a row `id<tab>url<tab>title<tab>body`, without a header. Splits: `train` (367,013 queries),
`dev` (5,193) and `dl19` (TREC Deep Learning 2019; graded 0-3, of 200 topics 43 are judged). Unlike with
passages, grade 1 is relevant: trec.nist.gov/data/deep2019.html.
Source of the form and of the counts: microsoft.github.io/msmarco; of the experiment: Condenser, A.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import field_validator

from condenser.data.canonical import CanonicalFiles
from condenser.data.official import check_official_rows
from condenser.data.parsing import Row, preview, tab_columns, trec_qrel, tsv_query
from condenser.data.records import Passage
from condenser.nouns import PartlyJudgedTexts

DOCUMENTS = "msmarco-docs.tsv.gz"
SPLITS = {  # queries, judgements
    "train": ("msmarco-doctrain-queries.tsv.gz", "msmarco-doctrain-qrels.tsv.gz"),
    "dev": ("msmarco-docdev-queries.tsv.gz", "msmarco-docdev-qrels.tsv.gz"),
    "dl19": ("msmarco-test2019-queries.tsv.gz", "2019qrels-docs.txt"),
}
OFFICIAL_ROWS = {
    DOCUMENTS: 3_213_835,
    "msmarco-doctrain-queries.tsv.gz": 367_013,
    "msmarco-doctrain-qrels.tsv.gz": 367_013,
    "msmarco-docdev-queries.tsv.gz": 5_193,
    "msmarco-docdev-qrels.tsv.gz": 5_193,
    "msmarco-test2019-queries.tsv.gz": 200,
    "2019qrels-docs.txt": 16_258,
}


class Settings(PartlyJudgedTexts):
    """MS MARCO's documents; a split that is null is not read."""

    MORE_SPLITS = True
    OFFICIAL_ROWS: ClassVar[Mapping[str, Any]] = OFFICIAL_ROWS

    train_split: Literal["train", "dev"] | None = None  # the queries that are learnt from; null: none
    eval_split: Literal["dev", "dl19"] | None = None  # the queries that are measured on; null: none

    @field_validator("other_eval_splits")
    @classmethod
    def _splits_are_official(cls, given: dict[str, Any] | None) -> dict[str, Any] | None:
        if unknown := [split for split in given or {} if split not in SPLITS]:
            raise ValueError(f"expected splits out of {', '.join(SPLITS)}, got {preview(unknown[0])}")
        return given

    def raw_files(self) -> list[str]:
        """The documents, and what the splits need besides."""
        return [DOCUMENTS, *(name for split in self.splits for name in SPLITS[split])]


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the documents as a collection with their titles, queries and judgements; gives the counts.

    A document whose body is empty is left out, and counted as `without_text`. Where queries are read, its
    title stands for its body, so that it can be found (`title_as_text`), and only one without either is left
    out; judgements that name it are counted as `of_documents_without_text`.

    Raises:
        ValueError: a file is damaged, has a row that does not fit, or another number of rows than the
            official one (`OFFICIAL_ROWS`).
    """
    splits = settings.splits
    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        empty: set[str] = set()
        documents = _documents(raw[DOCUMENTS], files, empty, titles_as_texts=bool(splits))
        files.write_collection(documents, num_rows=settings.OFFICIAL_ROWS[DOCUMENTS])
        paths = {split: [raw[name] for name in SPLITS[split]] for split in splits}
        files.write_splits(
            {split: _judgements(qrels, files, empty) for split, (_, qrels) in paths.items()},
            [((split,), files.rows(queries, tsv_query)) for split, (queries, _) in paths.items()],
        )
        counts = files.counts
        read = [DOCUMENTS, *(path.name for of_split in paths.values() for path in of_split)]
        check_official_rows(counts["files"], read, settings.OFFICIAL_ROWS)
    return counts


def _documents(
    path: Path, files: CanonicalFiles, empty: set[str], *, titles_as_texts: bool
) -> Iterator[Row[Passage]]:
    """The documents with a text; the ids of the others are added to `empty`."""
    for row in files.rows(path, _document):
        if not isinstance(row.record, Passage) or row.record.text.strip():
            yield row
        elif titles_as_texts and row.record.title:
            files.tally(path)["title_as_text"] += 1
            yield Row(row.file, row.line, Passage(row.record.doc_id, "", row.record.title))
        else:
            empty.add(row.record.doc_id)
            files.tally(path).update(rows=1, without_text=1)


def _judgements(path: Path, files: CanonicalFiles, empty: set[str]) -> Iterator[Row[Any]]:
    for row in files.rows(path, trec_qrel):
        if getattr(row.record, "doc_id", None) in empty:
            files.tally(path).update(rows=1, of_documents_without_text=1)
        else:
            yield row


def _document(line: bytes) -> Passage:
    doc_id, _, title, body = tab_columns(line, names=("id", "url", "title", "body"))
    return Passage(doc_id, title.strip(), body)
