"""Verification finds every single flipped byte, and tells stale from damaged from unknown."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from job_files import do

import condenser.pipeline.verify as module
from condenser.files import canonical_json, json_bytes, read_json, sha256_file, sha256_text, write_json
from condenser.manifest import Manifest
from condenser.pipeline.verify import Finding, current_of, results_digest, verify, write_current

MANIFEST = {"collect": "data", "bm25_index": "bm25/index", "table": "table2.tsv"}
OUTPUT = {"collect": "data/in.txt", "bm25_index": "bm25/index/out.bin", "table": "table2.tsv"}
ABOVE = {"bm25_index": "collect", "table": "bm25_index"}
INDEX, TABLE = "results/d/bm25/index.manifest.json", "results/d/table2.tsv.manifest.json"


OPTIONS = {"results": "results", "current": "current.json", "dataset": None, "against": None}


def spec_of(rule: str, *, depth: int = 1) -> dict[str, Any]:
    return {
        "rule": rule,
        "wildcards": {"dataset": "d"},
        "config": {"depth": depth},
        "code": {},
        "lineage": {},
    }


def place(rule: str, wildcards: dict[str, str]) -> str:
    return f"results/d/{MANIFEST[rule]}.manifest.json"


def today(
    results: Path,
    *,
    failure: BaseException | None = None,
    datasets: Sequence[str] = ("d",),
    **depths: int,
) -> dict[str, dict[str, Any]]:
    """What the workflow writes for verify where rules may have been given another depth."""

    def spec_today(rule: str, wildcards: dict[str, str]) -> dict[str, Any]:
        if failure:
            raise failure
        return spec_of(rule, depth=depths.get(rule, 1))

    file = Path("work", "current.json")
    written = write_current(results, file, datasets=datasets, spec_of=spec_today, manifest_of=place)
    assert written == str(file)
    return read_json(file)


def check(results: Path, **depths: int) -> tuple[int, list[Finding]]:
    return verify(results, current=today(results, **depths))


def make(root: Path, rule: str, content: bytes) -> None:
    """As the rule's program would: the result, then its manifest."""
    output = root / "d" / OUTPUT[rule]
    output.parent.mkdir(parents=True, exist_ok=True)
    inputs = [root / "d" / OUTPUT[ABOVE[rule]]] if rule in ABOVE else []
    manifest = Manifest(root / "d" / f"{MANIFEST[rule]}.manifest.json", spec_of(rule), inputs=inputs)
    output.write_bytes(content)
    manifest.write(outputs=[output], counts={"rows": 1})


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = Path("results")
    (root / "d" / "logs").mkdir(parents=True)
    (root / "d" / "logs" / "job.log").write_text("no result")
    make(root, "collect", b"input")
    make(root, "bm25_index", bytes(range(256)))
    make(root, "table", b"table")
    return root


def kinds(findings: list[Finding]) -> set[tuple[str, str]]:
    return {(finding.kind, finding.path.name) for finding in findings}


def reasons(findings: list[Finding]) -> dict[str, str]:
    return {str(finding.path): f"{finding.kind}: {finding.reason}" for finding in findings}


@pytest.mark.parametrize("name", [*OUTPUT.values(), *(f"{name}.manifest.json" for name in MANIFEST.values())])
def test_any_single_flipped_byte_is_found(results: Path, name: str) -> None:
    file = results / "d" / name
    whole = file.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        _, findings = check(results)
        assert file in {finding.path for finding in findings}, f"byte {place} of {name}"
    if name.endswith(".json"):
        file.write_bytes(whole.replace(b"\n", b" ", 1))  # to a JSON reader the same
        assert check(results)[1]
    file.write_bytes(whole)
    assert check(results)[1] == []


def test_a_missing_result_is_damaged_and_one_without_manifest_is_of_unknown_origin(results: Path) -> None:
    (results / "d" / "table2.tsv").unlink()
    (results / "d" / "stray.npy").write_bytes(b"x")
    assert kinds(check(results)[1]) == {("damaged", "table2.tsv"), ("unknown", "stray.npy")}


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (LookupError("expected a dataset"), "expected a dataset"),
        (ValueError("package gone"), "package gone"),
        (OSError(2, "no corpus"), "[Errno 2] no corpus"),
        (SystemExit("error: results/d: texts alone"), "error: results/d: texts alone"),  # said by a rule
    ],
)
def test_a_job_that_the_configuration_no_longer_has_is_stale_and_says_why(
    results: Path, failure: BaseException, said: str
) -> None:
    (results / "d" / "table2.tsv.manifest.json").write_text("damaged: named, and no reason to stop")
    found = reasons(verify(results, current=today(results, failure=failure))[1])
    job = "the configuration no longer has the job bm25_index {'dataset': 'd'}"
    assert found[INDEX] == f"stale: {job} ({said})"
    assert found[TABLE].startswith("damaged")


def test_changes_and_place_of_a_job_that_the_configuration_has_are_written(results: Path) -> None:
    changes = ["setting depth of table: 1 -> 2"]
    assert today(results, table=2)[TABLE] == {"changes": changes, "place": TABLE}


def test_a_result_of_whose_job_nothing_is_known_today_is_stale(results: Path) -> None:
    assert [finding.kind for finding in verify(results, current={})[1]] == ["stale"] * 3


@pytest.mark.parametrize("name", ["logs", "benchmarks"])
def test_what_a_data_set_holds_under_the_name_of_its_logs_is_checked_all_the_same(
    results: Path, name: str
) -> None:
    (results / "d" / "models" / name).mkdir(parents=True)
    (results / "d" / "models" / name / "stray.npy").write_bytes(b"x")
    assert kinds(check(results)[1]) == {("unknown", "stray.npy")}


def test_a_linked_folder_is_looked_into(results: Path) -> None:
    Path("scratch").mkdir()
    (results / "d").rename("scratch/d")
    (results / "d").symlink_to("../scratch/d")
    assert check(results) == (3, [])
    (results / "d" / "bm25").rename("scratch/bm25")
    (results / "d" / "bm25").symlink_to(Path("scratch/bm25").absolute())
    assert check(results) == (3, [])
    (results / "d" / "table2.tsv").write_bytes(b"other")
    assert kinds(check(results)[1]) == {("damaged", "table2.tsv")}


@pytest.mark.parametrize("target", [".", "..", "../..", "loop"])
def test_a_link_to_a_folder_above_it_ends_and_is_named(results: Path, target: str) -> None:
    (results / "d" / "loop").symlink_to(target)
    checked, findings = check(results)
    assert checked == 3
    assert {(str(finding.path), finding.kind) for finding in findings} == {("results/d/loop", "unknown")}


def test_links_between_folders_do_not_multiply(results: Path) -> None:
    for number in range(40):  # two ways to each next folder: 2^40 paths
        (results / "d" / f"f{number}").mkdir()
        for name in "ab":
            (results / "d" / f"f{number}" / name).symlink_to(f"../f{number + 1}")
    (results / "d" / "f40").mkdir()
    began = time.monotonic()
    checked, findings = check(results)
    assert checked == 3 and {finding.kind for finding in findings} == {"unknown"}
    assert any("one link of too many to one folder" in str(finding) for finding in findings)
    assert time.monotonic() - began < 20


def test_results_that_say_they_were_made_from_each_other_do_not_stop_the_check(results: Path) -> None:
    data, table = (results / "d" / f"{name}.manifest.json" for name in ("data", "table2.tsv"))
    record = json.loads(data.read_bytes())
    record["inputs"] = {"table2.tsv": sha256_file(results / "d" / "table2.tsv")}
    data.write_bytes(sealed(record))
    assert check(results)[1] == []
    (results / "d" / "table2.tsv").write_bytes(b"other")
    found = reasons(check(results)[1])
    assert found[str(data)] == "stale: made from results/d/table2.tsv, which is damaged" and table.exists()


def test_a_long_chain_of_results_does_not_stop_the_check(results: Path) -> None:
    first = results / "d" / "0.txt"
    first.write_bytes(b"0")
    for number in range(1, 2000):
        output = results / "d" / f"{number}.txt"
        output.write_bytes(b"0")
        digest = sha256_file(output)
        record = {"spec": spec_of("table"), "counts": {}, "inputs": {f"{number - 1}.txt": digest}}
        manifest = results / "d" / f"{number}.txt.manifest.json"
        manifest.write_bytes(sealed({**record, "outputs": {f"{number}.txt": digest}}))
    current = {str(path): {"place": str(path), "changes": []} for path in results.rglob("*.manifest.json")}
    found = reasons(verify(results, current=current)[1])
    assert found["results/d/1999.txt.manifest.json"] == "stale: made from results/d/1998.txt, which is stale"


@pytest.mark.parametrize("changes", [{"rule": ["a"]}, {"wildcards": "a"}, {"wildcards": {"dataset": []}}])
def test_a_job_that_nobody_can_name_is_stale_and_does_not_stop_the_check(
    results: Path, changes: dict[str, Any]
) -> None:
    manifest = results / "d" / "data.manifest.json"
    record = json.loads(manifest.read_bytes())
    manifest.write_bytes(sealed({**record, "spec": {**record["spec"], **changes}}))

    def manifest_of(rule: str, wildcards: dict[str, str]) -> str:
        return {"collect": str(manifest)}[rule] + "".join(wildcards.values())

    current = current_of([manifest], spec_of=lambda *_: {}, manifest_of=manifest_of)
    assert "no longer has the job" in current[str(manifest)]["changes"][0]
    verify(results, current=current)
    results_digest(results)


def test_a_folder_that_cannot_be_read_is_named_and_the_rest_is_checked(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: str) -> Any:
        if Path(path).name == "data":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    scandir = os.scandir
    monkeypatch.setattr(module.os, "scandir", refused)
    checked, findings = check(results)
    assert checked == 3
    assert reasons(findings) == {"results/d/data": "damaged: cannot be read (Permission denied)"}


def test_an_input_remade_with_other_bytes_makes_all_below_stale_and_names_what_they_were_made_from(
    results: Path,
) -> None:
    make(results, "collect", b"other")
    assert reasons(check(results)[1]) == {
        INDEX: "stale: results/d/data/in.txt was made again, with other bytes",
        TABLE: "stale: made from results/d/bm25/index/out.bin, which is stale",
    }
    make(results, "bm25_index", bytes(range(256)))  # the same bytes once more: the table stands
    assert check(results) == (3, [])


def test_a_damaged_result_makes_all_below_stale(results: Path) -> None:
    (results / "d" / "data" / "in.txt").write_bytes(b"Input")
    assert reasons(check(results)[1]) == {
        "results/d/data/in.txt": "damaged: its bytes are not those that its rule wrote",
        INDEX: "stale: made from results/d/data/in.txt, which is damaged",
        TABLE: "stale: made from results/d/bm25/index/out.bin, which is stale",
    }


def test_a_stale_result_makes_all_below_stale_though_their_own_specs_are_todays(results: Path) -> None:
    found = reasons(check(results, collect=2)[1])
    assert found == {
        "results/d/data.manifest.json": "stale: setting depth of collect: 1 -> 2",
        INDEX: "stale: made from results/d/data/in.txt, which is stale",
        TABLE: "stale: made from results/d/bm25/index/out.bin, which is stale",
    }


def test_a_result_of_unknown_origin_makes_all_below_stale_and_one_cleared_away_does_not(
    results: Path,
) -> None:
    (results / "d" / "data.manifest.json").unlink()
    found = reasons(check(results)[1])
    assert found["results/d/data/in.txt"].startswith("unknown")
    assert found[INDEX] == "stale: made from results/d/data/in.txt, which is of unknown origin"
    assert found[TABLE] == "stale: made from results/d/bm25/index/out.bin, which is stale"
    (results / "d" / "data" / "in.txt").unlink()
    assert check(results) == (2, [])


def test_a_result_made_from_a_manifest_is_stale_when_that_is_written_again(results: Path) -> None:
    """As a crate is, which holds manifests."""
    counted = results / "d" / "data.manifest.json"
    table = results / "d" / "table2.tsv"
    Manifest(results / "d" / "table2.tsv.manifest.json", spec_of("table"), inputs=[counted]).write(
        outputs=[table], counts={}
    )
    assert check(results) == (3, [])
    record = json.loads(counted.read_bytes())
    counted.write_bytes(sealed({**record, "counts": {"rows": 2}}))
    assert reasons(check(results)[1]) == {TABLE: f"stale: {counted} was made again, with other bytes"}


@pytest.mark.parametrize("copy", ["other", "d.bak", "d/old"])
def test_results_in_another_place_are_of_unknown_origin_and_the_right_place_is_named(
    results: Path, copy: str
) -> None:
    shutil.copytree(results / "d", results / copy)
    checked, findings = check(results)
    assert checked == 3
    assert {finding.kind for finding in findings} == {"unknown"}
    found = reasons(findings)
    assert found[f"results/{copy}/data.manifest.json"] == "unknown: expected at results/d/data.manifest.json"
    assert f"results/{copy}/data/in.txt" in found


def sealed(record: dict[str, Any]) -> bytes:
    """A manifest that says of itself that it is whole."""
    record = {name: value for name, value in record.items() if name != "sha256"}
    return json_bytes({**record, "sha256": sha256_text(canonical_json(record))})


def too_large_a_number(whole: bytes) -> bytes:
    return whole.replace(b'"rows": 1', b'"rows": 4e994')


FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "a number that is infinite": too_large_a_number,
    "nothing": lambda whole: b"",
    "a list": lambda whole: b"[]\n",
    "deep brackets": lambda whole: b"[" * 100_000,
    "half a surrogate": lambda whole: whole.replace(b'"cpu"', b'"\\ud800"'),
    "no text": lambda whole: whole.replace(b'"cpu"', b'"\xff"'),
    "no outputs": lambda whole: sealed({**json.loads(whole), "outputs": None}),
    "a spec that is a list": lambda whole: sealed({**json.loads(whole), "spec": ["rule", "wildcards"]}),
    "a digest that is a list": lambda whole: sealed({**json.loads(whole), "outputs": {"data/in.txt": []}}),
    "an output elsewhere": lambda whole: sealed({**json.loads(whole), "outputs": {"../../in.txt": "0"}}),
    "an output anywhere": lambda whole: sealed({**json.loads(whole), "outputs": {"/etc/hostname": "0"}}),
    "no spec": lambda whole: sealed({k: v for k, v in json.loads(whole).items() if k != "spec"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_manifest_that_cannot_be_read_is_named_and_the_rest_is_checked(results: Path, fault: str) -> None:
    manifest = results / "d" / "data.manifest.json"
    before, after = manifest.read_bytes(), FAULTS[fault](manifest.read_bytes())
    assert after != before
    manifest.write_bytes(after)
    (results / "d" / "table2.tsv").unlink()
    found = reasons(check(results)[1])
    assert found["results/d/data.manifest.json"].startswith("damaged")
    assert found["results/d/table2.tsv"] == "damaged: is missing"


@pytest.mark.parametrize("fault", ["a folder", "a dangling link", "a pipe", "refused"])
def test_a_manifest_that_cannot_be_opened_is_named_and_the_rest_is_checked(
    results: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    manifest = results / "d" / "data.manifest.json"
    manifest.unlink()
    if fault == "a folder":
        manifest.mkdir()
        (manifest / "x.manifest.json").write_text("{}")
        manifest /= "x.manifest.json"
    elif fault == "a dangling link":
        manifest.symlink_to("gone")
    elif fault == "a pipe":
        os.mkfifo(manifest)
    else:
        manifest.write_text("{}")
        read_bytes = Path.read_bytes

        def refused(path: Path) -> bytes:
            if path == manifest:
                raise OSError(5, "Input/output error")
            return read_bytes(path)

        monkeypatch.setattr(Path, "read_bytes", refused)
    (results / "d" / "table2.tsv").unlink()
    found = reasons(check(results)[1])
    assert found[str(manifest)].startswith("damaged")
    assert found["results/d/table2.tsv"] == "damaged: is missing"


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder"])
def test_a_result_that_is_no_regular_file_is_named_and_not_read(results: Path, kind: str) -> None:
    file = results / "d" / OUTPUT["collect"]
    file.unlink()
    if kind == "a pipe":
        os.mkfifo(file)
    elif kind == "a device":
        file.symlink_to("/dev/zero")
    else:
        file.mkdir()
    assert reasons(check(results)[1])[str(file)] == "damaged: is no regular file"


def test_a_name_of_a_file_cannot_steer_the_terminal(results: Path) -> None:
    (results / "d" / "\x1b[2Ja\nb\udcff").write_bytes(b"x")
    shutil.copy(results / "d" / "data.manifest.json", results / "d" / "\udcff.manifest.json")
    manifest, stray = sorted(map(str, check(results)[1]))
    assert stray == r"unknown: results/d/\x1b[2Ja\nb\udcff: no sound manifest in its place names it"
    assert manifest.startswith(r"damaged: results/d/\udcff.manifest.json: no readable manifest")


def test_a_result_that_cannot_be_read_is_named_and_the_rest_is_checked(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> str:
        if path.name == "in.txt":
            raise OSError(5, "Input/output error")
        return digest(path)

    digest = module.sha256_file
    monkeypatch.setattr(module, "sha256_file", refused)
    found = reasons(check(results)[1])
    assert found["results/d/data/in.txt"] == "damaged: cannot be read (Input/output error)"
    assert set(found) == {"results/d/data/in.txt", INDEX, TABLE}


@pytest.mark.parametrize("left", ["nothing", "an empty folder", "records of jobs"])
def test_where_there_is_nothing_to_check_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if left != "nothing":
        Path("results/logs").mkdir(parents=True)
    if left == "records of jobs":
        Path("results/logs/verify.log").write_text("")
        Path("results/README.md").write_text("")
    Path("current.json").write_text("{}")
    with pytest.raises(ValueError, match="results: expected results to check, found none"):
        do("verify", options=OPTIONS)


def test_the_program_prints_the_findings_and_ends_with_a_bad_status(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(Path("current.json"), today(results))
    do("verify", options=OPTIONS)
    checked, digest = capsys.readouterr().out.splitlines()
    assert checked == "3 artefacts checked, 0 findings"
    assert digest == f"digest of all results: {results_digest(Path('results'))}"
    (results / "d" / "table2.tsv").write_bytes(b"other")
    with pytest.raises(SystemExit, match="1"):
        do("verify", options=OPTIONS)
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "damaged: results/d/table2.tsv: its bytes are not those that its rule wrote",
        "3 artefacts checked, 1 findings",
        digest,  # of the manifests: the damage is said above
    ]


def test_results_of_a_data_set_of_another_configuration_are_in_order_if_their_bytes_are(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"failure": LookupError("expected a dataset"), "datasets": ["e"]}
    write_json(Path("current.json"), today(results, **other))
    do("verify", options=OPTIONS)
    assert capsys.readouterr().out.splitlines()[:2] == [
        "3 artefacts checked, 0 findings",
        "not of this configuration: 1 data set, in order",
    ]
    (results / "d" / "bm25" / "index" / "out.bin").write_bytes(b"other")
    with pytest.raises(SystemExit, match="1"):
        do("verify", options=OPTIONS)
    damaged, stale, checked, others, *_ = capsys.readouterr().out.splitlines()
    assert damaged.startswith("damaged: results/d/bm25/index/out.bin: ")
    assert stale.startswith(f"stale: {TABLE}: made from results/d/bm25/index/out.bin, which is damaged")
    assert (checked, others) == (
        "3 artefacts checked, 2 findings",
        "not of this configuration: 1 data set, faults above in d",
    )


def test_results_of_another_configuration_that_were_made_again_or_moved_are_found(results: Path) -> None:
    make(results, "collect", b"other")
    current = today(results, failure=LookupError("expected a dataset"), datasets=["e"])
    found = reasons(verify(results, current=current)[1])
    assert found[INDEX] == "stale: results/d/data/in.txt was made again, with other bytes"
    (results / "d").rename(results / "f")
    current = today(results, failure=LookupError("expected a dataset"), datasets=["e"])
    found = reasons(verify(results, current=current)[1])
    assert found["results/f/table2.tsv.manifest.json"] == f"unknown: expected at {TABLE}"


def test_one_data_set_alone_is_checked_where_it_is_named(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(Path("current.json"), today(results))
    all_digest = results_digest(Path("results"))
    (results / "e").mkdir()
    (results / "e" / "stray.npy").write_bytes(b"x")
    do("verify", options={**OPTIONS, "dataset": "d"})
    assert capsys.readouterr().out.splitlines() == [
        "3 artefacts checked, 0 findings",
        f"digest of the results of d: {all_digest}",
    ]
    with pytest.raises(SystemExit, match="1"):
        do("verify", options={**OPTIONS, "dataset": "e"})
    assert capsys.readouterr().out.startswith("unknown: results/e/stray.npy")
    with pytest.raises(ValueError, match="results/g: expected results to check, found none"):
        do("verify", options={**OPTIONS, "dataset": "g"})


def test_the_program_says_what_may_be_missing_where_results_are_stale(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("current.json").write_text("{}")  # as without the overlay that names their data set
    with pytest.raises(SystemExit, match="1"):
        do("verify", options=OPTIONS)
    assert capsys.readouterr().out.splitlines()[-1] == (
        "stale by this configuration: give verify every --configfile that the results were made with"
    )
