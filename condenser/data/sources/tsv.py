"""The user's own collection in MS MARCO's plain form.

`collection.tsv` (`id<tab>text`, or `id<tab>title<tab>text` all through), `queries.<split>.tsv`
(`id<tab>text`), `qrels.<split>.tsv` (`query_id 0 doc_id grade`, by tabs or spaces), each also as
`.gz`. No headers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from condenser.data.archives import count_unpacked_lines, open_unpacked
from condenser.data.canonical import CanonicalFiles
from condenser.data.parsing import (
    MAX_LINE_BYTES,
    are_titled,
    text_lines,
    trec_qrel,
    tsv_passages,
    tsv_query,
)
from condenser.data.sources import plain_or_packed
from condenser.nouns import PartlyJudgedTexts
from condenser.settings import HomePath


class Settings(PartlyJudgedTexts):
    """The folder of the user's files."""

    MORE_SPLITS = True

    path: HomePath  # the folder of the files

    def local_files(self) -> list[Path]:
        """The collection, and queries and judgements of the splits that it has, in the folder `path`."""
        path, splits = Path(self.path), self.splits
        tables = [f"{table}.{split}.tsv" for table in ("queries", "qrels") for split in splits]
        return [plain_or_packed(path / file) for file in ("collection.tsv", *tables)]


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the canonical files of the folder `path` into `folder`; gives the counts.

    Raises:
        ValueError: a row does not fit (with `bad_rows` "strict"), or a file holds nothing that does.
    """
    splits = settings.splits

    def file(name: str) -> Path:
        return plain_or_packed(Path(settings.path, name))

    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        collection = file("collection.tsv")
        with open_unpacked(collection) as stream:
            lines = text_lines(stream, max_line_bytes=MAX_LINE_BYTES, tally=Counter())
            parse = tsv_passages(titled=are_titled(lines))
        files.write_collection(files.rows(collection, parse), num_rows=count_unpacked_lines(collection))
        files.write_splits(
            {split: files.rows(file(f"qrels.{split}.tsv"), trec_qrel) for split in splits},
            [((split,), files.rows(file(f"queries.{split}.tsv"), tsv_query)) for split in splits],
        )
        return files.counts
