"""Verification finds every single flipped byte, and tells stale from damaged from unknown."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from job_files import do

import condenser.pipeline.verify as module
from condenser.files import canonical_json, json_bytes, read_json, sha256_text, write_json
from condenser.manifest import Manifest
from condenser.pipeline.verify import Finding, results_digest, verify, write_current

MANIFEST = {"collect": "data", "bm25_index": "bm25/index", "table": "table2.tsv"}
OUTPUT = {"collect": "data/in.txt", "bm25_index": "bm25/index/out.bin", "table": "table2.tsv"}
ABOVE = {"bm25_index": "collect", "table": "bm25_index"}
DATA, INDEX, TABLE = (f"results/d/{name}.manifest.json" for name in MANIFEST.values())
IN, OUT = "results/d/data/in.txt", "results/d/bm25/index/out.bin"
OPTIONS = {"results": "results", "current": "current.json", "dataset": None, "against": None}

AGAIN = "was made again, with other bytes"
OTHER_BYTES = "damaged: it was changed after its rule wrote it"
BELOW = {TABLE: f"stale: made from {OUT}, which is stale"}  # what follows for the table from a stale index


def spec_of(rule: str, *, depth: int = 1) -> dict[str, Any]:
    config = {"depth": depth}
    return {"rule": rule, "wildcards": {"dataset": "d"}, "config": config, "code": {}, "lineage": {}}


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

    def place(rule: str, wildcards: dict[str, str]) -> str:
        return f"results/d/{MANIFEST[rule]}.manifest.json"

    file = Path("work", "current.json")
    written = write_current(results, file, datasets=datasets, spec_of=spec_today, manifest_of=place)
    assert written == str(file)
    return read_json(file)


def check(results: Path, **today_is: Any) -> tuple[int, list[Finding]]:
    return verify(results, current=today(results, **today_is))


def found(results: Path, **today_is: Any) -> dict[str, str]:
    """What verification finds, by path."""
    return {str(one.path): f"{one.kind}: {one.reason}" for one in check(results, **today_is)[1]}


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


@pytest.mark.parametrize("name", [*OUTPUT.values(), *(f"{name}.manifest.json" for name in MANIFEST.values())])
def test_any_single_flipped_byte_is_found(results: Path, name: str) -> None:
    file = results / "d" / name
    whole = file.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert str(file) in found(results), f"byte {place} of {name}"
    if name.endswith(".json"):
        file.write_bytes(whole.replace(b"\n", b" ", 1))  # to a JSON reader the same
        assert found(results)
    file.write_bytes(whole)
    assert check(results) == (3, [])


# ---- what is edited in good results, and the findings ----------------------------------------------


def stray(path: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(b"x")


UNKNOWN = "unknown: no sound manifest in its place names it"
FROM_IN = {INDEX: f"stale: made from {IN}, which is damaged", **BELOW}
NO_MANIFEST = {IN: UNKNOWN, INDEX: f"stale: made from {IN}, which is of unknown origin", **BELOW}
EDITS: dict[str, tuple[Callable[[], object], dict[str, str]]] = {
    "nothing": (lambda: None, {}),
    "a result is missing": (
        lambda: Path("results/d/table2.tsv").unlink(), {"results/d/table2.tsv": "damaged: is missing"},
    ),
    "a result without manifest": (lambda: stray("results/d/stray.npy"), {"results/d/stray.npy": UNKNOWN}),
    "a result under the name of logs": (
        lambda: stray("results/d/models/logs/a.npy"), {"results/d/models/logs/a.npy": UNKNOWN},
    ),
    "a result under the name of benchmarks": (
        lambda: stray("results/d/models/benchmarks/a.npy"), {"results/d/models/benchmarks/a.npy": UNKNOWN},
    ),
    "other bytes": (lambda: Path(IN).write_bytes(b"Input"), {IN: OTHER_BYTES, **FROM_IN}),
    "a folder": (
        lambda: (Path(IN).unlink(), Path(IN).mkdir()),
        {IN: "damaged: cannot be read (Is a directory)", **FROM_IN},
    ),
    "made again with other bytes": (
        lambda: make(Path("results"), "collect", b"other"), {INDEX: f"stale: {IN} {AGAIN}", **BELOW},
    ),
    "made again with the same bytes": (lambda: make(Path("results"), "collect", b"input"), {}),
    "a manifest is missing": (lambda: Path(DATA).unlink(), NO_MANIFEST),
    "a result that was cleared away": (lambda: (Path(DATA).unlink(), Path(IN).unlink()), {}),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_what_is_edited_is_found_and_all_that_was_made_from_it_is_stale(results: Path, edit: str) -> None:
    change, expected = EDITS[edit]
    change()
    assert found(results) == expected


def test_a_stale_result_makes_all_below_stale_though_their_own_specs_are_todays(results: Path) -> None:
    data = {DATA: "stale: setting depth of collect: 1 -> 2"}
    assert found(results, collect=2) == {**data, INDEX: f"stale: made from {IN}, which is stale", **BELOW}


def test_a_result_made_from_a_manifest_is_stale_when_that_is_written_again(results: Path) -> None:
    """As a record is, which holds what they say."""
    Manifest(TABLE, spec_of("table"), inputs=[DATA]).write(outputs=["results/d/table2.tsv"], counts={})
    assert check(results) == (3, [])
    write_sealed(DATA, counts={"rows": 2})
    assert found(results) == {TABLE: f"stale: {DATA} {AGAIN}"}


@pytest.mark.parametrize("copy", ["other", "d.bak", "d/old"])
def test_results_in_another_place_are_of_unknown_origin_and_the_right_place_is_named(
    results: Path, copy: str
) -> None:
    shutil.copytree(results / "d", results / copy)
    assert check(results)[0] == 3
    findings = found(results)
    assert findings[f"results/{copy}/data.manifest.json"] == f"unknown: expected at {DATA}"
    assert findings[f"results/{copy}/data/in.txt"] == UNKNOWN
    assert all(finding.startswith("unknown") for finding in findings.values())


# ---- what the configuration of today says ----------------------------------------------------------


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
    Path(TABLE).write_text("damaged: named, and no reason to stop")
    findings = found(results, failure=failure)
    job = "the configuration no longer has the job bm25_index {'dataset': 'd'}"
    assert findings[INDEX] == f"stale: {job} ({said})"
    assert findings[TABLE].startswith("damaged")


def test_changes_and_place_of_a_job_that_the_configuration_has_are_written(results: Path) -> None:
    changes = ["setting depth of table: 1 -> 2"]
    assert today(results, table=2)[TABLE] == {"changes": changes, "place": TABLE}


def test_a_result_of_whose_job_nothing_is_known_today_is_stale(results: Path) -> None:
    assert [finding.kind for finding in verify(results, current={})[1]] == ["stale"] * 3


def test_results_of_another_configuration_that_were_made_again_or_moved_are_found(results: Path) -> None:
    other = {"failure": LookupError("expected a dataset"), "datasets": ["e"]}
    make(results, "collect", b"other")
    assert found(results, **other)[INDEX] == f"stale: {IN} {AGAIN}"
    (results / "d").rename(results / "f")
    assert found(results, **other)["results/f/table2.tsv.manifest.json"] == f"unknown: expected at {TABLE}"


# ---- links, and manifests of somebody else ---------------------------------------------------------


def test_a_linked_folder_is_looked_into(results: Path) -> None:
    Path("scratch").mkdir()
    (results / "d").rename("scratch/d")
    (results / "d").symlink_to("../scratch/d")
    assert check(results) == (3, [])
    (results / "d" / "bm25").rename("scratch/bm25")
    (results / "d" / "bm25").symlink_to(Path("scratch/bm25").absolute())
    assert check(results) == (3, [])
    (results / "d" / "table2.tsv").write_bytes(b"other")
    assert found(results) == {"results/d/table2.tsv": OTHER_BYTES}


@pytest.mark.parametrize("target", [".", "../..", "loop"])
def test_a_link_to_a_folder_above_it_ends_and_is_named(results: Path, target: str) -> None:
    (results / "d" / "loop").symlink_to(target)
    assert check(results)[0] == 3
    assert [(path, said[:8]) for path, said in found(results).items()] == [("results/d/loop", "unknown:")]


def sealed(record: dict[str, Any]) -> bytes:
    """A manifest that says of itself that it is whole."""
    record = {name: value for name, value in record.items() if name != "sha256"}
    return json_bytes({**record, "sha256": sha256_text(canonical_json(record))})


def write_sealed(manifest: str, **changes: Any) -> None:
    Path(manifest).write_bytes(sealed({**json.loads(Path(manifest).read_bytes()), **changes}))


FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "a number that is infinite": lambda whole: whole.replace(b'"rows": 1', b'"rows": 4e994'),
    "nothing": lambda whole: b"",
    "a list": lambda whole: b"[]\n",
    "deep brackets": lambda whole: b"[" * 100_000,
    "half a surrogate": lambda whole: whole.replace(b'"cpu"', b'"\\ud800"'),
    "no text": lambda whole: whole.replace(b'"cpu"', b'"\xff"'),
    "no outputs": lambda whole: sealed({**json.loads(whole), "outputs": None}),
    "no spec": lambda whole: sealed({k: v for k, v in json.loads(whole).items() if k != "spec"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_manifest_that_cannot_be_read_is_named_and_the_rest_is_checked(results: Path, fault: str) -> None:
    before = Path(DATA).read_bytes()
    after = FAULTS[fault](before)
    assert after != before
    Path(DATA).write_bytes(after)
    findings = found(results)
    assert findings.pop(DATA).startswith("damaged")
    assert findings == NO_MANIFEST


@pytest.mark.parametrize(
    ("owner", "function", "path"),
    [(os, "scandir", "results/d/data"), (module, "sha256_file", IN), (Path, "read_bytes", DATA)],
)
def test_what_the_system_refuses_to_read_is_named_and_the_rest_is_checked(
    results: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, function: str, path: str
) -> None:
    def refused(file: Any) -> Any:
        if str(file) == path:
            raise OSError(5, "Input/output error", path)
        return read(file)

    read = getattr(owner, function)
    monkeypatch.setattr(owner, function, refused)
    (results / "d" / "table2.tsv").unlink()
    findings = found(results)
    assert findings[path] == "damaged: cannot be read (Input/output error)"
    assert findings["results/d/table2.tsv"] == "damaged: is missing"


def test_a_name_of_a_file_cannot_steer_the_terminal(results: Path) -> None:
    (results / "d" / "\x1b[2Ja\nb\udcff").write_bytes(b"x")
    shutil.copy(DATA, results / "d" / "\udcff.manifest.json")
    manifest, stray = sorted(map(str, check(results)[1]))
    assert stray == r"unknown: results/d/\x1b[2Ja\nb\udcff: no sound manifest in its place names it"
    assert manifest.startswith(r"damaged: results/d/\udcff.manifest.json: no readable manifest")


# ---- the program -----------------------------------------------------------------------------------


def said_by_verify(capsys: pytest.CaptureFixture[str], *, is_bad: bool, **options: Any) -> list[str]:
    if is_bad:
        with pytest.raises(SystemExit, match="1"):
            do("verify", options={**OPTIONS, **options})
    else:
        do("verify", options={**OPTIONS, **options})
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("left", [[], ["results/logs/verify.log", "results/README.md"]])
def test_where_there_is_nothing_to_check_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in left:
        stray(file)
    Path("current.json").write_text("{}")
    with pytest.raises(ValueError, match="results: expected results to check, found none"):
        do("verify", options=OPTIONS)


def test_the_program_prints_the_findings_and_ends_with_a_bad_status(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(Path("current.json"), today(results))
    digest = f"digest of all results: {results_digest(results)}"
    assert said_by_verify(capsys, is_bad=False) == ["3 artefacts checked, 0 findings", digest]
    (results / "d" / "table2.tsv").write_bytes(b"other")
    assert said_by_verify(capsys, is_bad=True) == [
        "damaged: results/d/table2.tsv: it was changed after its rule wrote it",
        "3 artefacts checked, 1 findings",
        digest,  # of the manifests: the damage is said above
    ]


def test_results_of_a_data_set_of_another_configuration_are_in_order_if_their_bytes_are(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = today(results, failure=LookupError("expected a dataset"), datasets=["e"])
    write_json(Path("current.json"), other)
    checked, others, _ = said_by_verify(capsys, is_bad=False)
    assert checked == "3 artefacts checked, 0 findings"
    assert others == "not of this configuration, so checked by their bytes alone: d"
    Path(OUT).write_bytes(b"other")
    damaged, stale, *_ = said_by_verify(capsys, is_bad=True)
    assert damaged.startswith(f"damaged: {OUT}: ")
    assert stale.startswith(f"stale: {TABLE}: made from {OUT}, which is damaged")


def test_one_data_set_alone_is_checked_where_it_is_named(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(Path("current.json"), today(results))
    digest = f"digest of the results of d: {results_digest(results)}"
    stray("results/e/stray.npy")
    said = said_by_verify(capsys, is_bad=False, dataset="d")
    assert said == ["3 artefacts checked, 0 findings", digest]
    assert said_by_verify(capsys, is_bad=True, dataset="e")[0].startswith("unknown: results/e/stray.npy")
    with pytest.raises(ValueError, match="results/g: expected results to check, found none"):
        do("verify", options={**OPTIONS, "dataset": "g"})


def test_the_program_says_what_may_be_missing_where_results_are_stale(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("current.json").write_text("{}")  # as without the overlay that names their data set
    assert said_by_verify(capsys, is_bad=True)[-1] == (
        "stale by this configuration: give verify every --configfile that the results were made with"
    )
