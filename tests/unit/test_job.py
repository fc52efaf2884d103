"""A job in a file: what its program sees, what its manifest names, and what stays of partial work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from job_files import job, job_file

from condenser.job import Job, do_job, read_job, write_job


def written(folder: Path) -> dict[str, object]:
    """A job that reads weights and tokens, and writes a model."""
    for name in ("start/model.safetensors", "start/config.json", *(f"p.{part}.npy" for part in PARTS)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    return job(
        "pretrain",
        settings={"seed": 3},
        input={"initial": folder / "start/model.safetensors", "tokens": [folder / "p.tokens.npy"]},
        output={"model": folder / "model/model.safetensors", "manifest": folder / "model.manifest.json"},
        work=folder / "work",
    )


PARTS = ("tokens", "sentence_lengths", "num_sentences")


def test_a_manifest_names_what_belongs_to_weights_and_to_tokens(tmp_path: Path) -> None:
    def main(seen: Job) -> dict[str, int]:
        folder = seen.output.model.parent
        folder.mkdir()
        for name in ("model.safetensors", "losses.jsonl"):
            (folder / name).touch()
        return {"steps": seen.settings.seed}

    do_job(Job(written(tmp_path)), main)
    manifest = json.loads((tmp_path / "model.manifest.json").read_text())
    assert set(manifest["inputs"]) == {
        *("start/model.safetensors", "start/config.json"),
        *(f"p.{part}.npy" for part in PARTS),
    }
    assert set(manifest["outputs"]) == {"model/model.safetensors", "model/losses.jsonl"}
    assert manifest["counts"] == {"steps": 3} and manifest["spec"]["rule"] == "pretrain"


def test_partial_work_goes_when_the_manifest_is_there_and_a_log_stays(tmp_path: Path) -> None:
    def main(seen: Job) -> dict[str, int]:
        (seen.work_folder / "step-1").mkdir(parents=True, exist_ok=True)
        for name in ("step-1/weights", "log.jsonl"):
            (seen.work_folder / name).touch()
        return {}

    with pytest.raises(FileNotFoundError):  # it wrote no model
        do_job(Job({**written(tmp_path), "output": {**written(tmp_path)["output"], "x": "none"}}), main)
    (work,) = (tmp_path / "work").iterdir()
    assert (work / "step-1" / "weights").exists()
    (tmp_path / "model").mkdir()
    do_job(Job(written(tmp_path)), main)
    assert [path.name for path in (tmp_path / "work").rglob("*")] == [work.name, "log.jsonl"]


def test_a_name_that_a_job_lacks_is_one_line_with_those_that_it_has(tmp_path: Path) -> None:
    seen = Job(written(tmp_path))
    with pytest.raises(ValueError, match="expected an input doc_ids, got initial, tokens"):
        seen.input.doc_ids  # noqa: B018
    with pytest.raises(ValueError, match="expected an option mirror, got none"):
        seen.options.mirror  # noqa: B018


@pytest.mark.parametrize("text", ["", "[]", '{"rule": "table", "input": 3}', '{"input": {}}'])
def test_a_file_that_is_no_job_is_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"job\.json: expected a job as JSON, with rule, input and output"):
        read_job(file)
    with pytest.raises(ValueError, match=r"gone\.json: expected a job as JSON"):
        read_job(tmp_path / "gone.json")


def test_the_same_job_has_the_same_file(tmp_path: Path) -> None:
    first, second = job("table", settings={"a": 1, "b": 2}), job("table", settings={"b": 2, "a": 1})
    assert write_job(tmp_path, first) == write_job(tmp_path, second)
    file = write_job(tmp_path, first)
    whole = file.read_bytes()
    file.write_bytes(whole[:10])  # as a crash may leave it
    assert write_job(tmp_path, first).read_bytes() == whole
    assert write_job(tmp_path, {**first, "options": {"threads": 2}}) != write_job(tmp_path, first)
    assert read_job(Path(job_file(tmp_path / "own.json", "table", settings={"a": 1}))).settings.a == 1
