"""What runs after an edit of a finished run: asked of the manifests, and in the end of Snakemake itself."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphs import Graph, rules
from runs import TARGET, checkout, digests, edit, finished, rows_of, rules_to_run, run, started_rules

from condenser.commands import age_of_model
from condenser.files import read_json, sha256_file, write_json
from condenser.manifest import sealed

BELOW_RUNS = {"train", "encode", "encode_queries", "search", "merge", "examples", "metrics", "table"}
COCONDENSER = "results/tiny/models/cocondenser"


@pytest.fixture(scope="module")
def graph(golden: Path) -> Callable[..., Graph]:
    """The graph of an edited configuration or checkout, over the results in a folder."""

    def load(overlay: dict[str, Any] | None = None, *, root: Path = golden, results: Path = golden) -> Graph:
        return Graph(root, results, overlay or {}, configfile=golden / "configs" / "tiny.yaml")

    return load


def reasons(found: dict[str, list[str]]) -> set[str]:
    return {reason for of_job in found.values() for reason in of_job}


def test_a_finished_run_is_up_to_date(graph: Callable[..., Graph]) -> None:
    assert graph().out_of_date(TARGET) == {}


@pytest.mark.parametrize(
    ("overlay", "expected", "reason"),
    [
        ({"recipes": {"marco": {"learning_rate": 2.0e-3}}}, BELOW_RUNS,
         "setting recipe.learning_rate of train: 0.001 -> 0.002"),
        ({"systems": {"cocondenser-round1": {"recipe": {"lengths": {"passage": 48}}}}}, BELOW_RUNS,
         "setting recipe.lengths.passage of train: 64 -> 48"),
        ({"objectives": {"condenser": {"epochs": 1}}}, BELOW_RUNS | {"pretrain"},
         "setting model.epochs of pretrain: 2 -> 1"),
        ({"recipes": {"marco": {"depth": {"eval": 45}}}}, {"bm25_run", "search", "merge", "metrics", "table"},
         "setting depth of search: 50 -> 45"),
        ({"recipes": {"marco": {"depth": {"eval": 45}}}}, {"bm25_run", "search", "merge", "metrics", "table"},
         "setting depth of bm25_run: 50 -> 45"),
        ({"systems": {"bm25": {"label": "Okapi"}}}, {"table"},
         'setting table.rows of table: '),
    ],
)  # fmt: skip
def test_an_edited_setting_reruns_what_uses_it_and_is_named(
    graph: Callable[..., Graph], overlay: dict[str, Any], expected: set[str], reason: str
) -> None:
    found = graph(overlay).out_of_date(TARGET)
    assert rules(found) == expected
    assert any(one.startswith(reason) for one in reasons(found))


@pytest.mark.ci
def test_a_table_with_compare_with_ends_with_its_best_row_and_follows_the_settings_of_its_tests(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder, plain = copy_of_golden(), "results/tiny/plain.tsv"
    before = digests(folder)
    end = finished(folder, target=plain)
    assert started_rules(end) >= {"late", "compare", "table"}
    best = max(rows_of(folder / plain), key=lambda row: float(row["MRR@10"]))["method"]
    assert re.search(
        f'^"{best}" has the highest MRR@10 .*^To search with it:\n  make search DATASET=tiny SYSTEM=\\w+ ',
        end,
        flags=re.MULTILINE | re.DOTALL,
    )
    after = digests(folder)
    assert {name: after[name] for name in before} == before and "tiny/plain.tests.tsv" in after
    assert rules_to_run(folder, target=plain) == set()
    (folder / "fewer.yaml").write_text("significance: {permutations: 5000}\n")
    assert rules_to_run(folder, target=plain, overlays=["fewer.yaml"]) == {"compare", "table"}


def test_an_edited_module_reruns_only_the_rules_that_import_it_and_is_named(
    golden: Path, graph: Callable[..., Graph], tmp_path: Path
) -> None:
    root = checkout(golden, tmp_path / "edited")
    module = root / "condenser" / "retrieve" / "search.py"
    module.write_text(module.read_text() + "\nANOTHER = 1\n")
    found = graph(root=root).out_of_date(TARGET)
    assert rules(found) == BELOW_RUNS
    assert not any("round1" in job for job in found if job.startswith(("train", "encode")))
    assert found["search tiny cocondenser-round1 seed42 dev 0-of-2"] == ["module condenser.retrieve.search"]


def test_a_model_copied_from_a_run_with_other_settings_is_made_again(
    copy_of_golden: Callable[[], Path], graph: Callable[..., Graph]
) -> None:
    folder = copy_of_golden()
    reseal(
        folder / f"{COCONDENSER}.manifest.json",
        lambda record: record["spec"]["config"]["model"].update(epochs=9),
    )
    found = graph(results=folder).out_of_date(TARGET)
    assert found == {"pretrain tiny cocondenser": ["setting model.epochs of pretrain: 9 -> 2"]}


def test_what_was_made_from_a_model_that_now_has_other_bytes_is_made_again(
    copy_of_golden: Callable[[], Path], graph: Callable[..., Graph]
) -> None:
    folder = copy_of_golden()
    model = folder / COCONDENSER / "model.safetensors"
    flip(model)
    digest = sha256_file(model)
    reseal(  # as if made again by another machine
        folder / f"{COCONDENSER}.manifest.json",
        lambda record: record["outputs"].update({"cocondenser/model.safetensors": digest}),
    )
    found = graph(results=folder).out_of_date(TARGET)
    assert set(found) == {f"train tiny cocondenser-round{number} seed42" for number in (1, 2)}
    assert reasons(found) == {f"{COCONDENSER}/model.safetensors was made again, with other bytes"}


@pytest.mark.parametrize(
    ("file", "job"),
    [
        ("tokens/backbone/collection.0-of-2.num_sentences.npy", "tokens tiny backbone 0-of-2"),
        ("models/cocondenser/tokenizer.json", "pretrain tiny cocondenser"),
        ("models/backbone/config.json", "checkpoint tiny backbone"),
        ("systems/cocondenser-round1/seed42/model/losses.jsonl", "train tiny cocondenser-round1 seed42"),
        ("data/rejected.jsonl", "collect tiny"),
    ],
)
def test_a_result_that_lacks_one_of_its_files_is_made_again(
    copy_of_golden: Callable[[], Path], graph: Callable[..., Graph], file: str, job: str
) -> None:
    folder = copy_of_golden()
    (folder / "results" / "tiny" / file).unlink()
    assert graph(results=folder).out_of_date(TARGET) == {job: [f"results/tiny/{file} is missing"]}


def test_a_user_file_with_other_content_reruns_all_and_one_merely_rewritten_nothing(
    copy_of_golden: Callable[[], Path], graph: Callable[..., Graph]
) -> None:
    folder = copy_of_golden()
    corpus = folder / "tests" / "data" / "tiny" / "corpus.jsonl"
    corpus.write_bytes(corpus.read_bytes())
    assert graph(results=folder).out_of_date(TARGET) == {}
    corpus.write_bytes(corpus.read_bytes().replace(b"graph", b"grape", 1))
    found = graph(results=folder).out_of_date(TARGET)
    assert found["collect tiny"] == ["file corpus.jsonl"]
    assert set(found) == set(graph(results=folder).jobs(TARGET))


# ---- with Snakemake itself -----------------------------------------------------------------------


def test_nothing_runs_after_a_move_a_touch_a_comment_a_reordering_or_with_other_cores(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()  # elsewhere
    made = [path for path in folder.rglob("*") if not path.is_symlink()]
    made.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for second, path in enumerate(made):  # what was made first is now the newest
        os.utime(path, (second, second))
    edit(folder, "config.yaml", "\nseed: 42 ", "\n# a comment\nseed: 42 ")
    loss = folder / "condenser" / "loss" / "contrastive.py"
    loss.write_text(loss.read_text() + "\n# a comment at the end\n")
    overlay = folder / "configs" / "tiny.yaml"
    blocks = overlay.read_text().split("\n\n")
    overlay.write_text("\n\n".join(reversed(blocks)) + "\n")
    # 0: as for files above 1 MB, of which Snakemake knows no checksum
    assert rules_to_run(folder, "--max-checksum-file-size", "0", cores=4) == set()


def test_edits_are_seen_and_named_where_snakemakes_own_records_are_lost(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()
    shutil.rmtree(folder / ".snakemake")
    assert rules_to_run(folder) == set()
    edit(folder, "configs/tiny.yaml", "rows_per_chunk: 16, epochs: 2", "rows_per_chunk: 16, epochs: 1")
    module = folder / "condenser" / "retrieve" / "bm25.py"
    module.write_text(module.read_text() + "\nANOTHER = 1\n")
    said = finished(folder, "-n")
    assert started_rules(said) == BELOW_RUNS | {"pretrain", "bm25_index", "bm25_run"}
    assert "changed: setting model.epochs of pretrain: 2 -> 1" in said
    assert "changed: module condenser.retrieve.bm25" in said
    *_, title, setting, code, hours, last = said.splitlines()
    assert title == "What changed since the last run:" and last.startswith("This was a dry-run")
    assert hours.startswith("By the plan about ")
    assert setting.strip() == "setting model.epochs: 2 -> 1 (pretrain)"
    assert code.strip() == "module condenser.retrieve.bm25 (bm25_index, bm25_run)"


@pytest.mark.ci
def test_a_touch_accepts_an_edit_and_the_manifests_say_so(copy_of_golden: Callable[[], Path]) -> None:
    folder = copy_of_golden()
    module = folder / "condenser" / "evaluate" / "tables.py"
    module.write_text(module.read_text() + "\nANOTHER = 1\n")
    (folder / ".snakemake").rename(folder / ".lost")
    finished(folder, "--touch")
    assert rules_to_run(folder) == set()
    record = read_json(folder / f"{TARGET}.manifest.json")
    (accepted,) = record["accepted"]
    assert accepted["changes"] == ["module condenser.evaluate.tables"]
    assert "0 findings" in finished(folder, target="verify")


def test_verify_finds_damage_what_is_stale_and_what_is_unknown(copy_of_golden: Callable[[], Path]) -> None:
    folder = copy_of_golden()
    (folder / ".snakemake").rename(folder / ".lost")  # the manifests are enough
    for file in folder.rglob("*"):  # but Snakemake then goes by times of change
        os.utime(file, (1, 1))
    flip(folder / "results" / "tiny" / "models" / "condenser" / "model.safetensors")
    (folder / "results" / "tiny" / "stray.npy").touch()
    edit(folder, "configs/tiny.yaml", "depth: {train: 40, eval: 50}", "depth: {train: 40, eval: 45}")
    said = run(folder, target="verify")
    assert said.returncode != 0
    assert "damaged: results/tiny/models/condenser/model.safetensors" in said.stdout
    assert "unknown: results/tiny/stray.npy" in said.stdout
    stale = "stale: results/tiny/systems/bm25/untrained/run.dev.trec.manifest.json: "
    assert f"{stale}setting depth of bm25_run: 50 -> 45" in said.stdout


@pytest.mark.ci
def test_a_missing_file_of_a_result_is_made_again_before_it_is_read(
    golden: Path, copy_of_golden: Callable[[], Path]
) -> None:
    folder = copy_of_golden()
    lost = folder / "results" / "tiny" / "tokens" / "backbone" / "collection.0-of-2.num_sentences.npy"
    lost.unlink()
    edit(folder, "configs/tiny.yaml", "rows_per_chunk: 16, epochs: 2", "rows_per_chunk: 16, epochs: 1")
    said = finished(folder, target="results/tiny/models/condenser/model.safetensors")
    assert started_rules(said) == {"tokens", "pretrain"}
    assert lost.read_bytes() == (golden / lost.relative_to(folder)).read_bytes()


@pytest.mark.ci
def test_a_table_stays_out_of_date_until_a_failed_rule_above_it_has_really_run(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()
    old = (folder / TARGET).read_bytes()
    edit(folder, "configs/tiny.yaml", "rows_per_chunk: 16, epochs: 2", "rows_per_chunk: 16, epochs: 1")
    program = folder / "workflow_scripts" / "pretrain.py"
    whole = program.read_text()
    first = "    settings = job.settings.model\n"
    edit(folder, "workflow_scripts/pretrain.py", first, f'{first}    raise ValueError("broken on purpose")\n')
    failed = run(folder)
    assert failed.returncode != 0
    assert "error: broken on purpose" in failed.stdout
    assert (folder / TARGET).read_bytes() == old  # still there, but:
    assert "table" in rules_to_run(folder)
    program.write_text(whole)
    assert {"pretrain", "train", "table"} <= rules_to_run(folder)
    finished(folder)
    assert rules_to_run(folder) == set()
    assert (folder / TARGET).read_bytes() != old


@pytest.mark.ci
def test_models_are_kept_while_texts_change_until_a_training_is_asked_for(root: Path, tmp_path: Path) -> None:
    folder, keep = checkout(root, tmp_path / "kept"), ["keep.yaml"]
    (folder / "keep.yaml").write_text("datasets: {tiny: {keep_trained: true}}\n")
    (folder / "faster.yaml").write_text("recipes: {marco: {learning_rate: 2.0e-3}}\n")
    record = TARGET.replace(".tsv", ".record.json")
    finished(folder, target=record, overlays=keep)
    assert rules_to_run(folder, target=record, overlays=keep) == set()
    models = [name for name in digests(folder) if name.endswith("model.safetensors")]
    before = digests(folder)
    corpus = folder / "tests/data/tiny/corpus.jsonl"
    first, *others = corpus.read_text().splitlines()
    first = json.dumps(json.loads(first) | {"text": "a set in a graph"})
    new = json.dumps({"_id": "new", "title": "", "text": "an edge between two vertices"})
    corpus.write_text("\n".join([*others, new, first]) + "\n")
    dry = finished(folder, "-n", overlays=keep)
    assert "tiny: 2 of 241 passages are new or changed." in dry
    of_trainings = "pretrain cocondenser, pretrain condenser, train cocondenser-round1 seed42, "
    assert f"tiny: not trained again for the texts that changed: {of_trainings}" in dry
    said = finished(folder, overlays=keep)
    assert not started_rules(said) & {"checkpoint", "pretrain", "train"}
    assert {"encode", "bm25_index", "table"} <= started_rules(said)
    after = digests(folder)
    assert {name: after[name] for name in models} == {name: before[name] for name in models}
    assert rules_to_run(folder, overlays=keep) == set()
    notes = (folder / f"{TARGET}.notes.txt").read_text()
    assert f"cocondenser-round2: {age_of_model(241, 2)}" in notes
    # an edit of what the model depends on, and a request, train again; a request below does too
    assert {"train", "encode"} <= rules_to_run(folder, overlays=[*keep, "faster.yaml"])
    assert "pretrain" not in rules_to_run(folder, overlays=[*keep, "faster.yaml"])
    assert {"pretrain", "train"} <= rules_to_run(folder, "--forcerun", "pretrain", overlays=keep)
    assert {"train", "table"} <= started_rules(finished(folder, "--forcerun", "train", overlays=keep))
    assert "passages; to train it again" not in (folder / f"{TARGET}.notes.txt").read_text()
    assert rules_to_run(folder, overlays=keep) == set()


@pytest.mark.ci
def test_processes_cores_shards_and_folder_change_no_byte_of_runs_metrics_and_table(
    golden: Path, root: Path, tmp_path: Path
) -> None:
    """The one whole run of Snakemake, a process for each job; `golden` is made in one process (made.py)."""
    folder = checkout(root, tmp_path / "another")
    edit(folder, "configs/tiny.yaml", "shards: 2", "shards: 3")
    finished(folder, cores=2)
    here, there = digests(golden), digests(folder)
    compared = [
        name
        for name in here
        if not any(part in name for part in ("/tokens/", "embeddings", "search/", "/last/"))
    ]
    assert len(compared) > 30
    assert {name: there.get(name) for name in compared} == {name: here[name] for name in compared}


def flip(file: Path) -> None:
    """Change one bit."""
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def reseal(manifest: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest and write it as a rule would."""
    record = read_json(manifest)
    del record["sha256"]
    change(record)
    write_json(manifest, sealed(record))
