"""Dry runs: offline, at the papers' scale, and with a configuration that is wrong."""

from __future__ import annotations

import functools
import re
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs import Graph, Load, refusal

from condenser.pipeline.specs import unknown_name
from condenser.settings import merged

PAPER = "configs/paper.yaml"


def snakemake(root: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A dry run of the real Snakefile in an empty folder."""
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments, "--snakefile", str(root / "Snakefile"), "-n"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_bytes((root / "config.yaml").read_bytes())
    return tmp_path


@pytest.fixture(scope="module")
def default(load: Load) -> Graph:
    return load()


def jobs(said: str) -> dict[str, int]:
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", said, flags=re.MULTILINE)}


@pytest.fixture(scope="module")
def planned(root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a dry run of the default's table says."""
    folder = tmp_path_factory.mktemp("planned")
    (folder / "config.yaml").write_bytes((root / "config.yaml").read_bytes())
    done = snakemake(root, folder, "results/msmarco/table2.tsv")
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_dry_run_has_the_jobs_of_the_graph_and_the_default_is_table_2_of_msmarco(
    planned: str, load: Load
) -> None:
    assert load().default_targets() == ["results/msmarco/table2.tsv"]
    counted = jobs(planned)
    assert counted["table"] == 1 and counted["train"] == 5
    by_rule = Counter(job.split()[0] for job in load().jobs("results/msmarco/table2.tsv"))
    by_rule["collect_msmarco"] = by_rule.pop("collect")
    assert {name: counted[name] for name in by_rule} == by_rule  # the other tests ask `load` alone


OTHER_DATASETS = {  # besides msmarco, what has a target of this name
    "low_data": ["nq", "tqa", "squad", "stsb", "wikisection"],
    "full_train": ["nq", "tqa", "squad", "msmarco_doc"],
    "rocketqa": ["nq"],
    "interaction": ["msmarco_doc"],
    "paq": ["nq"],
    "train_size": ["nq", "stsb", "wikisection"],
    "loss_curve": ["nq", "stsb", "wikisection"],
    "costs": ["nq", "tqa", "squad", "msmarco_doc", "stsb", "wikisection"],
}


@pytest.mark.ci
def test_every_target_of_the_papers_is_planned_offline_at_their_scale(
    root: Path, folder: Path, load: Load
) -> None:
    *_, targets = (root / "docs/papers.md").read_text().partition("## Targets")
    named = re.findall(r"`(?:results/[^/`]+/)?(\w+)\.(tsv|svg)`", targets.partition("\n## ")[0])
    assert {"table1", "table3", "low_data", "costs"} <= {name for name, _ in named}
    files = {
        f"results/{dataset}/{name}.{ending}"
        for name, ending in named
        for dataset in ("msmarco", *OTHER_DATASETS.get(name, []))
    }
    names = ("paper", "qa", "recurrent", "ance", "expansions", "deepct", "rocketqa", "interaction", "paq")
    overlays = [root / "configs" / f"{name}.yaml" for name in names]
    (folder.parent / "expansions").mkdir(exist_ok=True)  # a user's files
    for name in re.findall(r"\.\./expansions/([\w.-]+)", (root / "configs/expansions.yaml").read_text()):
        (folder.parent / "expansions" / name).touch()
    (folder.parent / "glove.840B.300d.txt").touch()
    graph = load(functools.reduce(merged, (yaml.safe_load(file.read_text()) for file in overlays)))
    assert "collect nli" in graph.jobs(*files)


@pytest.mark.parametrize(
    ("overlay", "tables"),
    [
        ({"datasets": {"mine": {"source": "pydoc"}}}, ["mine/table2"]),
        ({"tables": {"few": {"rows": ["bm25"], "measures": ["MRR@10"]}}}, ["msmarco/few"]),
        (
            {"datasets": {"msmarco": {}, "wiki": {"source": "hub_text", "parts": [{"id": "a/b"}]}}},
            ["msmarco/table2"],
        ),
        ({"seed": 1}, ["msmarco/table2"]),
    ],
)
def test_without_a_target_the_tables_that_the_overlay_speaks_of_are_made(
    load: Load, overlay: dict[str, Any], tables: list[str]
) -> None:
    assert load(overlay).default_targets() == [f"results/{name}.tsv" for name in tables]


def test_the_papers_scale_is_planned_offline_with_its_official_files(load: Load) -> None:
    graph = load(configfile=PAPER)
    jobs = graph.jobs("results/msmarco/table2.tsv")
    counted = Counter(job.split()[0] for job in jobs)
    assert counted["pretrain"] == 2 and "collect wikibook" in jobs
    assert counted["tokens"] == 3 * 16 and counted["encode"] == 6 * 16
    downloads = ("collectionandqueries.tar.gz", "marco.tar.gz", "msmarco-docs.tsv.gz")
    assert {f"download {name}" for name in downloads} <= set(jobs)
    assert {"pretrain wikibook condenser", "pretrain msmarco-documents cocondenser"} <= set(jobs)
    triples = "results/downloads/qidpidtriples.train.full.2.tsv.gz"
    assert triples in graph.inputs("examples msmarco bm25 seed42")


def test_the_papers_cocondenser_reads_documents_or_by_one_line_passages(load: Load) -> None:
    documents = load(configfile=PAPER)
    documents.jobs("results/msmarco/table2.tsv")
    name = "pretrain msmarco-documents cocondenser"
    files = documents.inputs(name)
    assert files.count("results/msmarco-documents/data/doc_ids.txt") == 1
    assert sum(file.startswith("results/msmarco-documents/tokens/backbone/") for file in files) == 16
    assert "results/wikibook/models/condenser/model.safetensors" in files
    assert name in documents.parents("train msmarco cocondenser-round1 seed42")
    assert documents.parents("collect msmarco-documents") == {"download msmarco-docs.tsv.gz"}

    passages = load({"datasets": {"msmarco": {"documents": None}}}, configfile=PAPER)
    jobs = passages.jobs("results/msmarco/table2.tsv")
    assert "pretrain msmarco cocondenser" in jobs
    assert not [job for job in jobs if "msmarco-docs" in job or "msmarco-documents" in job]


QA = yaml.safe_load(Path(__file__).parents[2].joinpath("configs/qa.yaml").read_text())


@pytest.mark.parametrize(
    ("dataset", "file"), [("nq", "biencoder-nq-train"), ("tqa", "biencoder-trivia-train")]
)
def test_question_answering_is_planned_offline_with_dprs_files(load: Load, dataset: str, file: str) -> None:
    graph = load(QA, configfile=PAPER)
    jobs = graph.jobs(f"results/{dataset}/full_train.tsv")
    assert {"collect wikipedia", "pretrain wikipedia cocondenser", f"collect {dataset}"} <= set(jobs)
    assert {f"download {file}.json.gz", "download psgs_w100.tsv.gz"} <= graph.parents(f"collect {dataset}")
    (articles,) = graph.settings.datasets["wikipedia"].parts  # coC §3.2: spans of one article
    assert articles.whole_rows
    given = graph.inputs(f"examples {dataset} bm25 seed42")
    assert f"results/downloads/{file}.json.gz" in given
    assert f"bm25_run {dataset} bm25 untrained train" not in jobs
    for system in ("condenser-round1", "cocondenser-round1"):
        mined = graph.inputs(f"examples {dataset} {system} seed42")
        is_released = dataset == "nq" and system == "condenser-round1"
        assert ("results/downloads/biencoder-nq-adv-hn-train.json.gz" in mined) is is_released
        # passages with an answer are no negatives
        assert (f"results/{dataset}/data/collection.jsonl" in mined) is not is_released
    own = load(merged(QA, {"datasets": {dataset: {"hard_negatives": None}}}), configfile=PAPER)
    assert f"bm25_run {dataset} bm25 untrained train" in own.jobs(f"results/{dataset}/full_train.tsv")
    assert graph.plan(dataset, "full_train")[-1]["seconds"] > 3600


@pytest.mark.parametrize(
    ("split", "queries"), [("dev", "msmarco-docdev-queries.tsv.gz"), ("dl19", "2019qrels-docs.txt")]
)
def test_documents_are_planned_offline_with_their_official_files(
    load: Load, split: str, queries: str
) -> None:
    graph = load(configfile=PAPER)
    jobs = graph.jobs("results/msmarco_doc/full_train.tsv")
    bm25 = f"metrics msmarco_doc bm25-anserini untrained {split}"
    assert {"pretrain wikibook condenser", bm25} <= set(jobs)
    assert {
        "download msmarco-docs.tsv.gz",
        f"download {queries}",
        "download msmarco-doctrain-qrels.tsv.gz",
    } <= (graph.parents("collect msmarco_doc"))
    assert graph.plan("msmarco_doc", "full_train")[-1]["seconds"] > 3600


@pytest.mark.parametrize(("overlay", "is_fetched"), [({}, False), (QA, True)])
def test_files_of_question_answering_are_fetched_with_their_overlay_alone(
    load: Load, overlay: dict[str, Any], is_fetched: bool
) -> None:
    files = load(overlay, configfile=PAPER).inputs_of_rule("prefetch")
    assert "results/downloads/msmarco-docs.tsv.gz" in files
    for name in ("psgs_w100.tsv.gz", "biencoder-nq-train.json.gz", "trivia-test.qa.csv.gz"):
        assert (f"results/downloads/{name}" in files) is is_fetched


@pytest.mark.ci
def test_a_table_with_compare_with_makes_its_tests_where_queries_are_judged(root: Path, folder: Path) -> None:
    tiny = {"source": "beir", "path": str(root / "tests" / "data" / "tiny"), "train_split": None}
    datasets = {"judged": {**tiny, "eval_split": "dev"}, "texts": {**tiny, "eval_split": None}}
    (folder / "overlay.yaml").write_text(yaml.safe_dump({"datasets": datasets}))
    targets = [f"results/{name}/plain.tsv" for name in datasets]
    done = snakemake(root, folder, *targets, "--configfile", "overlay.yaml")
    assert done.returncode == 0, done.stdout
    assert re.findall(r" output: (\S+\.tests\.tsv)", done.stdout) == ["results/judged/plain.tests.tsv"]
    assert not re.search(r"^rule (train|pretrain):", done.stdout, flags=re.MULTILINE)


def test_documents_serve_the_models_alone(load: Load) -> None:
    graph = load(configfile="configs/documents.yaml")
    jobs = graph.jobs("results/msmarco/table2.tsv", "results/msmarco/adapt.tsv")
    assert {job.split()[1] for job in jobs if job.split()[0] in ("pretrain", "checkpoint")} == {"docstrings"}
    assert {job.split()[1] for job in jobs if job.split()[0] in ("train", "encode", "bm25_index")} == {
        "msmarco"
    }
    assert {job for job in jobs if job.startswith("tokens ")} == {
        "tokens docstrings backbone 0-of-1", "tokens msmarco backbone 0-of-1",
    }  # fmt: skip
    assert graph.plan("msmarco", "table2", "Xeon")[-1]["seconds"] > 600


def test_labels_are_drawn_twice_a_size(load: Load) -> None:
    jobs = load(configfile="configs/labels.yaml").jobs("results/msmarco/labels.svg")
    variants = {f"n{size}-seed{seed}" for size in (50, 200, 1000) for seed in (1, 2)}
    learnt = {job.split()[-1] for job in jobs if job.startswith("fusion_weights msmarco hybrid-learnt ")}
    trained = {job.split()[-1] for job in jobs if job.startswith("train msmarco retriever ")}
    assert learnt == variants
    # twins of all but the held-out queries, for the weights; below 500 labels none are held out
    assert trained == variants | {"crossfit-n1000-seed1", "crossfit-n1000-seed2"}


def test_each_ablation_is_pretrained_for_each_seed(load: Load) -> None:
    graph = load(configfile="configs/ablations.yaml")
    rows = graph.config["tables"]["ablations"]["rows"]
    models = {graph.config["systems"][row]["initial"] for row in rows} - {"backbone"}
    pretrained = {
        job.split()[2]
        for job in graph.jobs("results/msmarco/ablations.tests.tsv")
        if job.startswith("pretrain ")
    }
    assert (
        pretrained == {f"{model}-seed{seed}" for model in models for seed in (1, 2, 3)} and len(models) == 11
    )


def test_the_four_ways_of_the_claim_differ_in_head_and_contrast_alone(load: Load) -> None:
    texts = {"source": "beir", "path": "tests/data/tiny"}
    graph = load({"datasets": {"plain": texts, "mine": texts}}, configfile="configs/claim.yaml")
    jobs = graph.jobs("results/mine/claim.tests.tsv", "results/mine/claim_differences.svg")
    assert "pretrain plain bert" in jobs and sum(job.startswith("pretrain mine more-") for job in jobs) == 20
    arms = [dict(graph.config["models"][f"more-{name}"]) for name in ("mlm", "head", "contrast", "both")]
    parts = [(arm.pop("new_head")["num_head_layers"], arm.pop("contrastive_weight")) for arm in arms]
    assert parts == [(0, 0), (2, 0), (0, 1), (2, 1)] and all(arm == arms[0] for arm in arms)


@pytest.mark.weekly
def test_five_hundred_shards_are_planned_in_seconds(root: Path, folder: Path) -> None:
    (folder / "overlay.yaml").write_text("shards: 500\n")
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    done = snakemake(
        root, folder, "results/msmarco/table2.tsv", "--quiet", "all",
        "--configfile", str(root / PAPER), "overlay.yaml",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    seconds = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before
    print(f"{seconds:.1f} s of a processor")
    assert seconds < 60  # 9 on a quiet Xeon, 25 on a busy EPYC; 145 while jobs were walked n times


def test_a_missing_file_of_ones_own_is_one_line(load: Load) -> None:
    """All other mistakes: tests/unit/test_config.py."""
    said = refusal(lambda: load({"datasets": {"mine": {"source": "tsv", "path": "."}}}))
    assert said.startswith("error: config: datasets.mine.path: expected the file collection.tsv")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nshards: 2\nseed: 3\n", ":3: seed: expected each key once, got it in line 1 already."),
        ("a: &a {b: 1}\nc: *a\n", "error: config: a: unknown key."),
        # true would run it here, before the workflow is asked
        ("seed: 1\n__use_yte__: false\n", ":2: __use_yte__: expected settings"),
    ],
)
def test_a_key_that_a_file_gives_twice_or_a_program_is_refused_with_its_line(
    load: Load, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    said = refusal(lambda: load(configfile=str(file)))
    assert said.startswith(f"error: {file}{message}" if message.startswith(":") else message)


@pytest.mark.parametrize(
    ("target", "option"),
    [
        ("results/msmarco/table2.tsv", "--configfile theirs.yaml"),
        ("search", "-n --configfiles mine.yaml theirs.yaml"),
    ],
)
def test_make_runs_no_program_that_an_overlay_asks_for(
    root: Path, folder: Path, target: str, option: str
) -> None:
    (folder / "workflow_scripts").symlink_to(root / "workflow_scripts")
    (folder / "mine.yaml").write_text("seed: 1\n")
    (folder / "theirs.yaml").write_text(
        "__use_yte__: true\n__variables__:\n  x: 1\nseed: ?__import__('pathlib').Path('ran').touch() or 42\n"
    )
    made = [
        "make",
        "-f",
        root / "Makefile",
        "-o",
        ".venv/ready",
        f"PYTHONPATH={root}",
        f"BIN={root}/.venv/bin",
    ]
    done = subprocess.run(
        [*made, target, f"SNAKEMAKE_ARGS={option} --snakefile {root}/Snakefile"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and not (folder / "ran").exists()
    assert "error: theirs.yaml:1: __use_yte__: expected settings" in done.stdout
    assert "Traceback" not in done.stdout


def test_snakemake_says_that_line_and_ends_with_a_bad_status(root: Path, folder: Path) -> None:
    (folder / "overlay.yaml").write_text("models: {condenser: {learning_rates: 1.0}}\n")
    done = snakemake(root, folder, "--configfile", "overlay.yaml")
    assert done.returncode != 0
    lines = [line for line in done.stdout.splitlines() if "error: config:" in line]
    assert lines == [
        "error: config: models.condenser.learning_rates: unknown key. Did you mean learning_rate?"
    ]
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("results/nowhere/table2.tsv", "expected a dataset of the configuration (msmarco, "),
        ("results/msmarco/table9.tsv", "expected a table of the configuration (table2, "),
        (
            "results/msmarco/systems/tf-idf/seed42/run.dev.trec",
            "expected a system of the configuration (bm25, ",
        ),
        (
            "results/msmarco/systems/bm25/42/run.dev.trec",
            "expected a variant such as seed42, n1000-seed42 or",
        ),
        (
            "results/msmarco/systems/cocondenser-round5/seed42/run.dev.trec",
            "expected a system of the configuration (bm25, ",
        ),
        ("results/msmarco/models/gpt/model.safetensors", "expected a model of the configuration (backbone, "),
        ("results/msmarco/table2.tsv", None),
        ("results/msmarco/systems/bm25/untrained/run.dev.trec", None),
        ("elsewhere/table2.tsv", None),
    ],
)
def test_a_name_that_the_configuration_lacks_is_said(
    default: Graph, result: str, message: str | None
) -> None:
    said = unknown_name(default.settings, result)
    assert said is None if message is None else said is not None and said.startswith(message)


def test_snakemake_says_in_one_line_which_name_is_unknown(root: Path, folder: Path) -> None:
    done = snakemake(root, folder, "results/msmarco/table9.tsv")
    assert done.returncode != 0
    lines = [line for line in done.stdout.splitlines() if "table9" in line and "Command" not in line]
    assert len(lines) == 1 and re.fullmatch(
        r"error: results/msmarco/table9\.tsv: expected a table of the configuration \(table2, .*\), "
        r"got table9\. Did you mean table7\?",
        lines[0],
    )
    assert "Traceback" not in done.stdout and "input functions" not in done.stdout


def test_snakemake_says_where_the_files_stand_that_it_can_make(root: Path, folder: Path) -> None:
    done = snakemake(root, folder, "results/msmarco/runs/cocondenser-round5.dev.trec")
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1] == (
        "error: results/msmarco/runs/cocondenser-round5.dev.trec: expected a file that a rule makes, got "
        "another. docs/architecture.md lists them under Places."
    )


def test_a_folder_that_snakemake_cannot_write_to_is_said_in_one_line(root: Path, folder: Path) -> None:
    (folder / ".snakemake").touch()  # root may write anywhere else
    done = snakemake(root, folder, "results/msmarco/table2.tsv")
    assert done.returncode != 0 and "Traceback" not in done.stdout and "locks.py" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("error: .snakemake: File exists. Snakemake itself writes")
