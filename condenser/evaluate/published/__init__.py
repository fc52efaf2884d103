"""Published figures as data: one TSV file a table, each with its source in a comment at its top.

Columns: `method`, by which rows are matched to our systems' labels; where the table varies them,
`train_queries` (a number or `all`); `batch_size` (passages), where the paper gives it; then measures, as
fractions where the papers print per cent. An empty cell: the paper has no figure.

A measure is written as a column of a table of MS MARCO passages: `MRR@10`, `dl19/nDCG@10`, `nq/hits@20`,
`msmarco_doc/MRR@100`. Here data sets and evaluation sets are those of `OFFICIAL`, whatever a configuration
calls them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from condenser.evaluate.columns import parse
from condenser.nouns import PartlyJudgedTexts
from condenser.settings import partly

_FOLDER = Path(__file__).resolve().parent
_NO_MEASURES = ("method", "train_queries", "batch_size")

Measured = tuple[str, str, str]  # official data set, its evaluation set, measure
Figures = dict[Measured, str]


@dataclass(frozen=True)
class Official:
    """A collection and its evaluation sets, as the papers used them.

    Attributes:
        name: in tables.
        source: the module of condenser/data/sources/ that reads it.
        num_passages: None where the source itself says whether its file is the official one.
        num_queries: judged queries of each evaluation set, the main one first.
    """

    name: str
    source: str
    num_passages: int | None
    num_queries: Mapping[str, int]


OFFICIAL = {
    # of the 200 topics of TREC DL 2019, 43 are judged; the judgements of eval are hidden
    "msmarco": Official("MS MARCO", "msmarco", 8_841_823, {"dev": 6_980, "dl19": 43, "eval": 6_837}),
    "msmarco_doc": Official("MS MARCO documents", "msmarco_doc", 3_213_835, {"dev": 5_193, "dl19": 43}),
    # DPR's passages of Wikipedia
    "nq": Official("Natural Questions", "dpr", 21_015_324, {"test": 3_610}),
    "tqa": Official("TriviaQA", "dpr", 21_015_324, {"test": 11_313}),
    "stsb": Official("STS benchmark", "stsb", None, {"test": 1_379}),
    "wikisection": Official("Wikipedia sections", "wikisection", None, {"test": 222_957}),
}


def official(source: str, *, num_passages: int, num_queries: int) -> tuple[str, str] | None:
    """The official data set and evaluation set with these numbers; None for any other."""
    for dataset, one in OFFICIAL.items():
        for split, number in one.num_queries.items():
            if (source, num_passages, num_queries) == (one.source, one.num_passages, number):
                return dataset, split
    return None


@dataclass(frozen=True)
class Row:
    """A row of a published table; figures and batch size as they are written."""

    method: str
    train_queries: str
    batch_size: str
    figures: Figures


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


def rows_of(paths: Iterable[Path]) -> list[Row]:
    """The rows of several published tables as one, a row for each method and train size.

    Where two tables have a figure for the same cell, the first one's is taken.

    Raises:
        ValueError: a file has a line of another width, or a column that is no measure of `OFFICIAL`.
    """
    rows: dict[tuple[str, str], Row] = {}
    for path in paths:
        for cells in read(path):
            size, batch_size = cells.get("train_queries", "all"), cells.get("batch_size", "")
            row = rows.setdefault((cells["method"], size), Row(cells["method"], size, batch_size, {}))
            for name, figure in cells.items():
                if name not in _NO_MEASURES and figure:
                    row.figures.setdefault(_official_column(path, name), figure)
    return list(rows.values())


def _official_column(path: Path, name: str) -> Measured:
    datasets = {}
    for dataset, official_set in OFFICIAL.items():
        main, *others = official_set.num_queries
        datasets[dataset] = partly(PartlyJudgedTexts, {"eval_split": main, "other_eval_splits": others})
    try:
        parsed = parse(name, dataset="msmarco", datasets=datasets)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    assert parsed is not None and parsed[1] is not None
    return parsed[0], parsed[1], parsed[2]
