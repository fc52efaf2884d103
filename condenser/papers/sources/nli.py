"""SNLI and MultiNLI: pairs of sentences of which the first implies or contradicts the second, or neither.

The file is that of sentence-transformers: a tab-separated table with a header, of whose columns `split`,
`sentence1`, `sentence2` and `label` are read; quotes have no meaning. Source: Bowman et al. 2015, Williams et
al. 2018; sentence encoders are trained on both by Reimers and Gurevych 2019, §3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from condenser.data.archives import open_gzip
from condenser.data.canonical import CanonicalFiles
from condenser.data.parsing import BadRow, Row, headed_rows, preview, tab_cells
from condenser.data.records import Item
from condenser.nouns import Sentences

FILE = "AllNLI.tsv.gz"
LABELS = ("contradiction", "entailment", "neutral")


class Settings(Sentences):
    """The official file; nothing is evaluated on it: encoders are then trained on another data set."""

    TASK = "inference"

    train_split: Literal["train"] = "train"  # the sentences that are learnt from
    eval_split: None = None  # nothing is measured on it

    def raw_files(self) -> list[str]:
        """The official file."""
        return [FILE]


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the pairs of the train split into `folder`, with the numbers of `LABELS`; gives the counts.

    Raises:
        ValueError: a row does not fit (with `bad_rows` "strict"), or the split is empty.
    """
    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        files.write_items({settings.train_split: _rows_of(raw[FILE], files, settings.train_split)})
        return files.counts


def _rows_of(path: Path, files: CanonicalFiles, split: str) -> Iterator[Row[Item]]:
    with open_gzip(path) as stream:
        needed = ("split", "sentence1", "sentence2", "label")
        for row in headed_rows(str(path), files.lines(path, stream), tab_cells, _pair, needed=needed):
            if isinstance(row.record, BadRow):
                yield Row(row.file, row.line, row.record)
            elif row.record[0] != split:
                files.tally(path).update(rows=1, of_other_splits=1)
            else:
                yield Row(row.file, row.line, row.record[1])


def _pair(cells: Mapping[str, str]) -> tuple[str, Item]:
    if cells["label"] not in LABELS:
        raise BadRow(f"a label ({', '.join(LABELS)})", preview(cells["label"]), "Remove the row.")
    label = float(LABELS.index(cells["label"]))
    return cells["split"], Item("", (cells["sentence1"], cells["sentence2"]), label)
