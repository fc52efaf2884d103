"""Published figures: every file can be read, names its source, and holds fractions; one table by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from condenser.evaluate import measures, published

NO_MEASURES = ("method", "train_queries", "batch_size")


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
def test_a_published_table_names_its_source_and_holds_fractions_of_rows_of_their_own(name: str) -> None:
    path = published.file(name)
    assert path.read_text(encoding="utf-8").startswith("# ")
    cells = published.read(path)
    assert len(published.rows_of([path])) == len(cells) > 0  # a method and train size stands once
    for row in cells:
        assert row["method"] and re.fullmatch(r"all|[1-9]\d*", row.get("train_queries", "all"))
        assert row.get("batch_size", "").isdecimal() or not row.get("batch_size")
        figures = {column: cell for column, cell in row.items() if column not in NO_MEASURES}
        assert any(figures.values())
        for column, figure in figures.items():
            assert measures.parse(column.split("/")[-1]).name == column.split("/")[-1]
            assert not figure or 0 < float(figure) < 1


@pytest.mark.parametrize(
    ("name", "method", "size", "column", "figure"),
    [
        ("cocondenser_table1", "coCondenser + hard negatives", "all", ("tqa", "test", "hits@100"), "0.873"),
        ("cocondenser_table1", "DPR", "all", ("nq", "test", "hits@20"), "0.784"),
        ("cocondenser_table3", "coCondenser", "all", ("msmarco", "eval", "MRR@10"), "0.428"),
        ("condenser_table3", "ICT", "1000", ("nq", "test", "hits@20"), "0.729"),
        ("condenser_table4", "DPR + hard negatives", "all", ("tqa", "test", "hits@100"), "0.858"),
        ("condenser_table5", "BERT", "10000", ("msmarco", "dl19", "nDCG@10"), "0.555"),
        ("condenser_table6", "BERT + hard negatives", "all", ("msmarco", "dev", "MRR@10"), "0.334"),
        ("condenser_table7", "Condenser + hard negatives", "all", ("msmarco", "dev", "MRR@10"), "0.366"),
        ("condenser_table3", "BM25", "all", ("tqa", "test", "hits@20"), "0.669"),
        ("condenser_table8", "ME-BERT", "all", ("msmarco_doc", "dl19", "nDCG@10"), "0.588"),
        ("v1_table4", "BERT", "1000", ("msmarco", "dev", "R@100"), "0.539"),
        ("condenser_table1", "BERT", "500", ("stsb", "test", "spearman"), "0.686"),
        ("condenser_table1", "BERT + NLI", "1000", ("stsb", "test", "spearman"), "0.768"),
        ("condenser_table1", "USE", "all", ("stsb", "test", "spearman"), "0.749"),
        ("condenser_table2", "Condenser", "1000", ("wikisection", "test", "accuracy"), "0.73"),
        ("condenser_table2", "skip-thoughts", "all", ("wikisection", "test", "accuracy"), "0.62"),
    ],
)
def test_cells_of_the_tables_are_those_of_the_papers(
    name: str, method: str, size: str, column: tuple[str, str, str], figure: str
) -> None:
    rows = {(row.method, row.train_queries): row for row in published.rows_of([published.file(name)])}
    assert rows[method, size].figures[column] == figure


def test_tables_that_repeat_each_other_agree() -> None:
    """Table 7 of Condenser is the upper part of Table 2 of coCondenser; other tables share rows too."""

    def of(name: str) -> dict[str, published.Row]:
        return {row.method: row for row in published.rows_of([published.file(name)])}

    repeated = of("cocondenser_table2")
    for method, row in of("condenser_table7").items():
        assert row.figures.items() <= repeated[method].figures.items()
        assert row.figures.keys() == {("msmarco", "dev", "MRR@10")}
    assert of("condenser_table3")["BM25"] == of("condenser_table4")["BM25"]
    older, newer = of("condenser_table4"), of("cocondenser_table1")
    shared = older.keys() & newer.keys()
    assert {"BM25", "GAR", "DPR", "ANCE", "RocketQA", "Condenser + hard negatives"} == shared
    for method in shared:
        assert older[method].figures.items() <= newer[method].figures.items()


def test_of_two_files_the_first_figure_wins_and_a_wrong_column_is_named(tmp_path: Path) -> None:
    first, second, wrong = (tmp_path / f"{name}.tsv" for name in ("first", "second", "wrong"))
    first.write_text("# a\nmethod\tMRR@10\tdl19/nDCG@10\nA\t0.5\t\n")
    second.write_text("# b\nmethod\tMRR@10\tdl19/nDCG@10\nB\t0.1\t\nA\t0.6\t0.7\n")
    one, other = published.rows_of([first, second])
    assert (one.method, other.method) == ("A", "B")
    assert one.figures == {("msmarco", "dev", "MRR@10"): "0.5", ("msmarco", "dl19", "nDCG@10"): "0.7"}
    wrong.write_text("# c\nmethod\tdl9/nDCG@10\nA\t0.5\n")
    with pytest.raises(ValueError, match=r"wrong\.tsv: dl9/nDCG@10: expected .* Did you mean dl19\?"):
        published.rows_of([wrong])


def test_cells_stay_as_written_and_a_line_of_another_width_is_named(tmp_path: Path) -> None:
    path, text = tmp_path / "table.tsv", "# source\nmethod\tbatch_size\tMRR@10\n# note\n\nA\t\t0.50\n"
    path.write_text(text)
    assert published.read(path) == [{"method": "A", "batch_size": "", "MRR@10": "0.50"}]
    path.write_text(f"{text}B\t8\n")
    with pytest.raises(ValueError, match=r"table\.tsv:6: expected 3 columns, got 2\. Use tabs"):
        published.read(path)
