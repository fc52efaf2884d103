"""Published figures as data: one TSV file a table, each with its source in a comment at its top.

Columns: `method`, by which rows are matched to our systems' labels; `batch_size` (passages); then the
measures, as fractions where the papers print per cent. An empty cell: the paper has no figure. With a
column `train_queries` a row belongs to our rows of that train size (`all`: the full train split).
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).resolve().parent

OFFICIAL_PASSAGES = 8_841_823
OFFICIAL_DEV_QUERIES = 6_980
OFFICIAL_DL19_QUERIES = 43  # judged, of 200 topics of TREC DL 2019


def names() -> list[str]:
    """The published tables, by file name."""
    return sorted(file.stem for file in _FOLDER.glob("*.tsv"))


def file(name: str) -> Path:
    """The file of a published table."""
    return _FOLDER / f"{name}.tsv"


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a published table, cells as they are written.

    Raises:
        ValueError: a line has more or fewer cells than the header.
    """
    lines = [
        (number, line.split("\t"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if line and not line.startswith("#")
    ]
    (_, header), *rows = lines
    for number, cells in rows:
        if len(cells) != len(header):
            raise ValueError(f"{path}:{number}: expected {len(header)} columns, got {len(cells)}. Use tabs.")
    return [dict(zip(header, cells, strict=True)) for _, cells in rows]
