"""What docs/start.md does in a notebook, on the finished tiny run, from another folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made import graph_of
from runs import copied, environment, hits_by_query

import condenser
from condenser.data.records import read_passages, read_queries
from condenser.files import load_npy
from condenser.live.known import NotReady

RUN = Path("results/tiny")


@pytest.fixture(scope="module")
def checkout(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the finished run with a list of what can be asked; not to be changed."""
    folder = copied(golden, tmp_path_factory.mktemp("notebook") / "checkout")
    graph_of(folder).write_known()
    return folder


def test_a_search_finds_the_hits_of_the_run(checkout: Path) -> None:
    import torch

    search = condenser.search(checkout / RUN, system="cocondenser-round1")
    threads, mode = torch.get_num_threads() + 1, 0
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode(mode)
    (query, *_) = read_queries(checkout / RUN / "data/queries.dev.jsonl")
    run = checkout / RUN / "systems/cocondenser-round1/seed42/run.dev.trec"
    hits = search(query.text, depth=5)
    scores = {hit.doc_id: hit.score for hit in hits_by_query(run)[query.query_id]}
    best = sorted(scores.values(), reverse=True)[:5]
    for hit, score in zip(hits, best, strict=True):  # a query alone is rounded otherwise: near ties may turn
        assert hit.score == pytest.approx(score, abs=1e-4)
        assert hit.score == pytest.approx(scores[hit.doc_id], abs=1e-4)
    assert search.notes == [] and search.milliseconds["search"] >= 0
    assert (torch.get_num_threads(), torch.get_deterministic_debug_mode()) == (threads, mode)
    torch.set_num_threads(threads - 1)


def test_vectors_are_those_of_the_workflow(checkout: Path, caplog: pytest.LogCaptureFixture) -> None:
    search = condenser.search(checkout / RUN, system="cocondenser-round1")
    passages = list(read_passages(checkout / RUN / "data/collection.jsonl"))[:20]
    texts = [(passage.title, passage.text) for passage in passages]
    vectors = condenser.encode(search.models["cocondenser-round1"], texts, max_tokens=64)
    folder = checkout / RUN / "systems/cocondenser-round1/seed42"
    (shard, *_) = sorted(folder.rglob("collection.0-of-*.npy"))
    np.testing.assert_allclose(vectors, load_npy(shard)[: len(vectors)], atol=1e-5)
    caplog.clear()
    condenser.encode(search.models["cocondenser-round1"], ["a b c d e f g h", "a"], max_tokens=6)
    assert caplog.messages == ["1 of 2 texts are cut to 6 tokens"]


def test_what_is_not_made_is_said_with_its_command(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(NotReady, match=r"lists what can be asked\. Make it: make -C .* search DATASET=mine"):
        condenser.search(tmp_path / "results/mine")
    with pytest.raises(ValueError, match="expected a system of the configuration"):
        condenser.search(checkout / RUN, system="nothing")
    with pytest.raises(ValueError, match="expected a list of one or more texts, got 'a text'"):
        condenser.encode(tmp_path, "a text")


def test_the_notebook_of_the_page_runs(checkout: Path, root: Path, tmp_path: Path) -> None:
    page = (root / "docs/start.md").read_text()
    (cell,) = re.findall(r"```python\n(import condenser.*?)```", page, re.DOTALL)
    names = {"results/mine": str(checkout / RUN), "hybrid": "cocondenser-round1"}
    names["Zinc does not."] = "Iron rusts in damp air."  # two passages alike: the loss cannot be 0
    for shown, here in names.items():
        assert shown in cell
        cell = cell.replace(shown, here)
    done = subprocess.run(
        [sys.executable, "-c", cell],
        env={**environment(), "PYTHONPATH": str(root)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *hits, shape, loss = done.stdout.splitlines()
    assert len(hits) == 3 and shape.startswith("(2, ") and 0.01 < float(loss) < 10


def test_a_training_loop_of_ones_own_has_the_same_gradients_with_and_without_the_cache(
    checkout: Path, root: Path
) -> None:
    import torch

    page = (root / "docs/extending.md").read_text()
    (loop,) = re.findall(r"```python\n(import condenser.*?)```", page, re.DOTALL)
    loop = loop.replace("results/mine", str(checkout / RUN))
    runs: list[dict[str, Any]] = []
    for cached in ("keep_graphs=False", "keep_graphs=True"):
        runs.append({})
        exec(loop.replace("keep_graphs=False", cached), runs[-1])
    one, other = runs
    assert one["losses"] == other["losses"] and one["losses"]["mlm"] > one["losses"]["batch"] > 0
    pairs = zip(one["model"].parameters(), other["model"].parameters(), strict=True)
    gradients = [(mine.grad, theirs.grad) for mine, theirs in pairs if mine.requires_grad]
    trained = [(mine, theirs) for mine, theirs in gradients if mine is not None and mine.any()]
    assert len(trained) > 20 and all(torch.equal(mine, theirs) for mine, theirs in trained)


def test_importing_loads_nothing(root: Path) -> None:
    check = "import sys, condenser; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], env={"PYTHONPATH": str(root)}, check=True, timeout=60)
