"""Published figures: every file can be read, names its source, and holds fractions; one table by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from condenser.evaluate import measures, published


def test_the_figures_of_cocondensers_table_2_are_those_of_the_paper() -> None:
    rows = published.read(published.file("cocondenser_table2"))
    per_cent = {row["method"]: (row["batch_size"], row["MRR@10"], row["R@1000"]) for row in rows}
    assert per_cent == {
        "RocketQA, cross-batch negatives": ("8192", "0.333", ""),
        "RocketQA + hard negatives": ("4096", "0.260", ""),
        "RocketQA + denoising": ("4096", "0.364", ""),
        "RocketQA + data augmentation": ("4096", "0.370", "0.979"),
        "Condenser w/o hard negatives": ("64", "0.338", "0.961"),
        "Condenser + hard negatives": ("64", "0.366", "0.974"),
        "coCondenser w/o hard negatives": ("64", "0.357", "0.978"),
        "coCondenser + hard negatives": ("64", "0.382", "0.984"),
    }


@pytest.mark.parametrize("name", published.names())
def test_a_published_table_names_its_source_and_holds_fractions_of_methods_of_their_own(name: str) -> None:
    path = published.file(name)
    assert path.read_text(encoding="utf-8").startswith("# ")
    rows = published.read(path)
    methods = [(row["method"], row.get("train_queries")) for row in rows]
    assert methods and len(set(methods)) == len(methods)
    for row in rows:
        assert re.fullmatch(r"|all|[1-9]\d*", row.get("train_queries", ""))
        _, _, *columns = (column for column in row if column != "train_queries")
        assert row["batch_size"].isdecimal() or not row["batch_size"]
        for column in columns:
            assert measures.parse(column).name == column
            assert not row[column] or 0 < float(row[column]) < 1


def test_a_line_of_another_width_is_named(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("# source\nmethod\tbatch_size\tMRR@10\n\nA\t8\t0.5\nB\t8\n")
    with pytest.raises(ValueError, match=r"table\.tsv:5: expected 3 columns, got 2\. Use tabs"):
        published.read(path)


def test_comments_and_blank_lines_are_no_rows_and_cells_stay_as_written(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("# source\nmethod\tbatch_size\tMRR@10\n# note\n\nA\t\t0.50\n")
    assert published.read(path) == [{"method": "A", "batch_size": "", "MRR@10": "0.50"}]
