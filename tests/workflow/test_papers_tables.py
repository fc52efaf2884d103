"""The papers' tables: planned offline at their scale."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs import Graph, Load
from transformers import BertConfig

from condenser import shown
from condenser.evaluate import published
from condenser.nouns import Config
from condenser.settings import merged

PAPER = "configs/paper.yaml"
QUESTIONS = {  # stand in for Natural Questions; their recipe is that of the configuration
    "nq": {
        **{"source": "beir", "path": "tests/data/tiny", "train_split": "dev", "eval_split": "train"},
        "measures": ["hits@5", "hits@20", "hits@100"],
    }
}


OVERLAYS = ("qa", "nli", "recurrent", "expansions", "deepct", "ance", "rocketqa", "interaction", "paq")


@pytest.fixture(scope="module")
def papers(load: Load, root: Path) -> Config:
    """The papers' scale with all its overlays."""
    files = (root / f"configs/{name}.yaml" for name in OVERLAYS)
    overlay = reduce(merged, (yaml.safe_load(file.read_text()) for file in files))
    return load(overlay, configfile=PAPER).settings


def spec_of(graph: Graph, dataset: str, table: str) -> dict[str, Any]:
    return graph.spec(f"table {dataset} {table}")["config"]["table"]


def columns(graph: Graph, dataset: str, table: str) -> list[str]:
    return [column["name"] for column in spec_of(graph, dataset, table)["columns"]]


@pytest.mark.parametrize(
    ("table", "num_trained", "expected"),
    [
        ("table1", 4, ["MRR@10", "R@1000"]),
        ("table2", 5, ["MRR@10", "R@1000"]),
        ("table7", 3, ["MRR@10", "R@1000"]),
        # three systems, three sizes, three seeds
        ("continued", 27, ["MRR@10", "R@100", "R@1000"]),
        ("low_data", 27, ["MRR@10", "R@100", "R@1000", "dl19/nDCG@10"]),
        ("full_train", 7, ["MRR@10", "R@1000", "dl19/nDCG@10"]),
    ],
)
def test_each_table_is_planned_offline_at_the_papers_scale(
    load: Load, table: str, num_trained: int, expected: list[str]
) -> None:
    graph, target = load(configfile=PAPER), f"results/msmarco/{table}"
    assert graph.plan("msmarco", table)[-1]["seconds"] > 3600
    jobs = graph.jobs(f"{target}.tsv", f"{target}.tests.tsv")
    counted = Counter(job.split()[0] for job in jobs)
    assert counted["train"] == num_trained and counted["table"] == counted["compare"] == 1
    assert columns(graph, "msmarco", table) == expected
    assert "download 2019qrels-pass.txt" in jobs  # dev and DL 2019 are collected together
    assert any(job.startswith("metrics ") and job.endswith(" dl19") for job in jobs) == (
        "dl19/nDCG@10" in expected
    )
    assert Path(graph.inputs(f"table msmarco {table}")[-1]).is_file()  # published figures


NOT_PUBLISHED = {  # labels of rows that a table of the papers' scale has besides the published methods
    ("table1", "msmarco"): {"BM25, k1 .9 and b .4 as DPR"},  # of the columns of nq and tqa
    ("table2", "msmarco"): {"BERT, not fine-tuned", "BERT", "BM25"},
    ("table3", "msmarco"): {  # of EVAL: none of its rows stands beside ours
        *("coCondenser + hard negatives", "reranked, from BERT", "reranked, from the Condenser"),
        "reranked, ensemble of both",
    },
    ("table7", "msmarco"): {"BERT, not fine-tuned", "BERT"},
    ("low_data", "msmarco"): set(),
    ("low_data", "nq"): set(),
    ("low_data", "tqa"): set(),
    ("low_data", "stsb"): {"BERT, not fine-tuned"},
    ("low_data", "wikisection"): {"BERT, not fine-tuned", "BiLSTM"},  # at the small sizes
    ("continued", "msmarco"): set(),
    ("full_train", "msmarco"): {
        *("BERT + hard negatives of its own", "Condenser w/o hard negatives"),
        "coCondenser + hard negatives",
    },
    ("full_train", "nq"): {"Condenser w/o hard negatives"},
    ("full_train", "tqa"): {"Condenser w/o hard negatives"},
    ("full_train", "msmarco_doc"): set(),
    ("expanded", "msmarco"): set(),
    ("deepct", "msmarco"): set(),
    ("ance", "msmarco"): {
        *("RoBERTa, warm-up of ANCE", "ANCE, 1 round", "ANCE, 2 rounds", "ANCE, 3 rounds"),
    },
    ("ance", "nq"): {"ANCE, 1 round"},
    ("ance", "tqa"): {"ANCE, 1 round"},
    ("ance", "msmarco_doc"): {
        *("RoBERTa, warm-up of ANCE", "ANCE, 1 round", "ANCE, 2 rounds", "ANCE, 3 rounds"),
    },
    ("rocketqa", "msmarco"): set(),
    ("rocketqa", "nq"): {"RocketQA, cross-batch negatives"},
    ("rocketqa_quoted", "msmarco"): {"RocketQA, reranked"},
    ("interaction", "msmarco"): {"ME-BERT, BM25's negatives", "ColBERT", "TCT, labels alone"},
    ("interaction", "msmarco_doc"): {"ME-BERT, BM25's negatives"},
    ("interaction_coc", "msmarco"): {
        *("C-COIL, BM25's negatives, not reranked", "C-COIL, not reranked"),
    },
    ("paq", "msmarco"): set(),
    ("paq", "nq"): set(),
}


@pytest.mark.parametrize(("table", "dataset"), NOT_PUBLISHED)
def test_the_labels_of_the_papers_scale_are_those_of_the_published_methods(
    papers: Config, table: str, dataset: str
) -> None:
    """Else no figure would stand beside ours."""
    entry, rows = shown.table_entry(papers, dataset, table), shown.table_rows(papers, dataset, table)
    figures = published.rows_of([published.file(name) for name in entry.published])
    theirs = {
        (row.method, row.train_queries) for row in figures if any(of[0] == dataset for of in row.figures)
    }
    ours = {(row["method"], str(row["train_queries"])) for row in rows}
    assert {method for method, _ in ours - theirs} == NOT_PUBLISHED[table, dataset]


def test_no_table_with_published_figures_is_forgotten_above(papers: Config) -> None:
    for table in papers.tables:
        for dataset in published.OFFICIAL:
            entry = shown.table_entry(papers, dataset, table)
            rows = published.rows_of([published.file(name) for name in entry.published])
            has_figures = any(of[0] == dataset for row in rows for of in row.figures)
            if (table, dataset) in NOT_PUBLISHED:
                assert has_figures
            elif has_figures:  # the columns of nq and tqa in table1, which the others leave out
                assert table in ("table1", "expanded", "deepct", "interaction_coc", "paq", "rocketqa_quoted")


def test_no_model_of_condensers_table_5_is_trained_on_ms_marco(papers: Config) -> None:
    """Condenser, section 4.4."""
    read = {
        model.corpus_for("msmarco")
        for row in shown.table_rows(papers, "msmarco", "low_data")
        if hasattr(papers.systems[row["system"]], "initial")
        for model in papers.systems[row["system"]].start_model.chain[:-1]
    }
    assert read == {"wikibook", "wikipedia-paragraphs"}


def test_each_table_has_the_bm25_of_its_paper(papers: Config) -> None:
    """The tuned pair has .187 and .857, Anserini's default .184 to .189 and .853; DPR took the default."""
    for table, dataset in NOT_PUBLISHED:
        for row in shown.table_rows(papers, dataset, table):
            if row["method"] == "BM25":
                system = papers.systems[row["system"]]
                expected = (0.9, 0.4) if table in ("low_data", "full_train") else (0.82, 0.68)
                assert (system.k1, system.b) == expected, table
    tuned, default = (
        papers.systems[row["system"]] for row in shown.table_rows(papers, "msmarco", "table1")[:2]
    )
    assert (tuned.k1, tuned.b, default.k1, default.b) == (0.82, 0.68, 0.9, 0.4)


@pytest.mark.parametrize("dataset", ["nq", "tqa"])
def test_the_condenser_mines_the_hard_negatives_of_dpr(papers: Config, dataset: str) -> None:
    """Condenser, section 4.3, on TriviaQA; on Natural Questions DPR's file takes their place."""
    rows = {row["method"]: row["system"] for row in shown.table_rows(papers, dataset, "full_train")}
    assert papers.systems[rows["DPR + hard negatives"]].negatives == ["bm25", "condenser-round1"]
    assert papers.systems[rows["DPR + hard negatives"]].initial == "backbone"
    assert "condenser-round1" in papers.datasets["nq"].released


def test_figure_4_of_the_first_version_has_the_continued_condenser(papers: Config, load: Load) -> None:
    for config in (papers, load().settings):
        figure = shown.figure_settings(config, "msmarco", "train_size")
        assert "Condenser, continued on the collection" in {row["method"] for row in figure.rows}
        measures = shown.table_entry(config, "msmarco", figure.table).measures
        assert measures == ["MRR@10", "R@100", "R@1000"]
    of_nq = shown.figure_settings(papers, "nq", "train_size")
    assert {row["system"] for row in of_nq.rows} == {"backbone-round1", "condenser-round1"}


SUBSTITUTES = {  # rows of which the papers' own model is not made here, and the table that has ours
    ("condenser_table3", "ICT"): None,
    ("condenser_table5", "ICT"): None,
    ("cocondenser_table3", "coCondenser"): "results/msmarco/table3.tsv",
    ("cocondenser_table3", "C-COIL"): None,
    ("condenser_table2", "skip-thoughts"): None,
    ("condenser_table6", "TCT"): None,
    **{(table, "ME-BERT"): None for table in ("cocondenser_table1", "condenser_table6", "condenser_table8")},
    **{
        (table, f"RocketQA{step}"): None
        for table in ("cocondenser_table2", "condenser_table7")
        for step in (
            *(", cross-batch negatives", " + hard negatives", " + denoising", " + data augmentation"),
        )
    },
    ("cocondenser_table1", "RocketQA"): None,
    ("cocondenser_table3", "RocketQA"): "results/msmarco/rocketqa_quoted.tsv",
    ("condenser_table4", "RocketQA"): None,
    ("condenser_table6", "RocketQA, no external data"): None,
}


def published_rows(papers: Config) -> list[tuple[str, str, str, str]]:
    """Of every published row its table, method, the targets that have it, and how they come to it."""
    targets: dict[tuple[str, str], list[str]] = {}
    is_fine_tuned: dict[tuple[str, str], bool] = {}
    for table, dataset in NOT_PUBLISHED:
        ours = {row["method"]: row["system"] for row in shown.table_rows(papers, dataset, table)}
        for name in shown.table_entry(papers, dataset, table).published:
            for row in published.rows_of([published.file(name)]):
                if row.method in ours and any(of[0] == dataset for of in row.figures):
                    found = targets.setdefault((name, row.method), [])
                    if (target := f"results/{dataset}/{table}.tsv") not in found:
                        found.append(target)
                    behind = papers.systems_behind([ours[row.method]])  # itself, and those of its model
                    is_fine_tuned[name, row.method] = any(
                        papers.systems[one].is_trained or papers.systems[one].learns_terms for one in behind
                    )
    lines = []
    for name in published.names():
        for method in dict.fromkeys(row.method for row in published.rows_of([published.file(name)])):
            key, status = (name, method), "published only"
            if key in SUBSTITUTES:
                status = "substitute"
                targets.setdefault(key, [SUBSTITUTES[key]] if SUBSTITUTES[key] else [])
            elif key in targets:
                status = "trained" if is_fine_tuned[key] else "measured"
            lines.append((name, method, ", ".join(targets.get(key, [])), status))
    return lines


def test_the_page_lists_every_published_row_with_its_target_and_status(papers: Config, root: Path) -> None:
    """Its last column says why a row is not trained or measured, and is written by hand."""
    header, *lines = (root / "docs/published_rows.tsv").read_text().splitlines()
    assert header.split("\t") == ["table", "row", "targets", "status", "in_small", "reason"]
    cells = [tuple(line.split("\t")) for line in lines]
    rows = published_rows(papers)
    assert [row[:4] for row in cells] == rows
    for _, method, _, status, _, reason in cells:
        assert bool(reason) or status in ("trained", "measured"), method
    counted = Counter(status for *_, status in rows)
    said = f"its {len(rows)} rows we train {counted['trained']}, "
    said += f"measure {counted['measured']} that need no training, "
    said += f"replace {counted['substitute']} by a similar system, and only quote {counted['published only']}"
    said += f". {sum(bool(row[4]) for row in cells)} have been made and measured in small"
    page = (root / "docs/papers.md").read_text()
    assert said in " ".join(page.split()) and "(published_rows.tsv)" in page


def test_orqas_checkpoint_in_a_folder_is_the_papers_ict(load: Load, tmp_path: Path) -> None:
    BertConfig(vocab_size=40).save_pretrained(tmp_path)  # 512 positions, as the documents need
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).touch()
    orqa = {"objective": "checkpoint", "source": "folder", "path": str(tmp_path), "pooling": "cls"}
    system = {"kind": "biencoder", "label": "ICT", "initial": "orqa", "negatives": ["bm25"]}
    overlay = {"models": {"orqa": orqa}, "systems": {"orqa-round1": system}}
    graph = load({**overlay, "tables": {"low_data": {"rows": ["bm25", "orqa-round1"]}}}, configfile=PAPER)
    jobs = graph.jobs("results/msmarco/low_data.tsv")
    assert "checkpoint msmarco-documents orqa" in jobs and "train msmarco orqa-round1 n1000-seed1" in jobs
    settings = spec_of(graph, "msmarco", "low_data")
    theirs = published.rows_of([published.file(name) for name in settings["published"]])
    sizes = {str(row["train_queries"]) for row in settings["rows"] if row["method"] == "ICT"}
    assert sizes == {row.train_queries for row in theirs if row.method == "ICT"} == {"1000", "10000", "all"}


def test_a_subset_is_drawn_from_the_queries_that_the_official_triples_have(load: Load) -> None:
    graph = load(configfile=PAPER)
    graph.jobs("results/msmarco/low_data.tsv")
    assert graph.inputs("subset msmarco n1000-seed2") == [
        *("results/msmarco/data/queries.train.jsonl", "results/msmarco/systems/bm25/seed2/examples.jsonl"),
    ]
    default = load()
    default.jobs("results/msmarco/low_data.tsv")
    assert default.inputs("subset msmarco n250-seed2") == ["results/msmarco/data/queries.train.jsonl"]


def test_a_small_size_has_epochs_of_its_own_unless_the_system_says_how_many(load: Load) -> None:
    systems = {"backbone-round1": {"recipe": {"epochs": 2}}}
    for overlay, expected in (({}, [40, 10, 3]), ({"systems": systems}, [2, 2, 2])):
        graph = load(overlay, configfile=PAPER)
        graph.jobs("results/msmarco/low_data.tsv")
        assert [
            graph.spec(f"train msmarco backbone-round1 {variant}")["config"]["recipe"]["epochs"]
            for variant in ("n1000-seed1", "n10000-seed1", "seed1")
        ] == expected


def test_a_column_of_another_data_set_is_of_the_same_systems_trained_there(load: Load) -> None:
    without = load()
    jobs = without.jobs("results/msmarco/table1.tsv")
    assert {job.split()[1] for job in jobs} == {"msmarco"}
    assert spec_of(without, "msmarco", "table1")["left_out"] == [
        *("nq/hits@5", "nq/hits@20", "nq/hits@100", "tqa/hits@5", "tqa/hits@20", "tqa/hits@100"),
    ]
    graph = load({"datasets": QUESTIONS})
    jobs = graph.jobs("results/msmarco/table1.tsv", "results/msmarco/table1.tests.tsv")
    assert "train nq cocondenser-round2 seed42" in jobs and "pretrain nq cocondenser" in jobs
    assert columns(graph, "msmarco", "table1") == [
        *("MRR@10", "R@1000", "nq/hits@5", "nq/hits@20", "nq/hits@100"),
    ]
    files = graph.inputs("table msmarco table1")
    assert [file for file in files if file.endswith("counts.json")] == [
        *("results/msmarco/data/counts.json", "results/nq/data/counts.json"),
    ]
    metrics = [file for file in files if "/metrics." in file and not file.endswith(".manifest.json")]
    assert [file.split("/")[1] for file in metrics] == ["msmarco"] * 3 + ["nq"] * 3
    assert graph.inputs("compare msmarco table1") == metrics


def test_tables_of_questions_and_documents_have_measures_and_figures_of_their_own(load: Load) -> None:
    documents = {**QUESTIONS["nq"], "measures": ["MRR@100"]}
    graph = load({"datasets": {**QUESTIONS, "squad": QUESTIONS["nq"], "msmarco_doc": documents}})
    graph.jobs(
        *(f"results/{name}.tsv" for name in ("nq/full_train", "squad/low_data", "msmarco_doc/full_train"))
    )
    assert columns(graph, "nq", "full_train") == ["hits@5", "hits@20", "hits@100"]
    assert spec_of(graph, "nq", "full_train")["published"] == ["condenser_table4"]
    assert spec_of(graph, "squad", "low_data")["published"] == ["condenser_table3"]
    of_documents = spec_of(graph, "msmarco_doc", "full_train")
    assert [row["system"] for row in of_documents["rows"]] == [
        *("bm25", "backbone-round1", "condenser-round1", "condenser-round2"),
    ]
    assert columns(graph, "msmarco_doc", "full_train") == ["MRR@100"]
    assert of_documents["left_out"] == ["dl19/nDCG@10"]


def test_learner_and_miner_are_two_names(load: Load) -> None:
    graph = load()
    graph.jobs("results/msmarco/full_train.tsv")
    mined = "results/msmarco/systems/{}/seed42/examples.jsonl"
    job = "train msmarco backbone-round2-condenser seed42"
    assert mined.format("condenser-round1") in graph.inputs(job)
    assert "results/msmarco/models/backbone/model.safetensors" in graph.inputs(job)
    assert mined.format("backbone-round1") in graph.inputs("train msmarco backbone-round2 seed42")


def test_the_continued_condenser_starts_from_the_condenser_on_the_collection(load: Load) -> None:
    graph = load(configfile=PAPER)
    jobs = graph.jobs("results/msmarco/continued.tsv")
    assert "pretrain msmarco-documents condenser-ct" not in jobs
    job = "pretrain msmarco condenser-ct"  # the passages, as v1 §5.4
    assert "results/wikibook/models/condenser/model.safetensors" in graph.inputs(job)
    settings = graph.spec(job)["config"]["model"]
    assert (settings["learning_rate"], settings["epochs"], settings["batch_size"]) == (5e-6, 8, 1024)
