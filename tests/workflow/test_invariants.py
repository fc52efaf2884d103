"""What holds of every job of every configuration: config.yaml, each overlay, and one with all kinds."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import every_kind
import pytest
import yaml
from graphs import Graph, Load, rules
from runs import ROOT

from condenser.settings import merged
from condenser.variants import CROSSFIT

OF_PAIRS = {"recurrent.yaml", "small.yaml"}  # of the studies: these need a user's sentences
FILES = [*sorted(ROOT.glob("configs/*.yaml")), *sorted(ROOT.glob("docs/studies/*/*.yaml"))]
FILES = [file for file in FILES if "studies" not in file.parts or file.name not in OF_PAIRS]
QUICK = ["config", "every_kind"]
STUDIES = [file for file in FILES if "studies" in file.parts]  # their questions are answered, so: weekly
OVERLAYS = [
    *QUICK,
    *(
        pytest.param(file, id=file.name, marks=pytest.mark.weekly if file in STUDIES else pytest.mark.ci)
        for file in FILES
    ),
]
TRAININGS = {"train", "train_sentences", "term_weights"}
NAMED_RUNS = {"fusion": "of", "fusion_weights": "of", "late": "candidates", "rerank": "candidates"}


class Jobs:
    """All jobs that a configuration can have for its tables and figures, and what each reads."""

    def __init__(self, graph: Graph, *more: str) -> None:
        self.graph = graph
        self.names = graph.jobs(*_targets(graph), *more)
        self.rule = {name: graph.job(name)[0] for name in self.names}
        self.names_of = {name: graph.job(name)[1] for name in self.names}
        self.inputs = {name: graph.inputs(name) for name in self.names}
        self.outputs = {name: graph.outputs(name) for name in self.names}

    def of(self, *rules: str) -> Iterator[str]:
        """The jobs of some rules."""
        return (name for name in self.names if self.rule[name] in rules)

    def system(self, name: str) -> dict[str, Any]:
        """The entry of a job's system."""
        return self.graph.config["systems"][self.names_of[name]["system"]]

    def dataset(self, name: str) -> dict[str, Any]:
        """The entry of a job's data set."""
        return self.graph.config["datasets"][self.names_of[name]["dataset"]]

    def behind(self, *names: str, not_by: str = "") -> set[str]:
        """All that some jobs need, not counting what is needed only by the jobs of a rule."""
        found, ahead = set[str](), list(names)
        while ahead:
            name = ahead.pop()
            if self.rule[name] != not_by:
                new = self.graph.parents(name) - found
                found |= new
                ahead += new
        return found

    def reads_train_queries(self, name: str) -> bool:
        """Whether a job reads train queries of its own data set, itself."""
        split = self.dataset(name).get("train_split")
        folder = f"results/{self.names_of[name]['dataset']}/"
        return any(
            file.startswith(folder) and re.search(rf"/(queries|qrels|items)\.{split}\.(?!counts)", file)
            for file in self.inputs[name]
        )


def _targets(graph: Graph) -> list[str]:
    """All tables and figures that can be made."""
    found = []
    for dataset in graph.config["datasets"]:
        for noun, ending in (("tables", "tsv"), ("tables", "tests.tsv"), ("figures", "svg")):
            for name in graph.config[noun]:
                target = f"results/{dataset}/{name}.{ending}"
                try:
                    graph.jobs(target)
                except (LookupError, ValueError, SystemExit):  # of another kind of data set
                    continue
                found.append(target)
    return found


def _documented(file: Path) -> dict[str, Any]:
    """An overlay with those that its first lines name beside it."""
    comment = " ".join(line.strip("# \\") for line in file.read_text().splitlines() if line.startswith("#"))
    files = {file: None}
    for given in re.findall(r"--configfile ((?:\S+\.yaml ?)+)", comment):
        pattern, named = given.split(), []
        for word in pattern:
            first, _, rest = word.partition("{")
            names, _, last = rest.partition("}")
            named += [ROOT / f"{first}{name}{last}" for name in names.split(",")]
        if file in named:
            files = dict.fromkeys(filter(Path.is_file, named))
            break
    overlay = reduce(merged, (yaml.safe_load(one.read_text()) for one in files))
    texts = {"source": "beir", "path": "tests/data/tiny"}  # claim.yaml leaves its data sets to the user
    return merged({"datasets": {"plain": texts, "mine": texts}} if "claim" in file.stem else {}, overlay)


@pytest.fixture(scope="module")
def folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder beside those of a user's own that overlays name."""
    folder = tmp_path_factory.mktemp("mine") / "checkout"
    (folder / "tests").mkdir(parents=True)
    shutil.copy(root / "config.yaml", folder)
    tiny = shutil.copytree(root / "tests" / "data" / "tiny", folder / "tests" / "data" / "tiny")
    shutil.copy(tiny / "qrels" / "dev.tsv", tiny / "qrels" / "test.tsv")
    (folder.parent / "my").mkdir()
    for name in ("squad", "medquad", "texts", "collection", "sympy", "sentences", "sections"):
        (folder.parent / "my" / name).symlink_to(tiny)
    return folder


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_an_overlay_of_a_study_is_valid(root: Path, folder: Path, file: Path) -> None:
    assert Graph(root, folder, _documented(file)).default_targets()


@pytest.fixture(scope="module", params=OVERLAYS)  # so all tests of one overlay follow each other
def jobs(root: Path, folder: Path, request: pytest.FixtureRequest) -> Jobs:
    """The jobs of one overlay."""
    if request.param == "every_kind":
        return Jobs(request.getfixturevalue("load_every_kind")(), *every_kind.TARGETS)
    overlay = {} if request.param == "config" else _documented(request.param)
    return Jobs(Graph(root, folder, merged({"shards": 2}, overlay)))


def test_no_training_reads_an_evaluation_split(jobs: Jobs) -> None:
    """But how long texts are, and of queries without judgements, which are among the judged ones."""
    trained = {*jobs.of(*TRAININGS, "pretrain", "fusion_weights", "best_of")}
    behind = trained | jobs.behind(*trained, not_by="lengths")
    checked = 0
    for name in behind - {*jobs.of("collect", "lengths", "download")}:
        entry = jobs.dataset(name)
        evaluated = {entry.get("eval_split"), *(entry.get("other_eval_splits") or {})}
        evaluated -= {None, entry.get("train_split")}
        known = (
            "qrels|run|metrics" if jobs.rule[name] == "pseudo_labels" else "queries|qrels|items|run|metrics"
        )
        asked = rf"results/{jobs.names_of[name]['dataset']}/.*/({known})\.({'|'.join(evaluated)})\b"
        assert not evaluated or not [file for file in jobs.inputs[name] if re.match(asked, file)], name
        assert jobs.names_of[name].get("split") not in evaluated, name
        checked += bool(evaluated)
    assert checked > 5 or not trained


def test_what_is_judged_on_held_out_queries_was_not_trained_on_them(jobs: Jobs) -> None:
    for name in jobs.of("fusion_weights", "examples", "pseudo_labels", *TRAININGS):
        held_out = [file for file in jobs.inputs[name] if "/held_out/" in file]
        ranked = [jobs.graph.owner(file) for file in jobs.inputs[name] if file.endswith(".held_out.trec")]
        judged = ranked or [name]
        trained = [
            other
            for other in jobs.behind(*judged, not_by="checkpoint")  # its model may be a system of any variant
            if jobs.rule[other] in ("train", "term_weights")
            and jobs.names_of[other]["dataset"] == jobs.names_of[name]["dataset"]
            and jobs.reads_train_queries(other)
        ]
        if jobs.rule[name] == "fusion_weights" and trained:
            assert held_out, f"{name} learns from queries that {trained} learnt from"
        for other in trained if held_out else []:
            assert set(held_out) <= set(jobs.inputs[other]), f"{other} is behind {name}"


def test_a_ranking_of_others_hits_reads_the_runs_that_its_entry_names_and_nothing_else(jobs: Jobs) -> None:
    for name in jobs.of("fusion", "fusion_weights", "late", "rerank"):
        named = jobs.system(name)[NAMED_RUNS[jobs.rule[name]]]
        runs = [file.split("/")[3] for file in jobs.inputs[name] if file.endswith(".trec")]
        size = re.match(r"n(\d+)-", jobs.names_of[name]["variant"])
        has_none_to_hold_out = (
            jobs.rule[name] == "fusion_weights" and size and int(size[1]) < 500 and not runs
        )
        assert has_none_to_hold_out or runs == (named if isinstance(named, list) else [named]), name
        if jobs.rule[name] == "fusion":
            others = {Path(file).name.partition(".")[0] for file in jobs.inputs[name] if "/run." not in file}
            is_learnt = jobs.system(name).get("weights") == "learnt"
            variant = jobs.names_of[name]["variant"]
            assert others - {variant, variant.removeprefix(CROSSFIT)} == (
                {"queries", "weights"} if is_learnt else {"queries"}
            ), name


def test_a_training_reads_the_examples_of_the_systems_that_its_entry_names(jobs: Jobs) -> None:
    for name in jobs.of("train"):
        entry = jobs.system(name)
        named = [f"{system}/{jobs.names_of[name]['variant']}/examples" for system in entry["negatives"]]
        if labels := entry.get("pseudo_labels"):
            named.append(f"{labels['teacher']}/{jobs.names_of[name]['variant']}/pseudo_labels")
        examples = [file for file in jobs.inputs[name] if re.search(r"/(examples|pseudo_labels)\b", file)]
        assert [file.split("/systems/")[1].partition(".")[0] for file in examples] == named, name
        taught = entry.get("distillation")
        runs = [file.split("/")[3] for file in jobs.inputs[name] if file.endswith(".trec")]
        assert runs == ([taught["teacher"]] if taught else []), name
        assert jobs.reads_train_queries(name) == bool(
            entry["negatives"] or (taught or {}).get("queries") == "train"
        )


def test_an_encoder_that_is_not_trained_has_no_train_query_behind_it(jobs: Jobs) -> None:
    models = jobs.graph.config["models"]
    for name in jobs.of("encode", "similarities"):
        entry, of_systems = jobs.system(name), {"system", "best_of"}
        initial, chain = entry["initial"], set()
        while initial in models:
            chain |= {models[initial]["objective"], models[initial].get("source")}
            initial = models[initial].get("initial")
        if entry["train"] or chain & of_systems:
            continue
        behind = {name, *jobs.behind(name, not_by="lengths")} - {*jobs.of("collect", "download")}
        assert not rules(behind) & {*TRAININGS, "examples", "subset", "held_out"}, name
        assert not [other for other in behind if jobs.reads_train_queries(other)], name


def test_a_file_has_one_maker_and_lies_in_no_folder_of_anothers(jobs: Jobs) -> None:
    makers = {file: name for name in jobs.names for file in jobs.outputs[name]}
    assert len(makers) == sum(map(len, jobs.outputs.values()))
    for file, name in makers.items():
        if not file.endswith(".manifest.json"):
            assert jobs.graph.owner(file) == name
        above = {str(folder) for folder in Path(file).parents} & makers.keys()
        assert {makers[folder] for folder in above} <= {name}, file


def test_a_manifest_lies_beside_its_result_under_the_results_name(jobs: Jobs) -> None:
    for name in jobs.names:
        *outputs, manifest = jobs.outputs[name]
        place = manifest.removesuffix(".manifest.json")
        assert place != manifest and all(output.startswith(place) for output in outputs), name


def test_no_job_of_a_variant_reads_what_another_variant_made(jobs: Jobs) -> None:
    """Of another seed or train size; a system without train sizes is made of all its queries.

    Jobs that choose read the rankings of a twin without the held-out queries; a twin reads nothing trained on
    all queries.
    """
    choose = ("fusion_weights", "examples", "pseudo_labels")
    for name in jobs.names:
        names = jobs.names_of[name]
        own = (
            names.get("variant", "").removeprefix(CROSSFIT)
            or (re.search(r"seed\d+$", names.get("model", "")) or [""])[0]
        )
        for other in jobs.graph.parents(name) if own.startswith(("n", "seed")) else ():
            theirs = jobs.names_of[other]
            made = theirs.get("variant", "untrained").removeprefix(CROSSFIT)
            twins = [str(wild.get("variant", "")).startswith(CROSSFIT) for wild in (names, theirs)]
            if twins != [False, False] and jobs.rule[other] in ("train", "term_weights", "merge"):
                assert twins[1] or made == "untrained", f"{name} reads {other}"
                assert twins[0] or jobs.rule[name] in choose, f"{name} reads {other}"
            if theirs.get("dataset") == names["dataset"] and made != "untrained":
                assert made in (own, own.rpartition("-")[2]), f"{name} reads {other}"
            if seed := re.search(r"-(seed\d+)$", theirs.get("model", "")):
                assert own.endswith(seed[1]), f"{name} reads {other}"


def test_the_tests_of_a_table_read_the_metrics_of_its_rows(jobs: Jobs) -> None:
    for name in jobs.of("compare"):
        table = "table " + name.partition(" ")[2]
        metrics = [
            file for file in jobs.inputs[table] if re.search(r"/metrics\.[^/]+(?<!manifest)\.json$", file)
        ]
        assert jobs.inputs[name] == metrics, name


@pytest.fixture(scope="module")
def every(load_every_kind: Callable[..., Graph]) -> Graph:
    return load_every_kind()


def test_a_jobs_inputs_grow_with_the_shards_for_few_rules_only(
    load: Load, load_every_kind: Callable[..., Graph]
) -> None:
    """n jobs with n inputs each would make a graph of hundreds of shards slow to build."""
    graph = load({"shards": 40})
    many = {job for job in graph.jobs("results/msmarco/table2.tsv") if len(graph.inputs(job)) >= 40}
    assert rules(many) == {
        "pretrain",
        "train",
        "merge",
        "lengths",
        "table",
    }  # a table: the manifests of encode
    grown = Counter[str]()
    for shards in (2, 3):
        graph = load_every_kind({"shards": shards})
        for job in graph.jobs(*every_kind.TARGETS):
            assert "-of-" not in job or len(graph.inputs(job)) < 6, job
            grown[job] += (2 * shards - 5) * len(graph.inputs(job))  # minus those of two shards
    more = {job for job, number in grown.items() if number and "-of-" not in job}
    readers = {"rerank", "late", "term_weights", "attention_entropy", "figure"}  # a figure: of costs
    assert rules(more) == rules(many) | readers


def test_every_rule_is_the_name_of_a_program(every: Graph) -> None:
    every.jobs(*every_kind.TARGETS, *every_kind.OTHER_TARGETS)
    programs = {file.stem for file in ROOT.glob("workflow_scripts/*.py")}
    assert rules(every.wildcards) == programs - {"launch", "verify", "ask"}


RANKERS = [
    "bm25",
    "deepct",
    "encoder-zeroshot",
    "cocondenser-round2",
    "late",
    "first",
    "teacher",
    "hybrid",
    "outer",
]


@pytest.mark.parametrize(("name", "like"), [("log", "dev"), ("practice", "train"), ("held-titles", "train")])
def test_every_system_ranks_queries_without_judgements_as_others(every: Graph, name: str, like: str) -> None:
    """A log at the depth of an evaluation, and queries made from passages at that of train queries."""
    maker = {"log": "queries tiny log"}.get(name, f"extracted tiny {name}")
    for system in RANKERS:
        variant = every.settings.systems[system].ranking_variant("seed42")
        place = f"results/tiny/systems/{system}/{variant}/run"
        of_name, of_like = every.jobs(f"{place}.{name}.trec"), every.jobs(f"{place}.{like}.trec")
        renamed = {job if job == maker else re.sub(rf"\b{name}\b", like, job) for job in of_name}
        assert maker in renamed and renamed - {maker} == set(of_like) - {maker}, system
        assert every.spec(of_name[-1])["config"] == every.spec(of_like[-1])["config"], system


def test_queries_without_judgements_change_no_job_but_those_that_rank_them(load: Load) -> None:
    targets = ("results/msmarco/table2.tsv", "results/msmarco/report.html", "results/msmarco/audit.tsv")
    log = {"datasets": {"msmarco": {"queries": {"log": "tests/data/tiny/queries.jsonl"}}}}
    made = {"extracted": {"more": {"views": ["titles"], "passages": [0.0, 1.0], "count": 10}}}
    assert load(merged(log, made)).hashes(*targets) == load().hashes(*targets)
