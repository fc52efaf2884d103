"""The export of the tiny run: other libraries rank as the workflow, and the card's own code loads it."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from runs import digests, environment, finished, rules_to_run

from condenser.data.records import read_passages, read_queries, read_run
from condenser.files import load_npy, read_json, save_npy, sha256_file
from condenser.live.systems import Known, OpenSystems

pytestmark = [pytest.mark.workflow, pytest.mark.slow]  # the quick ones: tests/unit/export

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
USED = {"overlays": ["overlay.yaml"], "cores": 1}
LIBRARIES = ["onnxruntime", "pyserini", "sentence-transformers", "transformers"]


@pytest.fixture(scope="module")
def exported(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the finished tiny run, with the export of one system."""
    folder = tmp_path_factory.mktemp("exported") / "checkout"
    shutil.copytree(golden, folder, symlinks=True, copy_function=shutil.copyfile)
    (folder / "overlay.yaml").write_text(OVERLAY)
    finished(folder, target=TARGET, **USED)
    return folder


def test_every_library_finds_the_same_passages_for_all_queries(exported: Path) -> None:
    agreement = read_json(exported / TARGET)
    assert (agreement["queries"], agreement["passages"], agreement["passages_encoded"]) == (48, 240, 240)
    assert sorted(agreement["libraries"]) == LIBRARIES
    for name, likeness in agreement["libraries"].items():
        assert likeness["same"] == 1.0, name
        assert likeness["same_order"] >= 0.95, name
        assert likeness["largest_difference"] <= 1e-5, name
    int8 = agreement["int8"]
    assert int8["judged_queries"] == 48 and 0.3 < int8["int8"] <= 1
    assert int8["difference"] == pytest.approx(int8["int8"] - int8["float32"], abs=2e-6)
    # the tiny run computes in float32, so its own metrics are those of the exact vectors
    metrics = read_json(exported / SYSTEM / "metrics.dev.json")["measures"]
    assert int8["float32"] == pytest.approx(metrics["nDCG@10"], abs=1e-6)
    assert agreement["stored_vectors"]["largest_deviation"] < 1e-5


def code_of_the_card(exported: Path) -> dict[str, str]:
    card = (exported / SYSTEM / "export" / "model" / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    names = ["sentence_transformers", "AutoModel", "pyserini", "onnxruntime"]
    assert len(blocks) == len(names) and all(name in block for name, block in zip(names, blocks, strict=True))
    return dict(zip(names, blocks, strict=True))


def said_by(exported: Path, code: str) -> str:
    """What a program prints that is started in the export's folder, without any code of ours beside it."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=exported / SYSTEM / "export",
        env={**environment(), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


def given_texts(code: str, queries: list[str], passages: list[str]) -> str:
    """The lines of the card, with other texts in them."""
    code, num_queries = re.subn(r"(?m)^queries = .*$", lambda _: f"queries = {queries!r}", code)
    code, num_passages = re.subn(r"(?m)^passages = .*$", lambda _: f"passages = {passages!r}", code)
    assert (num_queries, num_passages) == (1, 1)
    return code


def test_the_cards_own_lines_give_the_scores_of_the_run(exported: Path) -> None:
    data = exported / "results" / "tiny" / "data"
    queries = {query.query_id: query.text for query in read_queries(data / "queries.dev.jsonl")}
    passages = {one.doc_id: one for one in read_passages(data / "collection.jsonl")}
    lines = list(read_run(exported / SYSTEM / "run.dev.trec"))
    titled = [line for line in lines if passages[line.doc_id].title][:3]
    chosen = [*titled, *(line for line in lines if not passages[line.doc_id].title)][:6]
    assert len(titled) == 3 and len(chosen) == 6
    texts = [
        f"{passage.title} [SEP] {passage.text}" if passage.title else passage.text
        for passage in (passages[line.doc_id] for line in chosen)
    ]
    asked = [queries[line.query_id] for line in chosen]
    expected = [line.score for line in chosen]
    shown = "\nimport json, numpy; print(json.dumps(numpy.asarray(scores).diagonal().tolist()))"
    bare = [text.partition(" [SEP] ")[2] or text for text in texts]
    for name, code in code_of_the_card(exported).items():
        if name == "pyserini":
            continue
        scores = json.loads(said_by(exported, given_texts(code, asked, texts) + shown))
        np.testing.assert_allclose(scores, expected, atol=1e-5, err_msg=name)
        if name == "AutoModel":  # a title that is left out is another text
            scores = json.loads(said_by(exported, given_texts(code, asked, bare) + shown))
            assert np.abs(np.subtract(scores, expected))[:3].min() > 1e-3
            np.testing.assert_allclose(scores[3:], expected[3:], atol=1e-5)


def test_the_cards_own_lines_search_with_pyserini(exported: Path) -> None:
    query = next(read_queries(exported / "results/tiny/data/queries.dev.jsonl"))
    code = code_of_the_card(exported)["pyserini"].replace("how is a list sorted", query.text)
    java = (
        "from condenser.export.agreement import prepare_pyserini; prepare_pyserini()\n"  # no whole JDK here
    )
    code = f"import sys; sys.path.insert(0, {str(exported)!r}); {java}{code}"
    found = json.loads(said_by(exported, code + "\nimport json; print(json.dumps([h.docid for h in hits]))"))
    hits = [line for line in read_run(exported / SYSTEM / "run.dev.trec") if line.query_id == query.query_id]
    assert found == [hit.doc_id for hit in hits[:10]]


def test_the_card_is_filled_from_the_manifests_and_names_no_place(exported: Path) -> None:
    card = (exported / SYSTEM / "export" / "model" / "README.md").read_text()
    model = exported / "results/tiny/models/encoder/model.safetensors"
    metrics = read_json(exported / SYSTEM / "metrics.dev.json")
    assert sha256_file(model) in card
    for name, value in metrics["measures"].items():
        assert re.search(rf"\| {name} \| {value:.4f} \| 0\.\d{{4}} to \d\.\d{{4}} \|", card), name
    for told in (
        "240 passages",
        "48 judged queries",
        "license: other",
        "which says: MIT",
        "not known to the workflow",
        "`encoder`, as it is",
        "at most 16 tokens",
        "at most 64 tokens",
    ):
        assert told in card, told
    assert "$" not in card and str(exported) not in card
    stages = re.findall(r"(?m)^\| `(\S+)` \| (checkpoint|pretrain|train) \|", card)
    assert stages == [("encoder", "checkpoint")]


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
    folder = tmp_path / "checkout"
    shutil.copytree(exported, folder, symlinks=True, copy_function=shutil.copyfile)
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
    folder = tmp_path / "checkout"
    shutil.copytree(exported, folder, symlinks=True, copy_function=shutil.copyfile)
    before = digests(folder)
    shutil.rmtree(folder / SYSTEM / "export")
    of_untied = "results/tiny/systems/two-encoders/seed42/export"
    finished(folder, f"{of_untied}/agreement.json", target=TARGET, **USED)
    after = digests(folder)
    assert {name: after[name] for name in before} == before
    agreement = read_json(folder / of_untied / "agreement.json")
    assert all(one["same"] == 1.0 for one in agreement["libraries"].values())
    for name in ("query", "passage"):
        assert (folder / of_untied / "model" / name / "onnx" / "model.onnx").is_file()


def test_prompts_reach_the_run_live_search_the_export_and_the_card(exported: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    shutil.copytree(exported, folder, symlinks=True, copy_function=shutil.copyfile)
    prompts = 'prompts: {query: "query: ", passage: "passage: "}'
    (folder / "overlay.yaml").write_text(OVERLAY.replace("source: embedded", f"source: embedded, {prompts}"))
    finished(folder, target=TARGET, **USED)
    for likeness in read_json(folder / TARGET)["libraries"].values():
        assert likeness["same"] == 1.0 and likeness["largest_difference"] <= 1e-5
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
    code = code_of_the_card(folder)
    for name in ("AutoModel", "onnxruntime"):
        passages = {one.doc_id: one for one in read_passages(folder / "results/tiny/data/collection.jsonl")}
        found = [passages[hit.doc_id] for hit in of_query]
        texts = [
            f"passage: {one.title} [SEP] {one.text}" if one.title else f"passage: {one.text}" for one in found
        ]
        given = given_texts(code[name], [f"query: {query.text}"], texts)
        scores = json.loads(said_by(folder, given + "\nimport json; print(json.dumps(scores.tolist()[0]))"))
        np.testing.assert_allclose(scores, [hit.score for hit in of_query], atol=1e-5, err_msg=name)

    finished(folder, target="ask", **USED)
    known = Known(folder / ".snakemake" / "known.json")
    with contextlib.chdir(folder):
        asked = known.asked("tiny", "encoder-zeroshot")
        answer = OpenSystems().answer(asked, query.text, 3)
    assert [hit.doc_id for hit in answer.hits] == [hit.doc_id for hit in of_query]
    np.testing.assert_allclose([hit.score for hit in answer.hits], [hit.score for hit in of_query], atol=1e-5)


def test_a_model_without_queries_is_compared_on_passages(exported: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    shutil.copytree(exported, folder, symlinks=True, copy_function=shutil.copyfile)
    target = SYSTEM.replace("tiny", "texts") + "/export"
    finished(folder, target=f"{target}/agreement.json", **USED)
    agreement = read_json(folder / target / "agreement.json")
    assert agreement["query_texts"] == "passages" and agreement["queries"] == 240
    assert "difference" not in agreement["int8"]
    assert "no judged queries" in (folder / target / "model" / "README.md").read_text()
