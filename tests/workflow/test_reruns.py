"""What reruns after an edit, seen with Snakemake itself on a finished run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import TARGET, checkout, digests, edit, finished, rules_to_run, run

from condenser.files import read_json, sha256_file, write_json
from condenser.program import sealed

pytestmark = pytest.mark.workflow

BELOW_RUNS = {"encode", "encode_queries", "search", "merge", "metrics", "table2", "examples", "retriever"}


def test_nothing_runs_after_a_move_a_touch_a_comment_a_reordering_or_with_other_cores(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()  # elsewhere
    made = [path for path in folder.rglob("*") if not path.is_symlink()]
    made.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for second, path in enumerate(made):  # what was made first is now the newest
        os.utime(path, (second, second))
    edit(folder, "config.yaml", "seed: 42 ", "# a comment\nseed: 42 ")
    loss = folder / "condenser" / "loss" / "contrastive.py"
    loss.write_text(loss.read_text() + "\n# a comment at the end\n")
    overlay = folder / "configs" / "tiny.yaml"
    blocks = overlay.read_text().split("\n\n")
    overlay.write_text("\n\n".join(reversed(blocks)) + "\n")
    assert rules_to_run(folder, "--cores", "4") == set()
    # as for files above 1 MB, of which Snakemake knows no checksum
    assert rules_to_run(folder, "--cores", "1", "--max-checksum-file-size", "0") == set()


@pytest.mark.parametrize(
    ("old", "new", "expected", "reason"),
    [
        ("learning_rate: 1.0e-3}", "learning_rate: 2.0e-3}", BELOW_RUNS,
         "setting learning_rate of retriever"),
        ("epochs: 2, max_tokens: 62", "epochs: 1, max_tokens: 62",
         BELOW_RUNS | {"pretrain_condenser", "pretrain_cocondenser"},
         "setting epochs of pretrain_condenser: 2 -> 1"),
    ],
)  # fmt: skip
def test_an_edited_number_reruns_what_uses_it_and_is_named(
    copy_of_golden: Callable[[], Path], old: str, new: str, expected: set[str], reason: str
) -> None:
    folder = copy_of_golden()
    edit(folder, "configs/tiny.yaml", old, new)
    assert rules_to_run(folder) == expected
    assert reason in finished(folder, "-n")


def test_another_depth_of_evaluation_reruns_the_runs_of_those_queries_alone(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()
    for block in ("search", "bm25"):  # one depth for all rows of a table
        edit(folder, "configs/tiny.yaml", f"{block}: {{depth: {{train: 40, eval: 50}}}}",
             f"{block}: {{depth: {{train: 40, eval: 45}}}}")  # fmt: skip
    assert rules_to_run(folder) == {"bm25_run", "search", "merge", "metrics", "table2"}
    said = finished(folder, "-n")
    assert "setting depth of search: 50 -> 45" in said and "setting depth of bm25_run: 50 -> 45" in said


def test_an_edited_module_reruns_only_the_stages_that_import_it_and_is_named(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()
    module = folder / "condenser" / "retrieve" / "search.py"
    module.write_text(module.read_text() + "\nANOTHER = 1\n")
    assert rules_to_run(folder) == {"search", "merge", "examples", "retriever", "encode", "encode_queries",
                                    "metrics", "table2"}  # fmt: skip
    said = finished(folder, "-n")
    assert "module condenser.retrieve.search" in said
    assert "pretrain_condenser" not in rules_to_run(folder)


def test_a_table_stays_out_of_date_until_a_failed_stage_above_it_has_really_run(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()
    old = (folder / TARGET).read_bytes()
    edit(folder, "configs/tiny.yaml", "epochs: 2, max_tokens: 62", "epochs: 1, max_tokens: 62")
    program = folder / "workflow_scripts" / "pretrain_condenser.py"
    whole = program.read_text()
    edit(folder, "workflow_scripts/pretrain_condenser.py", "    args = parser.parse_args(argv)\n",
         '    args = parser.parse_args(argv)\n    raise ValueError("broken on purpose")\n')  # fmt: skip
    failed = run(folder)
    assert failed.returncode != 0
    assert "error: broken on purpose" in failed.stdout
    assert (folder / TARGET).read_bytes() == old  # still there, but:
    assert "table2" in rules_to_run(folder)
    program.write_text(whole)
    assert {"pretrain_condenser", "retriever", "table2"} <= rules_to_run(folder)
    finished(folder)
    assert rules_to_run(folder) == set()
    assert (folder / TARGET).read_bytes() != old


def test_edits_are_seen_where_snakemakes_own_records_are_lost(copy_of_golden: Callable[[], Path]) -> None:
    folder = copy_of_golden()
    shutil.rmtree(folder / ".snakemake")
    assert rules_to_run(folder) == set()
    edit(folder, "configs/tiny.yaml", "learning_rate: 1.0e-3}", "learning_rate: 2.0e-3}")
    assert rules_to_run(folder) == BELOW_RUNS
    assert "setting learning_rate of retriever: 0.001 -> 0.002" in finished(folder, "-n")


def test_a_model_copied_from_a_run_with_other_settings_is_made_anew(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()
    manifest = folder / "results" / "tiny" / "models" / "cocondenser.manifest.json"
    record = read_json(manifest)
    del record["sha256"]
    record["spec"]["config"]["epochs"] = 9
    write_json(manifest, sealed(record))
    assert rules_to_run(folder) == BELOW_RUNS | {"pretrain_cocondenser"}
    assert "setting epochs of pretrain_cocondenser: 9 -> " in finished(folder, "-n")


def test_what_was_made_from_a_model_that_now_has_other_bytes_is_made_anew(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()
    model = folder / "results" / "tiny" / "models" / "cocondenser" / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + bytes([model.read_bytes()[-1] ^ 1]))
    manifest = model.parent.with_name("cocondenser.manifest.json")
    record = read_json(manifest)
    del record["sha256"]
    record["outputs"]["cocondenser/model.safetensors"] = sha256_file(model)
    write_json(manifest, sealed(record))  # as if made again by another machine
    assert rules_to_run(folder) == BELOW_RUNS
    assert "cocondenser/model.safetensors was made again, with other bytes" in finished(folder, "-n")


def test_a_touch_accepts_an_edit_and_the_manifests_say_so(copy_of_golden: Callable[[], Path]) -> None:
    folder = copy_of_golden()
    module = folder / "condenser" / "evaluate" / "tables.py"
    module.write_text(module.read_text() + "\nANOTHER = 1\n")
    assert rules_to_run(folder) == {"table2"}
    finished(folder, "--touch")
    assert rules_to_run(folder) == set()
    record = read_json(folder / f"{TARGET}.manifest.json")
    (accepted,) = record["accepted"]
    assert accepted["changes"] == ["module condenser.evaluate.tables"]
    assert "0 findings" in finished(folder, target="verify")


def test_a_plan_is_made_anew_when_it_can_count_other_things_or_a_table_changes(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder, target = copy_of_golden(), "results/tiny/plan.H200.tsv"
    finished(folder, target=target)
    assert "Nothing to be done" in finished(folder, "-n", target=target)
    edit(folder, "configs/tiny.yaml", "checkpoint_every_s: 0", "checkpoint_every_s: 7")  # costs nothing
    assert "Nothing to be done" in finished(folder, "-n", target=target)
    manifest = folder / "results" / "tiny" / "data.manifest.json"
    manifest.rename(folder / "elsewhere")
    assert "rule plan:" in finished(folder, "-n", target=target)
    (folder / "elsewhere").rename(manifest)
    rates = folder / "condenser" / "pipeline" / "costs" / "tables" / "rates.tsv"
    rates.write_text(rates.read_text().replace("0.75", "0.7", 1))
    assert "changed: file rates.tsv" in finished(folder, "-n", target=target)
    said = run(folder, target="verify")
    assert "stale: results/tiny/plan.H200.tsv.manifest.json: changed since: file rates.tsv" in said.stdout


def test_a_user_file_with_other_content_reruns_all_and_one_merely_rewritten_nothing(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()
    corpus = folder / "tests" / "data" / "tiny" / "corpus.jsonl"
    corpus.write_bytes(corpus.read_bytes())
    assert rules_to_run(folder) == set()
    corpus.write_bytes(corpus.read_bytes().replace(b"graph", b"grape", 1))
    assert "collect_tiny" in rules_to_run(folder)
    # a small input is compared by Snakemake itself, a large one by our digest; both name it
    assert re.search(r"reason: .*corpus\.jsonl", finished(folder, "-n"))


def test_verify_finds_the_finished_run_whole_and_one_flipped_byte_in_it(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()
    (folder / ".snakemake").rename(folder / ".lost")  # the manifests are enough
    for file in folder.rglob("*"):  # but Snakemake then goes by times of change
        os.utime(file, (1, 1))
    assert "0 findings" in finished(folder, target="verify")
    model = folder / "results" / "tiny" / "models" / "condenser" / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + bytes([model.read_bytes()[-1] ^ 1]))
    said = run(folder, target="verify")
    assert said.returncode != 0
    assert "damaged: results/tiny/models/condenser/model.safetensors" in said.stdout


@pytest.mark.parametrize(("cores", "shards"), [(1, 1), (2, 3)])
def test_cores_shards_and_folder_change_no_byte_of_runs_metrics_and_table(
    golden: Path, root: Path, tmp_path: Path, cores: int, shards: int
) -> None:
    folder = checkout(root, tmp_path / f"another-{shards}")
    overlay = folder / "configs" / "tiny.yaml"
    overlay.write_text(
        overlay.read_text()
        .replace("block_rows: 32, shards: 2", f"block_rows: 32, shards: {shards}")
        .replace("tokens: {shards: 2}", f"tokens: {{shards: {shards}}}")
    )
    finished(folder, cores=cores)
    here, there = digests(golden), digests(folder)
    compared = [
        name for name in here if name.split("/")[1] in ("runs", "metrics", "models", "table2.tsv", "examples")
    ]
    assert len(compared) > 15
    assert {name: there.get(name) for name in compared} == {name: here[name] for name in compared}
