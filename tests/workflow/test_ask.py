"""The finished tiny run is asked: in this process, in the terminal, and through the server."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from made import graph_of
from runs import command, copied, environment, hits_by_query, served

from condenser.data.records import read_passages, read_queries
from condenser.files import sha256_file
from condenser.live.known import Known, NotReady
from condenser.live.systems import LiveSystem, OpenSystems
from condenser.pipeline.locks import join_folder

SYSTEMS = ["bm25", "cocondenser-round1", "cocondenser-round2"]
VARIANT = {"bm25": "untrained", "cocondenser-round1": "seed42", "cocondenser-round2": "seed42"}


@pytest.fixture(scope="module")
def checkout(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the finished run with a list of what can be asked; not to be changed."""
    folder = copied(golden, tmp_path_factory.mktemp("asked") / "checkout")
    graph_of(folder).write_known()
    return folder


@pytest.fixture
def known(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Known:
    monkeypatch.chdir(checkout)
    return Known.read(checkout / ".snakemake" / "known.json")


@pytest.mark.parametrize("system", SYSTEMS)
def test_queries_of_the_collection_get_the_hits_of_the_run(known: Known, system: str) -> None:
    """Scores to 1e-5; the same passages, unless scores are as near as that."""
    run = Path(f"results/tiny/systems/{system}/{VARIANT[system]}/run.dev.trec")
    expected = hits_by_query(run)
    passages = {passage.doc_id: passage for passage in read_passages("results/tiny/data/collection.jsonl")}
    live, compared = LiveSystem(known.asked("tiny", system)), 0
    for query in list(read_queries("results/tiny/data/queries.dev.jsonl"))[:12]:
        hits = live.answer(query.text, 10).hits
        first = expected.get(query.query_id, [])[:10]
        assert len(hits) == len(first) and [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
        score_of = {hit.doc_id: hit.score for hit in expected.get(query.query_id, [])}
        for hit, run_hit in zip(hits, first, strict=True):
            assert hit.score == pytest.approx(run_hit.score, abs=1e-5)
            assert score_of[hit.doc_id] == pytest.approx(hit.score, abs=1e-5)
            passage = passages[hit.doc_id]
            assert (hit.title, hit.text) == (passage.title, passage.text)
            compared += 1
    assert compared > 60


def test_the_page_opens_with_the_last_model_of_the_first_table_that_is_made(known: Known) -> None:
    systems = [system for system, _ in known.dataset("tiny").opens_with]
    assert systems == ["cocondenser-round2", "cocondenser-round1", "bm25"]  # table2 has BM25 in its last row


def test_a_result_that_is_up_to_date_says_nothing_of_that(known: Known) -> None:
    for system in SYSTEMS:
        asked = known.asked("tiny", system)
        assert asked.reasons == [] and asked.state() is None


def test_a_query_that_is_cut_is_said(known: Known) -> None:
    answer = OpenSystems().answer(known.asked("tiny", "cocondenser-round1"), "word " * 100, 3)
    assert len(answer.hits) == 3
    assert re.search(r"cut to its first 14 of \d+ tokens", answer.notes[0])


def test_an_edit_of_the_configuration_makes_an_answer_out_of_date(
    copy_of_golden: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy_of_golden()
    (folder / "overlay.yaml").write_text("recipes: {marco: {learning_rate: 2.0e-3}}\n")
    known = Known.read(graph_of(folder, overlays=["overlay.yaml"]).write_known())
    monkeypatch.chdir(folder)
    (reason, *_) = known.asked("tiny", "cocondenser-round1").reasons
    assert "recipe.learning_rate" in reason and "(train)" in reason
    assert known.asked("tiny", "bm25").reasons == []
    answer = OpenSystems().answer(known.asked("tiny", "cocondenser-round1"), "a query", 3)
    assert len(answer.hits) == 3 and answer.notes[0].startswith("Out of date: ")
    assert "Make it again: make results/tiny/systems/cocondenser-round1/seed42/" in answer.notes[0]


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def test_the_embeddings_of_another_model_are_refused_also_of_one_that_was_open(
    copy_of_golden: Callable[[], Path], checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy_of_golden()
    file = checkout / ".snakemake" / "known.json"
    known = Known.read(file, make_arguments="--configfile configs/tiny.yaml")
    monkeypatch.chdir(folder)
    asked, opened = known.asked("tiny", "cocondenser-round2"), OpenSystems()
    before = opened.answer(asked, "a query", 5)
    assert "open" in before.milliseconds
    assert "open" not in opened.answer(asked, "a query", 5).milliseconds

    systems = folder / "results" / "tiny" / "systems"
    mine, others = (systems / name / "seed42" / "embeddings" for name in SYSTEMS[:0:-1])
    aside = folder / "aside"
    mine.rename(aside)
    shutil.copytree(others, mine)
    with pytest.raises(NotReady) as error:
        opened.answer(asked, "a query", 5)
    said = str(error.value)
    assert (
        "expected the embeddings of the model in results/tiny/systems/cocondenser-round2/seed42/model" in said
    )
    assert "another model (" in said and "\n" not in said
    assert error.value.command == (
        "make results/tiny/systems/cocondenser-round2/seed42/embeddings/collection.{0..1}-of-2.npy "
        "SNAKEMAKE_ARGS='--configfile configs/tiny.yaml'"
    )

    shutil.rmtree(mine)
    aside.rename(mine)
    assert opened.answer(asked, "a query", 5).hits == before.hits


@pytest.mark.parametrize(
    ("system", "damaged", "said"),
    [
        ("cocondenser-round1", "systems/{}/model/model.safetensors", "model.safetensors: it was changed"),
        (
            "cocondenser-round1",
            "systems/{}/model.manifest.json",
            "model.manifest.json: expected the manifest",
        ),
        (
            "cocondenser-round1",
            "systems/{}/embeddings/collection.1-of-2.manifest.json",
            "expected the manifest",
        ),
        ("cocondenser-round1", "data/doc_ids.txt", "doc_ids.txt: it was changed after"),
        ("cocondenser-round1", "data/collection.jsonl", "collection.jsonl: it was changed after"),
        (
            "cocondenser-round1",
            "systems/{}/embeddings/collection.1-of-2.npy",
            "1-of-2.npy: it was changed after",
        ),
        ("bm25", "bm25/index.manifest.json", "expected the manifest of a finished result"),
    ],
)
def test_what_is_damaged_is_refused_in_one_line(
    copy_of_golden: Callable[[], Path],
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    damaged: str,
    said: str,
) -> None:
    folder = copy_of_golden()
    monkeypatch.chdir(folder)
    flip_a_byte(folder / "results" / "tiny" / damaged.format(f"{system}/{VARIANT[system]}"))
    with pytest.raises(NotReady, match=said) as error:
        LiveSystem(Known.read(checkout / ".snakemake" / "known.json").asked("tiny", system))
    assert "\n" not in str(error.value) and error.value.command.startswith("make results/tiny/")


def ask(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "workflow_scripts/ask.py", "--known", ".snakemake/known.json", *arguments],
        cwd=folder,
        env={**environment(), "PYTHONPATH": str(folder), "COLUMNS": "70"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_shows_hits_in_the_terminal_and_changes_nothing(checkout: Path) -> None:
    results = checkout / "results"
    before = {file: sha256_file(file) for file in results.rglob("*") if file.is_file()}
    query = next(iter(read_queries(results / "tiny" / "data" / "queries.dev.jsonl")))
    done = ask(checkout, "--dataset", "tiny", "--system", "bm25", "--query", query.text, "--depth", "3")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    run = (results / "tiny" / "systems" / "bm25" / "untrained" / "run.dev.trec").read_text().splitlines()
    expected = [line.split()[2] for line in run if line.startswith(f"{query.query_id} ")][:3]
    assert re.findall(r"(?m)^ +\d+ +\d+\.\d{4}  (\S+)", done.stdout) == expected
    assert max(map(len, done.stdout.splitlines())) <= 70
    assert {file: sha256_file(file) for file in results.rglob("*") if file.is_file()} == before


def test_a_mistake_in_the_terminal_is_one_line(checkout: Path) -> None:
    for arguments, said in [
        (("--dataset", "tiny", "--system", "bm52", "--query", "x"), "Did you mean bm25?"),
        (("--dataset", "tiny", "--system", "ict-zeroshot", "--query", "x"), "Make it: make results/tiny/"),
        (("--dataset", "tiny", "--system", "bm25", "--query", "x" * 1001), "at most 1,000 characters"),
    ]:
        done = ask(checkout, *arguments)
        assert done.returncode == 1 and done.stdout == ""
        assert done.stderr.startswith("error: ") and said in done.stderr and done.stderr.count("\n") == 1


def test_the_list_says_how_to_ask_what_is_ready_and_what_makes_the_rest(checkout: Path) -> None:
    lines = ask(checkout, "--overlays", "configs/tiny.yaml").stdout.splitlines()
    ready = [
        f'  make search DATASET=tiny SYSTEM={name} QUERY="..." CONFIG=configs/tiny.yaml' for name in SYSTEMS
    ]
    assert lines[: len(ready) + 2] == ["Ask one of these:", *ready, "Not made yet:"]
    (other,) = (line for line in lines if line.startswith("  tiny, mlm-zeroshot, untrained: "))
    target = "results/tiny/systems/mlm-zeroshot/untrained/embeddings/collection.{0..1}-of-2.npy"
    assert other.endswith(f": make {target} CONFIG=configs/tiny.yaml")


def test_without_a_system_the_first_that_is_ready_is_asked(checkout: Path, known: Known) -> None:
    done = ask(checkout, "--dataset", "tiny", "--query", "a graph")
    assert (
        done.stdout.endswith("ms\n") and "(tiny, cocondenser-round2, seed42)" in done.stdout.splitlines()[0]
    )
    with pytest.raises(
        NotReady, match=r"msmarco: no system can be asked yet\. Make it: make results/msmarco/"
    ):
        known.usual("msmarco")


def test_the_command_that_is_shown_names_a_target_of_the_workflow(checkout: Path) -> None:
    pattern = re.search(r"make (results/tiny/systems/mlm-zeroshot/.*)", ask(checkout).stdout)[1]
    targets = subprocess.run(
        ["bash", "-c", f"echo {pattern}"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(targets) == 2
    said = subprocess.run(
        command(targets[1], "-n", target=targets[0]),
        cwd=checkout, env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "rule encode:" in said.stdout and "mlm-zeroshot" in said.stdout


def make(root: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What make does in a checkout, by this Python."""
    return subprocess.run(
        ["make", "-f", root / "Makefile", "-o", ".venv/ready", *arguments],
        cwd=folder, env={**environment(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.ci
def test_a_question_beside_a_run_leaves_the_locks_of_that_run(
    root: Path, copy_of_golden: Callable[[], Path]
) -> None:
    folder = copy_of_golden()
    lock = folder / ".snakemake" / "locks" / "0.output.lock"
    with join_folder(folder / ".snakemake"):  # as a run that goes on
        lock.parent.mkdir(exist_ok=True)
        lock.touch()
        for target in ("verify", "search"):
            done = make(root, folder, target, "SNAKEMAKE_ARGS=--configfile configs/tiny.yaml")
            assert done.returncode == 0, done.stderr
            assert lock.exists()


@pytest.mark.ci
def test_snakemake_starts_only_where_what_can_be_asked_is_out_of_date(
    root: Path, copy_of_golden: Callable[[], Path]
) -> None:
    folder = copy_of_golden()
    known = folder / ".snakemake" / "known.json"
    search = ["search", "DATASET=tiny", "QUERY=a graph", "DEPTH=1"]

    def asked(*arguments: str) -> tuple[bool, str]:
        """Whether Snakemake has started, and the answer."""
        before = known.stat().st_mtime_ns if known.exists() else None
        done = make(root, folder, *search, *arguments)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return known.stat().st_mtime_ns != before, done.stdout.splitlines()[0]

    tiny = "CONFIG=configs/tiny.yaml"
    assert asked(tiny)[0]
    assert asked(tiny) == asked(tiny, "SYSTEM=cocondenser-round2") == (False, asked(tiny)[1])
    assert asked("SNAKEMAKE_ARGS=--configfile configs/tiny.yaml")[0] and asked(tiny)[0]
    with (folder / "configs" / "tiny.yaml").open("a") as config:
        config.write("\n# edited\n")
    assert asked(tiny)[0] and not asked(tiny)[0]
    (folder / "condenser" / "live" / "of_mine.py").touch()
    assert asked(tiny)[0] and not asked(tiny)[0]
    embeddings = folder / "results" / "tiny" / "systems" / "cocondenser-round2" / "seed42" / "embeddings"
    embeddings.rename(folder / "aside")
    assert asked(tiny)[0]
    (folder / "aside").rename(embeddings)
    assert "cocondenser-round2" in asked(tiny)[1] and not asked(tiny)[0]


@pytest.mark.ci
def test_an_unknown_name_is_looked_up_once_more(root: Path, copy_of_golden: Callable[[], Path]) -> None:
    folder = copy_of_golden()
    known = folder / ".snakemake" / "known.json"
    tiny = ["CONFIG=configs/tiny.yaml", "DATASET=tiny", "QUERY=a graph"]
    assert make(root, folder, "search", *tiny).returncode == 0
    known.write_text("{}")  # as if it were of another time
    assert make(root, folder, "search", *tiny).returncode == 0
    said = make(root, folder, "search", "SYSTEM=bm52", *tiny).stderr
    assert said.startswith("error: ") and "Did you mean bm25?" in said


def get(address: str, asked: dict[str, str], **headers: str) -> tuple[int, Any]:
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.netloc, timeout=120)
    connection.request("GET", f"/search?{place.query}&{urlencode(asked)}", headers=headers)
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, json.loads(content) if reply.status != 403 else content.decode()


def test_the_server_answers_and_ends_with_status_0_on_ctrl_c(checkout: Path, known: Known) -> None:
    query = "collection of passages \U0001f600 \0 שלום"
    with served(checkout) as (process, address):
        for system in SYSTEMS[:2]:
            body = {"dataset": "tiny", "system": system, "variant": VARIANT[system], "q": query, "k": "5"}
            status, answer = get(address, body)
            assert status == 200, answer
            expected = LiveSystem(known.asked("tiny", system)).answer(query, 5)
            assert [hit["doc_id"] for hit in answer["hits"]] == [hit.doc_id for hit in expected.hits]
            assert answer["milliseconds"]["open"] > 0 and answer["milliseconds"]["search"] > 0
            status, again = get(address, body)
            assert "open" not in again["milliseconds"] and again["hits"] == answer["hits"]
        assert get(address, body, Origin="http://evil.example")[0] == 403
        assert get(address, body, Host="evil.example")[0] == 403
        assert get(address, {**body, "q": "x" * 2_000})[0] == 413
        assert get(address, body)[0] == 200  # Java has left Ctrl-C and the server as they were
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
        assert process.stderr is not None and process.stderr.read() == ""
