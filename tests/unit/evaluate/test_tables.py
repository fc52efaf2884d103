from __future__ import annotations

import csv
import json

import pytest

from condenser.evaluate.published import OFFICIAL_DEV_QUERIES, OFFICIAL_DL19_QUERIES, OFFICIAL_PASSAGES
from condenser.evaluate.tables import (
    backbone_name,
    method_name,
    read_results,
    rendered,
    table2,
    write_table,
)

RESULTS = {
    "bm25": (0.187412, 0.8573),
    "backbone-round1": (0.31, 0.93),
    "cocondenser-round2": (0.38, 0.98),
    "cocondenser-round1": (0.35, 0.97),
    "condenser-round2": (0.36, 0.96),
    "condenser-round1": (0.33, 0.95),
}


def made(**changes):
    values = {
        "dataset": "msmarco",
        "source": "pydoc",
        "num_passages": 2000,
        "num_queries": 100,
        "depth": 1000,
        "batch_size": 64,
        "backbone": "all-MiniLM-L6-v2",
        "seed": 42,
    }
    return table2(RESULTS, **(values | changes))


def official(**changes):
    whole = {"source": "msmarco", "num_passages": OFFICIAL_PASSAGES, "num_queries": OFFICIAL_DEV_QUERIES}
    return made(**(whole | changes))


def test_rows_come_in_the_papers_order_then_bm25_then_ours():
    assert made()["method"].tolist() == [
        "Condenser w/o hard negatives",
        "Condenser + hard negatives",
        "coCondenser w/o hard negatives",
        "coCondenser + hard negatives",
        "BM25",
        "Backbone w/o hard negatives",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"source": "msmarco"},
        {"source": "msmarco", "num_passages": OFFICIAL_PASSAGES - 1, "num_queries": OFFICIAL_DEV_QUERIES},
        {"source": "tsv", "num_passages": OFFICIAL_PASSAGES, "num_queries": OFFICIAL_DEV_QUERIES},
        {"source": "msmarco", "num_passages": OFFICIAL_PASSAGES, "num_queries": OFFICIAL_DL19_QUERIES},
    ],
)
def test_published_rows_never_stand_beside_another_collection(changes):
    table = made(**changes)
    assert set(table["origin"]) == {"measured"}
    assert set(table["collection"]) != {"MS MARCO"}


def test_on_the_official_collection_each_published_row_stands_above_ours():
    table = official()
    assert table["origin"].tolist() == ["published"] * 4 + ["published", "measured"] * 4 + ["measured"] * 2
    methods = table["method"].tolist()
    assert methods[4:12:2] == methods[5:12:2]
    assert table["MRR@10"].tolist()[:4] == [0.333, 0.26, 0.364, 0.37]
    assert table["MRR@10"].tolist()[10:12] == [0.382, 0.38]


def test_a_stand_in_is_called_one_in_table_and_terminal():
    table = made()
    assert set(table["collection"]) == {"pydoc (stand-in for MS MARCO)"}
    assert "not the papers' collection" in rendered(table)
    assert "not the papers' collection" not in rendered(official())


@pytest.mark.parametrize(
    ("depth", "num_passages", "called"),
    [
        (50, 240, "tiny (runs of 50)"),
        (240, 240, "tiny"),  # a run holds the whole collection
        (239, 240, "tiny (runs of 239)"),
        (999, 2000, "tiny (runs of 999)"),
        (1000, 2000, "tiny"),
    ],
)
def test_recall_at_another_depth_than_1000_says_so_in_table_and_terminal(depth, num_passages, called):
    table = made(dataset="tiny", source="beir", depth=depth, num_passages=num_passages)
    assert set(table["collection"]) == {called}
    assert f"\n{called}: {num_passages:,} passages" in rendered(table)


def test_a_stand_in_with_short_runs_says_both():
    assert set(made(depth=100)["collection"]) == {"pydoc (stand-in for MS MARCO; runs of 100)"}


def test_published_recall_never_stands_beside_recall_at_another_depth():
    table = official(depth=100)
    assert set(table["collection"]) == {"MS MARCO (runs of 100)"}
    assert set(table["origin"]) == {"measured"}
    assert "do not compare" in rendered(table)


def test_dl_2019_is_the_official_collection_with_other_queries():
    table = official(num_queries=OFFICIAL_DL19_QUERIES)
    assert OFFICIAL_DL19_QUERIES == 43
    assert set(table["collection"]) == {"MS MARCO, TREC DL 2019"}
    assert "not the papers' collection" not in rendered(table)
    assert "do not compare" in rendered(table)
    incomplete = official(num_queries=OFFICIAL_DL19_QUERIES, num_passages=OFFICIAL_PASSAGES - 1)
    assert set(incomplete["collection"]) == {"MS MARCO (not the official passages and queries)"}


def test_a_users_own_collection_has_its_own_name():
    assert set(made(dataset="mine", source="beir")["collection"]) == {"mine"}


def test_the_file_has_the_agreed_columns_and_four_decimals(tmp_path):
    write_table(tmp_path / "table2.tsv", made())
    with (tmp_path / "table2.tsv").open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert rows[0][:5] == ["method", "batch_size", "MRR@10", "R@1000", "origin"]
    assert rows[0][5:] == ["collection", "passages", "queries", "backbone", "seeds"]
    collection = "pydoc (stand-in for MS MARCO)"
    assert rows[5] == ["BM25", "", "0.1874", "0.8573", "measured", collection, "2000", "100", "", ""]
    assert rows[1][1:5] + rows[1][6:] == (
        ["64", "0.3300", "0.9500", "measured", "2000", "100", "all-MiniLM-L6-v2", "42"]
    )


def test_a_figure_the_paper_lacks_is_an_empty_cell(tmp_path):
    write_table(tmp_path / "table2.tsv", official())
    first = (tmp_path / "table2.tsv").read_text().splitlines()[1].split("\t")
    assert first[:5] == ["RocketQA, cross-batch negatives", "8192", "0.3330", "", "published"]
    assert rendered(official()).splitlines()[1].split()[-5:] == ["8192", "0.3330", "-", "published", "-"]


def test_the_terminal_shows_a_dash_for_what_bm25_has_not():
    assert rendered(made()).splitlines()[5].split() == ["BM25", "-", "0.1874", "0.8573", "measured", "-"]


def test_an_unknown_system_has_no_name_in_the_table():
    assert method_name("condenser-round3") == "Condenser + hard negatives, round 3"
    with pytest.raises(ValueError, match="got 'splade'"):
        method_name("splade")


def test_the_backbone_is_called_by_its_id_folder_or_shape():
    assert backbone_name({"source": "hub", "id": "bert-base-uncased"}) == "bert-base-uncased"
    assert backbone_name({"path": "../models/mine"}) == "mine"
    assert backbone_name({"hidden_size": 128, "num_layers": 4}) == "BERT from scratch, 4 x 128"


def metrics_file(path, system, queries):
    measures = {"MRR@10": 0.5, "R@1000": 0.75}
    path.write_text(json.dumps({"system": system, "measures": measures, "counts": {"queries": queries}}))
    return path


def test_metrics_of_another_system_or_of_other_queries_are_refused(tmp_path):
    a = metrics_file(tmp_path / "a.json", "bm25", 10)
    b = metrics_file(tmp_path / "b.json", "condenser-round1", 11)
    assert read_results({"bm25": a}) == ({"bm25": (0.5, 0.75)}, 10)
    with pytest.raises(ValueError, match=r"a\.json: expected metrics of condenser-round1"):
        read_results({"condenser-round1": a})
    with pytest.raises(ValueError, match="one number of judged queries"):
        read_results({"bm25": a, "condenser-round1": b})
