"""A crate says what its manifests say, and names the first job whose results differ elsewhere."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from job_files import do

from condenser.manifest import Manifest, Record, read_manifest
from condenser.pipeline.provenance import (
    compare,
    digest_of,
    read_record,
    read_runs,
    record_of_runs,
    write_crate,
)
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
        Path("Snakefile").write_text("rule all:\n")
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


def crate(name: str = "c.zip") -> str:
    """Write a crate of what is here; gives its digest."""
    table, workflow = Path("results/d/table2.tsv"), Path("Snakefile")
    return write_crate(Path(name), runs(), table=table, workflow=workflow, title="table2 of d")


def graph_of(file: str) -> dict[str, dict[str, Any]]:
    with zipfile.ZipFile(file) as archive:
        metadata = json.loads(archive.read("ro-crate-metadata.json"))
    return {entity["@id"]: entity for entity in metadata["@graph"]}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and set(value) == {"@id"}:
        yield value["@id"]
    elif isinstance(value, dict):
        for part in value.values():
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def test_every_entity_that_is_named_is_described_and_every_file_is_there(make: Make) -> None:
    make("a")
    crate()
    graph = graph_of("c.zip")
    named = {name for entity in graph.values() for name in references(entity)}
    assert named - set(graph) == {
        "https://w3id.org/ro/crate/1.1"  # the specification itself
    }
    with zipfile.ZipFile("c.zip") as archive:
        inside = set(archive.namelist())
        for manifest in MANIFESTS.values():
            assert archive.read(manifest) == Path(manifest).read_bytes()
        assert archive.read("results/d/table2.tsv") == b"of table\n"
    files = {name for name, entity in graph.items() if "File" in entity["@type"]}
    assert {name for name in files if not name.startswith("ni:")} == inside - {"ro-crate-metadata.json"}


def test_each_job_is_an_action_of_its_program_on_files_named_by_digest(make: Make) -> None:
    make("a")
    crate()
    graph = graph_of("c.zip")
    (action,) = [one for one in graph.values() if one["@type"] == "CreateAction" and one["name"] == "train d"]
    assert action["instrument"] == {"@id": "#program/train"}
    sha = hashlib.sha256(b"of train\n")
    name = base64.urlsafe_b64encode(sha.digest()).decode().rstrip("=")
    assert action["result"] == [{"@id": f"ni:///sha-256;{name}"}]
    described = graph[f"ni:///sha-256;{name}"]
    assert described["sha256"] == sha.hexdigest()
    assert described["name"] == MODEL
    run = graph["#run"]
    assert run["result"] == [{"@id": "results/d/table2.tsv"}]
    # of the whole run the inputs are what no job made
    assert [graph[name]["name"] for name in references(run["object"])] == ["mine/corpus.jsonl"]
    assert run["startTime"] <= action["startTime"] <= action["endTime"] <= run["endTime"]
    controls = [one for one in graph.values() if one["@type"] == "ControlAction"]
    assert len(controls) == len(JOBS)
    assert [graph[f"#step/{rule}"]["position"] for rule in MANIFESTS] == ["1", "2", "3", "4"]


def test_the_digest_is_that_of_all_results_whatever_their_order_and_the_index(
    make: Make, tmp_path: Path
) -> None:
    make("a")
    digest = crate()
    jobs = [(run.spec["rule"], run.outputs) for run in runs()]
    assert digest_of(reversed(jobs)) == digest == graph_of("c.zip")["#digest"]["value"]
    # by hand: SHA-256 of the JSON of sorted pairs
    pairs = sorted(
        [output, hashlib.sha256(f"of {rule}\n".encode()).hexdigest()]
        for rule, output, _ in JOBS
        if rule != "bm25_index"
    )
    assert digest == hashlib.sha256(json.dumps(pairs, separators=(",", ":")).encode()).hexdigest()
    assert results_digest(Path("results")) == digest
    make("b", bm25_index="another segment\n")
    assert crate() == digest
    assert compare(read_record(tmp_path / "a" / "c.zip")) == (3, None)
    make("c", train="others\n")
    assert crate() != digest and results_digest(Path("results")) != digest


def test_a_crate_does_not_say_whose_machine_it_comes_from(make: Make, tmp_path: Path) -> None:
    make("a")
    homes = [tmp_path / "home-of-somebody" / name for name in ("one", "two")]
    for number, home in enumerate(homes):
        home.mkdir(parents=True)
        (home / "corpus.jsonl").write_text(f"{number}\n")
    spec = read_manifest(Path(MANIFESTS["collect"])).spec
    files = [Path(os.path.relpath(home / "corpus.jsonl")) for home in homes]
    manifest = Manifest(
        MANIFESTS["collect"],
        {**spec, "config": {"path": str(homes[0]), "parts": [{"id": "~/x"}], "slash": "a/b"}},
        inputs=[*files, (homes[0] / "corpus.jsonl").absolute(), "mine/corpus.jsonl"],
    )
    manifest.write(outputs=["results/d/data/collection.jsonl"], counts={})
    crate()
    with zipfile.ZipFile("c.zip") as archive:
        for name in archive.namelist():
            assert "home-of-somebody" not in archive.read(name).decode(), name
        archive.extractall(tmp_path / "out")
    published = read_manifest(tmp_path / "out" / MANIFESTS["collect"])  # sealed again
    assert published.spec["config"] == {
        "path": "outside/one", "parts": [{"id": "outside/x"}], "slash": "a/b",
    }  # fmt: skip
    outputs = read_manifest(Path(MANIFESTS["collect"])).whole["outputs"]
    assert len(published.inputs) == 3 and published.whole["outputs"] == outputs
    assert sorted(name.rpartition("/")[2] for name in published.whole["inputs"]) == ["corpus.jsonl"] * 3
    assert read_record(Path("c.zip"))["digest"] == record_of_runs(runs())["digest"]


def test_equal_manifests_give_an_equal_crate(make: Make) -> None:
    make("a")
    crate("c.zip")
    crate("again.zip")
    assert Path("c.zip").read_bytes() == Path("again.zip").read_bytes()


def test_the_first_job_with_other_results_is_named(make: Make, tmp_path: Path) -> None:
    make("a")
    crate()
    with zipfile.ZipFile("c.zip") as archive:
        archive.extract("record.json", tmp_path)
    crate_of_a, record_of_a = read_record(tmp_path / "a" / "c.zip"), read_record(tmp_path / "record.json")
    assert crate_of_a == record_of_a
    make("b", train="others\n", table="others\n")
    assert compare(crate_of_a) == (2, f"train d: {MODEL} has other bytes")
    Path(MANIFESTS["collect"]).unlink()
    assert compare(crate_of_a) == (0, f"collect d: has no sound manifest here ({MANIFESTS['collect']})")


def test_a_job_cannot_pass_by_calling_itself_a_figure(make: Make) -> None:
    make("a")
    record = record_of_runs(runs())
    assert compare(record) == (3, None)  # the bytes of the index differ each time
    make("b", train="others\n")
    for job in record["jobs"]:
        job["rule"] = "figure"
    assert compare(record) == (0, "figure d: results/d/data.manifest.json is of the rule collect here")


@pytest.mark.parametrize("kept", [0, 1])  # no job, or one that differs each time
def test_nothing_compared_is_not_the_same_results(
    make: Make, capsys: pytest.CaptureFixture[str], kept: int
) -> None:
    make("a")
    jobs = record_of_runs(runs())["jobs"][1 : 1 + kept]
    write_record(Path("r.json"), jobs)
    current = {path: {"place": path, "changes": []} for path in MANIFESTS.values()}
    Path("current.json").write_text(json.dumps(current))
    options = {"results": "results", "current": "current.json", "dataset": None, "against": None}
    do("verify", options=options)  # the results themselves are in order
    with pytest.raises(SystemExit, match="1"):
        do("verify", options={**options, "against": "r.json"})
    assert "r.json: no job was compared" in capsys.readouterr().out


# ---- records of others -----------------------------------------------------------------------------


def write_record(file: Path, jobs: list[dict[str, Any]]) -> None:
    """A record whose digest is that of its jobs."""
    digest = digest_of((job["rule"], job["outputs"]) for job in jobs)
    file.write_text(json.dumps({"digest": digest, "jobs": jobs}))


@pytest.mark.parametrize(
    "changes",
    [
        {"rule": "\x1b]0;owned\x07"},
        {"wildcards": {"dataset": "\x1b[2J"}},
        {"wildcards": {"dataset": 3}},
        {"outputs": {"results/\x1b[31m": "0"}},
        {"outputs": {"r" * 2000: "0"}},
        {"manifest": "/etc/passwd"},
        {"manifest": "results/../../a.manifest.json"},
    ],
)
def test_names_of_a_foreign_crate_reach_neither_the_terminal_nor_other_folders(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    job = {"rule": "table", "wildcards": {}, "manifest": "results/a.manifest.json", "outputs": {}} | changes
    write_record(tmp_path / "r.json", [job])
    with pytest.raises(ValueError, match="expected a crate of this workflow") as error:
        read_record(tmp_path / "r.json")
    assert str(error.value).isprintable() and len(str(error.value)) < 700


def test_a_member_of_any_size_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("condenser.pipeline.provenance._LARGEST_RECORD", 1 << 20)
    with zipfile.ZipFile(tmp_path / "c.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("record.json", b" " * (64 << 20) + b'{"digest": "", "jobs": []}')
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"c.zip: .* got something else \(more than 1,048,576 bytes\)"):
        read_record(tmp_path / "c.zip")
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def zip_without_record() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a", "b")
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{}", "got something else ('jobs')"),
        (b"no JSON", "got something else"),
        (zip_without_record(), "got something else (\"There is no item named 'record.json'"),
        (b'{"digest": "0", "jobs": []}', "got one whose digest is not that of its jobs"),
        (b'{"digest": "0", "jobs": [{"rule": 3}]}', "got something else"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "r").write_bytes(content)
    with pytest.raises(ValueError, match="expected a crate of this workflow") as error:
        read_record(tmp_path / "r")
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_damaged_manifest_is_refused(make: Make) -> None:
    make("a")
    Path(MANIFESTS["train"]).write_text("{}")
    with pytest.raises(ValueError, match=r"model\.manifest\.json: expected a sound manifest, got one that"):
        crate()
