from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from job_files import do

from condenser.data.canonical import count_judged
from condenser.evaluate import published
from condenser.evaluate.columns import Column
from condenser.evaluate.comparisons import Metrics, measure_columns
from condenser.evaluate.tables import (
    describe_unmeasured,
    evaluation_sets,
    make_table,
    render_table,
    write_table,
)
from condenser.files import read_json, write_json

RESULTS: dict[Any, Sequence[float]] = {  # of the systems: MRR@10 and R@1000
    "condenser-round1": (0.33, 0.95),
    "condenser-round2": (0.36, 0.96),
    "cocondenser-round1": (0.35, 0.97),
    "cocondenser-round2": (0.38, 0.98),
    "bm25": (0.187412, 0.8573),
    "ours": (0.31, 0.93),
}
METHODS = {
    "condenser-round1": "Condenser w/o hard negatives",
    "condenser-round2": "Condenser + hard negatives",
    "cocondenser-round1": "coCondenser w/o hard negatives",
    "cocondenser-round2": "coCondenser + hard negatives",
    "bm25": "BM25",
    "ours": "Ours",
}
SIGNIFICANCE: dict[str, Any] = {"confidence": 0.95, "power": 0.8, "permutations": 1000, "seed": 42}
FIGURES = published.rows_of([published.file("cocondenser_table2")])
OFFICIAL_PASSAGES, OFFICIAL_DEV_QUERIES = 8_841_823, 6_980


def row(system: str, **changes: Any) -> dict[str, Any]:
    """A row as `condenser.shown.table_rows` gives it."""
    is_bm25 = system == "bm25"
    return {
        "system": system,
        "train_queries": "all",
        "variants": ["untrained" if is_bm25 else "seed42"],
        "method": METHODS.get(system, system),
        "batch_size": None if is_bm25 else 64,
        "backbone": None if is_bm25 else "all-MiniLM-L6-v2",
        **changes,
    }


ROWS = [row(system) for system in RESULTS]
NQ = Column("nq/hits@5", "nq", "test", "hits@5", "dpr", "train", 1000)
DL19 = Column("dl19/nDCG@10", "msmarco", "dl19", "nDCG@10", "msmarco", "train", 1000)


def columns_of(
    measures: Sequence[str], *, dataset: str = "msmarco", source: str = "pydoc", depth: int | None = 1000
) -> list[Column]:
    """Columns of the main evaluation set of a table's own data set."""
    split = None if depth is None else "dev"
    return [Column(name, dataset, split, name, source, "train", depth) for name in measures]


def counts_of(num_passages: int, num_queries: int, num_shared: int = 0) -> dict[str, Any]:
    """The counts of a collection."""
    counts: dict[str, Any] = {"passages": num_passages, "queries": {"train": 500, "dev": num_queries}}
    return counts | ({"queries_shared_by_splits": {"dev+train": num_shared}} if num_shared else {})


COLUMNS, COUNTS = columns_of(["MRR@10", "R@1000"]), {"msmarco": counts_of(2000, 100)}


def metrics_of(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    counts: Mapping[str, Mapping[str, Any]],
    results: Mapping[Any, Sequence[float]] = RESULTS,
) -> Metrics:
    """Metrics whose queries score .1 more or less than the mean; `results` has it by column, of each system.

    Or of one variant of a system.
    """
    metrics: dict[Any, dict[tuple[str, str], dict[str, Any]]] = {}
    for number, column in enumerate(columns):
        num_queries = count_judged(counts[column.dataset])[str(column.split)]
        signs = np.arange(num_queries) % 2 * 2.0 - 1
        signs[: num_queries % 2] = 0
        for name in ((one["system"], variant) for one in rows for variant in one["variants"]):
            mean = (results.get(name) or results[name[0]])[number]
            draws = np.random.default_rng([*f"{column.name} {name}".encode()]).permutation(signs)
            of_name = metrics.setdefault(column.place, {}).setdefault(name, {"measures": {}, "per_query": {}})
            of_name["measures"][column.measure] = mean
            of_name["per_query"][column.measure] = (mean + 0.1 * draws).tolist()
    return metrics


def made(
    rows: Sequence[Mapping[str, Any]] = ROWS,
    *,
    columns: Sequence[Column] = COLUMNS,
    counts: Mapping[str, Mapping[str, Any]] = COUNTS,
    results: Mapping[Any, Sequence[float]] = RESULTS,
    comparisons: Sequence[Sequence[int]] = (),
    **changes: Any,
) -> pd.DataFrame:
    """A table of rows, in the columns of a stand-in or in others; measured where these have a split."""
    metrics = metrics_of(rows, columns, counts, results) if columns[0].split else {}
    given = {"published": FIGURES, "starts": [None] * len(rows), "left_out": [], **changes}
    by_column = measure_columns(rows, columns, comparisons, metrics, significance=SIGNIFICANCE)
    sets = evaluation_sets(columns, counts)
    return make_table(rows, columns, metrics, sets=sets, by_column=by_column, **given)


def shown(table: pd.DataFrame) -> str:
    return render_table(table, confidence=0.95)


def official(rows: Sequence[Mapping[str, Any]] = ROWS, **changes: Any) -> pd.DataFrame:
    counts = {"msmarco": counts_of(OFFICIAL_PASSAGES, OFFICIAL_DEV_QUERIES)}
    columns = columns_of(["MRR@10", "R@1000"], source="msmarco")
    return made(rows, **{"columns": columns, "counts": counts, **changes})


@pytest.fixture(scope="module")
def whole() -> pd.DataFrame:
    """All rows on the official collection; not to be changed."""
    return official()


def test_a_table_has_exactly_the_agreed_columns_and_its_rows_in_order(whole: pd.DataFrame) -> None:
    agreed = [
        *("method", "batch_size", "MRR@10", "R@1000", "origin"),
        *("collection", "passages", "queries", "backbone", "seeds"),
        *("MRR@10_low", "MRR@10_high", "R@1000_low", "R@1000_high"),
        *("compared_with_start", "compared_with_start_p"),
    ]
    beside = ["MRR@10_published", "MRR@10_difference", "R@1000_published", "R@1000_difference"]
    table = made(ROWS[::-1])
    assert table.columns.tolist() == agreed and whole.columns.tolist() == [*agreed, *beside]
    assert table["method"].tolist() == list(METHODS.values())[::-1]
    assert set(table["origin"]) == {"measured"}  # no published row stands beside another collection


SETS: dict[str, dict[str, Any]] = {
    "msmarco": {"num_passages": OFFICIAL_PASSAGES, "num_queries": OFFICIAL_DEV_QUERIES},
    "tiny": {"source": "beir", "num_passages": 2000, "num_queries": 60},
    "mine": {"source": "dpr", "num_passages": 21_015_324, "num_queries": 3_610},
}
MARCO, DL19_MARCO = ("msmarco", "dev"), ("msmarco", "dl19")


@pytest.mark.parametrize(
    ("dataset", "changes", "name", "found"),
    [
        ("msmarco", {}, "MS MARCO", MARCO),
        ("msmarco", {"num_queries": 43}, "MS MARCO, TREC DL 2019", DL19_MARCO),
        ("msmarco", {"num_shared": 10}, "MS MARCO (10 evaluation queries are also train queries)", MARCO),
        ("msmarco", {"num_queries": 6_979}, "MS MARCO (not the official passages and queries)", None),
        ("msmarco", {"depth": 100}, "MS MARCO (runs of 100)", None),
        ("msmarco", {"source": "pydoc"}, "pydoc (stand-in for MS MARCO)", None),
        ("msmarco", {"source": "tsv", "depth": 100}, "tsv (stand-in for MS MARCO; runs of 100)", None),
        ("tiny", {}, "tiny", None),
        ("tiny", {"depth": 240, "num_passages": 240}, "tiny", None),  # a run holds the whole collection
        ("tiny", {"depth": 239, "num_passages": 240}, "tiny (runs of 239)", None),
        ("tiny", {"depth": 50, "measures": ["MRR@10"]}, "tiny", None),  # deep enough
        ("mine", {}, "Natural Questions", ("nq", "test")),  # whatever the data set is called
        ("mine", {"num_queries": 11_313}, "TriviaQA", ("tqa", "test")),
        ("mine", {"num_queries": 8_757}, "mine (not the official passages and queries)", None),  # its dev
    ],
)
def test_data_are_called_official_only_where_they_are_whole_and_searched_deep_enough(
    dataset: str, changes: dict[str, Any], name: str, found: tuple[str, str] | None
) -> None:
    given = {"source": dataset, "depth": 1000, "measures": ["MRR@10", "R@1000"], "num_shared": 0}
    given |= SETS[dataset] | changes
    counts = counts_of(*(given.pop(key) for key in ("num_passages", "num_queries", "num_shared")))
    columns = columns_of(given.pop("measures"), dataset=dataset, **given)
    (evaluation_set,) = evaluation_sets(columns, {dataset: counts}).values()
    assert (evaluation_set.name, evaluation_set.official) == (name, found)


@pytest.mark.parametrize("official_name", [None, "STS benchmark"])
def test_items_that_train_and_test_share_are_said_and_keep_the_official_figures(
    official_name: str | None,
) -> None:
    column = Column("spearman", "stsb", "test", "spearman", "stsb", "train", 0)
    counts = {"passages": 10, "items": {"train": 9, "test": 5}, "items_shared_by_splits": {"train+test": 2}}
    (found,) = evaluation_sets([column], {"stsb": counts | {"official": official_name}}).values()
    assert found.name.endswith("(2 evaluation items are also train items)")
    assert (found.official is not None) == (official_name is not None)


def test_runs_are_shallow_by_the_measures_of_their_own_evaluation_set() -> None:
    columns = [
        Column(name, dataset, "dev", measure, "beir", "train", depth)
        for name, dataset, measure, depth in (
            ("R@1000", "mine", "R@1000", 1000),
            ("nq/hits@20", "nq", "hits@20", 100),
            ("nq/R@200", "yours", "R@200", 100),
        )
    ]
    counts = {"passages": 5000, "queries": {"dev": 7}}
    sets = evaluation_sets(columns, dict.fromkeys(("mine", "nq", "yours"), counts))
    assert [found.notes for found in sets.values()] == [[], [], ["runs of 100"]]


def test_queries_shared_with_other_evaluation_sets_are_no_train_queries() -> None:
    counts = {**counts_of(300, 100), "queries": {"dev": 100, "dl19": 20}}
    counts["queries_shared_by_splits"] = {"dev+dl19": 5, "dl19+train": 3}
    columns = [*columns_of(["MRR@10"], source="msmarco"), DL19]
    dev, dl19 = evaluation_sets(columns, {"msmarco": counts}).values()
    assert (dev.num_shared, dl19.num_shared) == (0, 3)


def test_documents_without_text_that_were_left_out_are_no_other_collection() -> None:
    column = Column("doc/MRR@100", "doc", "dev", "MRR@100", "msmarco_doc", "train", 1000)
    counts = {"passages": 3_213_800, "queries": {"dev": 5_193}, "files": {"docs": {"without_text": 35}}}
    (found,) = evaluation_sets([column], {"doc": counts}).values()
    assert found.name == "MS MARCO documents"


def test_on_the_official_collection_a_measured_cell_stands_beside_the_published_one(
    whole: pd.DataFrame,
) -> None:
    assert whole["origin"].tolist() == ["published"] * 4 + ["measured"] * 6
    assert whole["method"].tolist()[4:] == list(METHODS.values())  # ours in our order
    assert whole["MRR@10"].tolist()[:4] == [0.333, 0.26, 0.364, 0.37]  # those of other methods
    by_method = whole.set_index("method")
    ours = by_method.loc["coCondenser + hard negatives"]
    assert (ours["MRR@10"], ours["MRR@10_published"]) == (0.38, 0.382)
    assert ours["MRR@10_difference"] == pytest.approx(-0.002)
    assert ours["R@1000_difference"] == pytest.approx(0.98 - 0.984)
    for method in ("BM25", "Ours", "RocketQA + denoising"):  # nothing is published of these beside them
        assert pd.isna(by_method.loc[method, "MRR@10_published"])
    assert ".3800 (-.002) [" in shown(whole)


@pytest.mark.parametrize(
    ("source", "counts", "line"),
    [
        ("pydoc", (2000, 100), "This is not the papers' collection: do not compare with"),
        ("msmarco", (OFFICIAL_PASSAGES, 43), "This is not what the papers' table was measured on: do not"),
    ],
)
def test_the_terminal_says_where_figures_may_not_be_compared(
    whole: pd.DataFrame, source: str, counts: tuple[int, int], line: str
) -> None:
    columns = columns_of(["MRR@10", "R@1000"], source=source)
    assert line in shown(made(columns=columns, counts={"msmarco": counts_of(*counts)}))
    assert "do not compare" not in shown(whole)
    assert "(+ or -): ours less the published figure of the same method" in shown(whole)


def test_a_collection_without_judged_queries_has_its_rows_with_empty_cells(tmp_path: Path) -> None:
    rows = [row("bm25"), row("ours", batch_size=None, variants=["seed1", "seed2"])]
    columns = columns_of(["MRR@10", "R@1000"], dataset="mine", source="tsv", depth=None)
    table = made(rows, columns=columns, counts={"mine": {"passages": 2000, "queries": {}}})
    write_table(tmp_path / "t.tsv", table)
    with (tmp_path / "t.tsv").open() as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    assert [(line["method"], line["seeds"], line["queries"]) for line in lines] == [
        ("BM25", "", "0"),
        ("Ours", "1,2", "0"),
    ]
    assert {line[name] for line in lines for name in ("MRR@10", "R@1000", "origin")} == {""}
    about = "mine (no judged queries: not measured)"
    assert {line["collection"] for line in lines} == {about}
    assert shown(table).splitlines()[-1].startswith(f"{about}: 2,000 passages, 0 queries")


def test_the_file_has_four_decimals_and_empty_cells(tmp_path: Path) -> None:
    write_table(tmp_path / "table2.tsv", made())
    with (tmp_path / "table2.tsv").open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    collection = "pydoc (stand-in for MS MARCO)"
    assert rows[5][:10] == ["BM25", "", "0.1874", "0.8573", "measured", collection, "2000", "100", "", ""]
    assert rows[5][14:] == ["", ""]  # no start
    assert rows[1][1:5] + rows[1][6:10] == (
        ["64", "0.3300", "0.9500", "measured", "2000", "100", "all-MiniLM-L6-v2", "42"]
    )


def test_a_figure_the_paper_lacks_is_an_empty_cell(tmp_path: Path, whole: pd.DataFrame) -> None:
    write_table(tmp_path / "table2.tsv", whole)
    first = (tmp_path / "table2.tsv").read_text().splitlines()[1].split("\t")
    assert first[:5] == ["RocketQA, cross-batch negatives", "8192", "0.3330", "", "published"]
    assert first[10:] == [""] * 10
    assert shown(whole).splitlines()[1].split()[-4:] == ["8192", ".3330", "-", "published"]
    line = shown(made()).splitlines()[5]
    assert line.split() == ["BM25", "-", ".1874", "[.17,", ".22]", ".8573", "[.82,", ".88]"]


WITH_START = [row("start", batch_size=None), row("ours"), row("condenser-round1"), row("bm25")]
STARTS: dict[str, Any] = {
    "results": {**RESULTS, "start": (0.33, 0.9), "ours": (0.2, 0.95)},
    "starts": [None, 0, 0, None],
    "comparisons": [[1, 0], [2, 0], [3, 0]],
}


def test_a_row_says_if_it_is_worse_than_its_untouched_start_by_the_first_measure() -> None:
    table = made(WITH_START, **STARTS)
    verdicts = table["compared_with_start"].tolist()
    assert verdicts[1:3] == ["worse", "no difference shown"]  # not better by R@1000
    assert table["compared_with_start"].isna().tolist() == [True, False, False, True]
    assert table["compared_with_start_p"].isna().tolist() == [True, False, False, True]
    text = shown(table)
    assert text.splitlines()[2].endswith("  WORSE")
    assert text.splitlines()[-1] == "WORSE than the untouched start: Ours."
    better = made(WITH_START, **STARTS | {"results": {**RESULTS, "start": (0.1, 0.9)}})
    assert better["compared_with_start"].tolist()[1:3] == ["better", "better"]


@pytest.mark.parametrize(
    ("num_seeds", "num_measures", "has_sd"), [(1, 2, False), (3, 2, True), (3, 3, False)]
)
def test_the_screen_takes_at_most_120_columns_however_many_seeds(
    whole: pd.DataFrame, num_seeds: int, num_measures: int, has_sd: bool
) -> None:
    variants = [f"seed{seed}" for seed in range(num_seeds)]
    sizes = [
        {"train_queries": size, "variants": [f"n{size}-{one}" for one in variants]} for size in (250, 1000)
    ]
    rows = [
        row("start", batch_size=None),
        *(row(system, **size) for system in ("condenser-round1", "cocondenser-round1") for size in sizes),
    ]
    pairs = [[number, 0] for number in range(1, 5)]
    results = {one["system"]: (0.35, 0.9, 0.6) for one in rows}
    columns = columns_of(["MRR@10", "R@1000", "R@10"][:num_measures])
    options: dict[str, Any] = {"starts": [None, 0, 0, 0, 0], "comparisons": pairs}
    lines = shown(made(rows, columns=columns, results=results, **options)).splitlines()
    assert max(map(len, lines)) <= 120
    assert ("±" in lines[2]) == has_sd
    assert all("[" in line for line in lines[1:6])
    assert max(map(len, shown(whole).splitlines())) <= 120


SIZES_AND_SEEDS: dict[Any, Sequence[float]] = {
    **RESULTS,
    ("ours", "n1000-seed1"): (0.10, 0.5),
    ("ours", "n1000-seed2"): (0.13, 0.7),
    ("ours", "seed1"): (0.30, 0.8),
    ("ours", "seed2"): (0.36, 0.8),
}
ROWS_OF_SIZES = [
    row("bm25"),
    row("ours", train_queries=1000, variants=["n1000-seed1", "n1000-seed2"]),
    row("ours", variants=["seed1", "seed2"]),
]


def test_two_sizes_and_two_seeds_show_mean_and_standard_deviation_of_each_size() -> None:
    table = made(ROWS_OF_SIZES, results=SIZES_AND_SEEDS)
    assert table.columns.tolist()[10:14] == ["train_queries", "MRR@10_sd", "R@1000_sd", "MRR@10_low"]
    assert table["train_queries"].tolist() == ["all", 1000, "all"]
    assert table["seeds"].isna().tolist() == [True, False, False]
    assert table["seeds"].tolist()[1:] == ["1,2", "1,2"]
    assert table["MRR@10"].tolist() == pytest.approx([0.187412, 0.115, 0.33])
    assert table["R@1000"].tolist() == pytest.approx([0.8573, 0.6, 0.8])
    # of two values the sample standard deviation is their difference over the root of 2
    assert table["MRR@10_sd"].tolist()[1:] == pytest.approx([0.03 / math.sqrt(2), 0.06 / math.sqrt(2)])
    assert table["R@1000_sd"].tolist()[1:] == pytest.approx([0.2 / math.sqrt(2), 0.0])
    assert ".1150 ±.021 [" in shown(table)


def test_the_program_makes_the_table_of_its_spec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"msmarco": counts_of(4000, 100)}
    expected = made(counts=counts)
    columns = [asdict(column) for column in COLUMNS]
    notes: dict[str, list[Any]] = {"texts": [], "trainings": [], "compared": []}
    of_table = {"rows": ROWS, "columns": columns, "starts": [None] * 6, "comparisons": [], "left_out": []}
    write_json(tmp_path / "counts.json", counts["msmarco"])
    (by_name,) = metrics_of(ROWS, COLUMNS, counts).values()
    for (system, _), content in by_name.items():
        write_json(tmp_path / f"{system}.json", content)
    do(
        "table",
        settings={
            **{"table": {**of_table, "notes": notes}, "notes": {"unknown_words": 0.01}},
            "significance": SIGNIFICANCE,
        },
        wildcards={"dataset": "msmarco"},
        input={
            **{name: [] for name in ("models", "lengths", "losses", "validations", "counted")},
            "counts": [tmp_path / "counts.json"],
            "published": [published.file("cocondenser_table2")],
            "metrics": [tmp_path / f"{system}.json" for system in RESULTS],
        },
        output={"table": tmp_path / "t.tsv", "notes": tmp_path / "n.txt", "manifest": tmp_path / "m.json"},
        options={"overlays": [], "searchable": [], "is_tested": False},
    )
    write_table(tmp_path / "expected.tsv", expected)
    assert (tmp_path / "t.tsv").read_bytes() == (tmp_path / "expected.tsv").read_bytes()
    assert capsys.readouterr().out == shown(expected) + "\n"
    manifest = read_json(tmp_path / "m.json")
    assert manifest["counts"] == {"rows": 6} and (tmp_path / "n.txt").read_text() == ""
    assert any(name.endswith("cocondenser_table2.tsv") for name in manifest["inputs"])


OTHERS: dict[str, Any] = {
    "rows": [row("bm25"), row("condenser-round2")],
    **{"results": dict.fromkeys(RESULTS, (0.5, 0.6, 0.7)), "comparisons": [[1, 0]]},
}


def test_columns_of_other_evaluation_sets_have_their_own_queries_and_say_so() -> None:
    counts = {
        "msmarco": {"passages": 300, "queries": {"dev": 100, "dl19": 43}},
        "nq": {"passages": 70, "queries": {"test": 20}},
    }
    columns = [*columns_of(["MRR@10"], source="msmarco"), DL19, replace(NQ, depth=4)]
    table = made(columns=columns, counts=counts, left_out=["tqa/hits@5"], published=[], **OTHERS)
    assert table.columns.tolist()[2:5] == ["MRR@10", "dl19/nDCG@10", "nq/hits@5"]
    assert table["nq/hits@5"].tolist() == pytest.approx([0.7, 0.7])
    assert (table["dl19/nDCG@10_low"] < 0.6).all() and (table["dl19/nDCG@10_high"] > 0.6).all()
    assert set(table["queries"]) == {100} and set(table["passages"]) == {300}
    assert set(table["other_columns"]) == {
        "dl19/nDCG@10: MS MARCO (not the official passages and queries), 300 passages, 43 queries | "
        "nq/hits@5: nq (not the official passages and queries; runs of 4), 70 passages, 20 queries | "
        "tqa/hits@5: left out, the configuration has no such data"
    }
    assert (
        "; runs of 4), 70 passages, 20 queries.\ntqa/hits@5: left out, the configuration has no such data.\n"
        in shown(table)
    )
    of_few, of_many = (table[f"{name}_high"] - table[f"{name}_low"] for name in ("nq/hits@5", "MRR@10"))
    assert (of_few > of_many).all()


def test_published_figures_stand_in_the_official_columns_alone() -> None:
    """The dev queries are a sample here, those of DL 2019 are complete."""
    counts = {"msmarco": {"passages": OFFICIAL_PASSAGES, "queries": {"dev": 100, "dl19": 43}}}
    figures = published.rows_of([published.file("condenser_table6")])
    columns = [*columns_of(["MRR@10"], source="msmarco"), DL19]
    table = made(columns=columns, counts=counts, published=figures, **OTHERS)
    ours = table[table["origin"] == "measured"]
    assert ours["dl19/nDCG@10_published"].tolist() == [0.506, 0.698]
    assert ours["dl19/nDCG@10_difference"].tolist() == pytest.approx([0.6 - 0.506, 0.6 - 0.698])
    assert "MRR@10_published" not in table
    theirs = table[table["origin"] == "published"]
    assert theirs["MRR@10"].isna().all() and theirs["dl19/nDCG@10"].notna().all()
    assert "RocketQA, no external data" not in theirs["method"].tolist()  # has no figure for DL 2019


def test_a_table_without_judged_queries_says_what_it_made_and_how_to_search() -> None:
    files = [Path("results/mine/models/adapted/model.safetensors"), Path("results/mine/bm25/index")]
    made_line = "Made: results/mine/models/adapted, results/mine/bm25/index."
    names = {"dataset": "mine", "overlays": ["mine.yaml"]}
    assert describe_unmeasured(files, [], **names) == made_line
    assert describe_unmeasured(files, ["bm25", "late", "bm25", "hybrid"], **names).splitlines() == [
        made_line,
        "To search (SYSTEM may also be bm25 or late):",
        '  make search DATASET=mine SYSTEM=hybrid QUERY="..." CONFIG=mine.yaml',
    ]
