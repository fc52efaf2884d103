"""The user's own collection in BEIR's layout.

`corpus.jsonl` (`_id`, `text`, optional `title`), `queries.jsonl` (`_id`, `text`, optional `answers`; or
`queries.<split>.jsonl`, those of one split), `qrels/<split>.tsv` (header `query-id corpus-id score`,
tab-separated; without a header, TREC's four columns `query_id 0 doc_id grade`), each also as `.gz`. Other
fields are ignored. Source of the layout: Thakur et al. 2021, BEIR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.data.archives import count_unpacked_lines
from condenser.data.canonical import CanonicalFiles
from condenser.data.judged import JOURNAL, SPLIT, described_pool
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
        splits = self.splits
        queries = [file for file, _ in _queries_of(Path(self.path), splits)]
        files = [Path(self.path) / file for file in ("corpus.jsonl", *map(_qrels_of, splits))]
        journal = [Path(self.path) / JOURNAL] if SPLIT in splits else []
        return [*map(plain_or_packed, files), *queries, *filter(Path.is_file, journal)]


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
        queries = [(of_file, files.rows(file, json_query)) for file, of_file in _queries_of(path, splits)]
        files.write_splits(qrels, queries)
        journal = path / JOURNAL
        is_pooled = SPLIT in splits and journal.is_file()
        return {**files.counts, **({"pooled": {SPLIT: described_pool(journal)}} if is_pooled else {})}


def _queries_of(path: Path, splits: Sequence[str]) -> list[tuple[Path, list[str]]]:
    """The files of queries with their splits: `queries.SPLIT.jsonl` if it is there, else `queries.jsonl`."""
    own = {split: plain_or_packed(path / f"queries.{split}.jsonl") for split in splits}
    shared = [split for split in splits if not own[split].is_file()]
    files = [(file, [split]) for split, file in own.items() if split not in shared]
    return [*files, *([(plain_or_packed(path / "queries.jsonl"), shared)] if shared else [])]


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
