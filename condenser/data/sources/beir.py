"""The user's own collection in BEIR's layout.

`corpus.jsonl` (`_id`, `text`, optional `title`), `queries.jsonl` (`_id`, `text`, optional
`answers`), `qrels/<split>.tsv` (header `query-id corpus-id score`, tab-separated; without a header, TREC's
four columns `query_id 0 doc_id grade`), each also as `.gz`. Other fields are ignored. Source of the layout:
Thakur et al. 2021, BEIR.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from condenser.data.archives import count_unpacked_lines
from condenser.data.canonical import CanonicalFiles
from condenser.data.parsing import (
    json_object,
    json_query,
    tab_columns,
    text_field,
    trec_qrel,
    whole_grade,
)
from condenser.data.records import Passage, Qrel
from condenser.data.sources import plain_or_packed
from condenser.nouns import PartlyJudgedTexts
from condenser.settings import HomePath

_HEADER = ("query-id", "corpus-id", "score")


class Settings(PartlyJudgedTexts):
    """The folder of the user's files."""

    MORE_SPLITS = True

    path: HomePath  # the folder of the files

    def local_files(self) -> list[Path]:
        """The corpus, the queries and the judgements of the splits that it has, in the folder `path`."""
        path, splits = Path(self.path), self.splits
        files = ["corpus.jsonl", *(["queries.jsonl"] if splits else []), *map(_qrels_of, splits)]
        return [plain_or_packed(path / file) for file in files]


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the canonical files of the BEIR folder `path` into `folder`; gives the counts.

    Raises:
        ValueError: a row does not fit (with `bad_rows` "strict"), or a file holds nothing that does.
    """
    splits = settings.splits
    path = Path(settings.path)
    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        corpus = plain_or_packed(path / "corpus.jsonl")
        files.write_collection(files.rows(corpus, _passage), num_rows=count_unpacked_lines(corpus))
        qrels = {
            split: files.rows(
                plain_or_packed(path / _qrels_of(split)), _qrel, header=_HEADER, without_header=trec_qrel
            )
            for split in splits
        }
        queries = plain_or_packed(path / "queries.jsonl")
        files.write_splits(qrels, [(splits, files.rows(queries, json_query))] if splits else [])
        return files.counts


def _qrels_of(split: str) -> str:
    return f"qrels/{split}.tsv"


def _passage(line: bytes) -> Passage:
    record = json_object(line)
    return Passage(
        text_field(record, "_id", absent=None),
        "" if record.get("title") is None else text_field(record, "title", absent=""),
        text_field(record, "text", absent=None),
    )


def _qrel(line: bytes) -> Qrel:
    query_id, doc_id, grade = tab_columns(line, names=_HEADER)
    return Qrel(query_id, doc_id, whole_grade(grade))
