"""A record says what its manifests say, and names the first job whose results differ elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from condenser.manifest import Manifest, Record
from condenser.pipeline.record import compare, digest_of, make_record, read_record, read_runs
from condenser.pipeline.verify import results_digest

MODEL = "results/d/systems/s/seed1/model/model.safetensors"
# rule, what it writes, what it reads: in the order of the pipeline
JOBS = [
    ("collect", "results/d/data/collection.jsonl", ["mine/corpus.jsonl"]),
    ("bm25_index", "results/d/bm25/index/_0.si", ["results/d/data/collection.jsonl"]),
    ("train", MODEL, ["results/d/data/collection.jsonl"]),
    ("table", "results/d/table2.tsv", [MODEL]),
]
MANIFESTS = {
    "collect": "results/d/data.manifest.json",
    "bm25_index": "results/d/bm25/index.manifest.json",
    "train": "results/d/systems/s/seed1/model.manifest.json",
    "table": "results/d/table2.tsv.manifest.json",
}
Make = Callable[..., None]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Run the jobs in a folder of this name; `other` are texts by rule that replace theirs."""

    def run(folder: str, **other: str) -> None:
        place = tmp_path / folder
        (place / "mine").mkdir(parents=True)
        monkeypatch.chdir(place)
        Path("mine/corpus.jsonl").write_text("{}\n")
        for rule, output, inputs in JOBS:
            parts = {"config": {}, "versions": {"numpy": "2"}, "code": {"a": "1"}}
            spec = {"rule": rule, "wildcards": {"dataset": "d"}, **parts}
            manifest = Manifest(MANIFESTS[rule], spec, inputs=inputs)
            Path(output).parent.mkdir(parents=True, exist_ok=True)
            Path(output).write_text(other.get(rule, f"of {rule}\n"))
            manifest.write(outputs=[output], counts={})

    return run


def runs() -> list[Record]:
    return read_runs(map(Path, MANIFESTS.values()))


def record() -> dict[str, Any]:
    return make_record(Path("results/d/table2.tsv"), runs())


def test_a_record_has_each_job_with_its_versions_and_digests(make: Make) -> None:
    make("a")
    made = record()
    assert made["table"] == "results/d/table2.tsv" and [job["rule"] for job in made["jobs"]] == [*MANIFESTS]
    assert made["jobs"][2]["outputs"] == {MODEL: hashlib.sha256(b"of train\n").hexdigest()}
    assert made["jobs"][2]["versions"] == {"numpy": "2"} and made["jobs"][2]["seconds"] >= 0
    Path("r.json").write_text(json.dumps(made))
    assert read_record(Path("r.json")) == made


def test_the_digest_is_that_of_all_results_whatever_their_order_and_the_index(make: Make) -> None:
    make("a")
    made = record()
    jobs = [(run.spec["rule"], run.outputs) for run in runs()]
    assert digest_of(reversed(jobs)) == made["digest"]
    # by hand: SHA-256 of the JSON of sorted pairs
    pairs = sorted(
        [output, hashlib.sha256(f"of {rule}\n".encode()).hexdigest()]
        for rule, output, _ in JOBS
        if rule != "bm25_index"
    )
    assert made["digest"] == hashlib.sha256(json.dumps(pairs, separators=(",", ":")).encode()).hexdigest()
    assert results_digest(Path("results")) == made["digest"]
    make("b", bm25_index="another segment\n")
    assert record()["digest"] == made["digest"] and compare(made) == (3, None)
    make("c", train="others\n")
    assert results_digest(Path("results")) == record()["digest"] != made["digest"]


def test_a_record_does_not_say_whose_machine_it_comes_from(make: Make, tmp_path: Path) -> None:
    make("a")
    home = tmp_path / "home-of-somebody" / "one"
    home.mkdir(parents=True)
    (home / "corpus.jsonl").write_text("1\n")
    files = [Path(os.path.relpath(home / "corpus.jsonl")), (home / "corpus.jsonl").absolute()]
    settings = {"path": str(home), "parts": [{"id": "~/x"}], "slash": "a/b"}
    manifest = Manifest(MANIFESTS["collect"], {**runs()[0].spec, "config": settings}, inputs=files)
    manifest.write(outputs=["results/d/data/collection.jsonl"], counts={})
    made = record()
    assert "home-of-somebody" not in json.dumps(made)
    shown = {"path": "outside/one", "parts": [{"id": "outside/x"}], "slash": "a/b"}
    assert made["jobs"][0]["settings"] == shown


def test_the_first_job_with_other_results_is_named(make: Make) -> None:
    make("a")
    of_a = record()
    make("b", train="others\n", table="others\n")
    assert compare(of_a) == (2, f"train d: {MODEL} has other bytes")
    Path(MANIFESTS["collect"]).unlink()
    assert compare(of_a) == (0, f"collect d: has no sound manifest here ({MANIFESTS['collect']})")


def test_a_job_that_the_record_lacks_or_calls_by_another_rule_is_named(make: Make) -> None:
    make("a")
    made = record()
    made["jobs"] = [job for job in made["jobs"] if job["rule"] not in ("train", "bm25_index")]
    assert compare(made) == (2, "train d: is not in the record")
    made["jobs"][0]["rule"] = "figure"
    assert compare(made) == (0, "figure d: results/d/data.manifest.json is of the rule collect here")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "got something else ('jobs')"),
        ("no JSON", "got something else"),
        ('{"digest": "0", "table": "t", "jobs": [{"rule": 3}]}', "got something else"),
        ('{"digest": "0", "table": "t", "jobs": []}', "got one without the job that made its table"),
        (
            '{"digest": "0", "table": "t", "jobs": [{"rule": "table", "outputs": {"t": "1"}}]}',
            "got one whose digest is not that of its jobs",
        ),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "r").write_text(content)
    with pytest.raises(ValueError, match="expected the record of a table") as error:
        read_record(tmp_path / "r")
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_damaged_manifest_is_refused(make: Make) -> None:
    make("a")
    Path(MANIFESTS["train"]).write_text("{}")
    with pytest.raises(ValueError, match=r"model\.manifest\.json: expected a sound manifest, got one that"):
        record()
