"""The program that trains a small generator: its pairs, and a folder that the product loads."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from condenser.data.records import Passage, Qrel, Query, write_passages, write_qrels, write_queries
from condenser.model.devices import Compute
from condenser.model.generator import Generator

PASSAGES = [
    Passage("d1", "Seas", "The North Sea is shallow. It lies between Norway and Britain! Ships cross it."),
    Passage("d2", "", "A passage without a title."),
]
QUERIES = [
    Query("q1", "Which sea is shallow?", ("The North Sea", "North Sea")),
    Query("q2", "Where does it lie?", ("between Norway",)),
    Query("q3", "what has no title"),
    Query("q4", "of grade 0", ("A passage",)),
]
QRELS = [Qrel("q1", "d1", 1), Qrel("q2", "d1", 2), Qrel("q3", "d2", 1), Qrel("q4", "d2", 0)]
WHOLE = f"Seas {PASSAGES[0].text}"
PAIRS = {
    "query": [
        (WHOLE, QUERIES[0].text), (WHOLE, QUERIES[1].text), (PASSAGES[1].text, QUERIES[2].text),
    ],
    "answer": [(QUERIES[0].text, "The North Sea"), (QUERIES[1].text, "between Norway")],
    "sentence": [
        (QUERIES[0].text, "The North Sea is shallow."),
        (QUERIES[1].text, "It lies between Norway and Britain!"),
    ],
    "title": [(QUERIES[0].text, "Seas"), (QUERIES[1].text, "Seas")],
}  # fmt: skip


@pytest.fixture(scope="module")
def program(root: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "benchmarks"))
        return importlib.import_module("small_generator")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set as the workflow writes it."""
    write_passages(tmp_path / "collection.jsonl", PASSAGES)
    write_queries(tmp_path / "queries.train.jsonl", QUERIES)
    write_qrels(tmp_path / "qrels.train.tsv", QRELS)
    return tmp_path


@pytest.mark.parametrize("kind", PAIRS)
def test_pairs_are_those_of_relevant_passages(program: Any, folder: Path, kind: str) -> None:
    assert list(program.read_pairs(folder, kind, set())) == PAIRS[kind]
    assert list(program.read_pairs(folder, kind, {"q1"})) == PAIRS[kind][1:]


def test_pairs_of_beirs_layout_are_read_too(program: Any, root: Path) -> None:
    assert len(list(program.read_pairs(root / "tests/data/tiny", "query", set()))) == 192


@pytest.mark.ci
def test_the_folder_is_a_generator_and_the_loss_falls(
    program: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = folder / "generator"
    program.main([str(folder), str(made), "--pairs", "answer", "--epochs", "6", "--learning-rate", "1e-3"])
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", capsys.readouterr().out)]
    assert losses[-1] < losses[0] < 1.3 * math.log(30522)  # of a guess; the head begins at random
    generator = Generator.load(made, Compute(torch.device("cpu"), "fp32"))
    ids, _ = generator.encode([QUERIES[0].text], max_tokens=32)
    (texts,), _ = generator.generate(ids, samples=1, top_k=None, max_tokens=5, noise=None)
    assert len(texts) == 1
