"""The program that trains a small generator: its pairs, and a folder that the product loads."""

from __future__ import annotations

import importlib
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from own_collections import write_beir

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
def layouts(tmp_path: Path) -> list[Path]:
    """The same data set in BEIR's layout, and as the workflow writes it."""
    beir, ours = tmp_path / "beir", tmp_path / "ours"
    (beir / "qrels").mkdir(parents=True)
    for name, records in (
        ("corpus", [{"_id": one.doc_id, "title": one.title, "text": one.text} for one in PASSAGES]),
        ("queries", [{"_id": one.query_id, "text": one.text, "answers": one.answers} for one in QUERIES]),
    ):
        (beir / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    rows = [f"{one.query_id}\t{one.doc_id}\t{one.grade}\n" for one in QRELS]
    (beir / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    ours.mkdir()
    write_passages(ours / "collection.jsonl", PASSAGES)
    write_queries(ours / "queries.train.jsonl", QUERIES)
    write_qrels(ours / "qrels.train.tsv", QRELS)
    return [beir, ours]


@pytest.mark.parametrize("kind", PAIRS)
def test_pairs_are_those_of_relevant_passages_in_both_layouts(
    program: Any, layouts: list[Path], kind: str
) -> None:
    for folder in layouts:
        assert list(program.read_pairs(folder, kind, set())) == PAIRS[kind]
        assert list(program.read_pairs(folder, kind, {"q1"})) == PAIRS[kind][1:]


def test_every_row_is_in_one_batch_beside_rows_of_like_length(program: Any) -> None:
    lengths = torch.randint(3, 90, (1000,)).tolist()
    found = program.batches(lengths, 8)
    assert sorted(row for batch in found for row in batch) == list(range(1000))
    spread = [max(lengths[row] for row in batch) - min(lengths[row] for row in batch) for batch in found]
    assert sum(spread) / len(spread) < 10


def test_the_folder_is_a_generator_and_the_loss_falls(
    program: Any, layouts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "generator"
    program.main(
        [str(layouts[0]), str(folder), "--pairs", "answer", "--epochs", "6", "--learning-rate", "1e-3"]
    )
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", capsys.readouterr().out)]
    assert losses[-1] < losses[0] < 1.3 * math.log(30522)  # of a guess; the head begins at random
    generator = Generator.load(folder, Compute(torch.device("cpu"), "fp32"))
    ids, _ = generator.encode([QUERIES[0].text], max_tokens=32)
    (texts,), _ = generator.generate(ids, samples=1, top_k=None, max_tokens=5, noise=None)
    assert len(texts) == 1


def test_a_data_set_without_answers_is_refused(program: Any, tmp_path: Path) -> None:
    write_beir(tmp_path, **{"queries.jsonl": '{"_id": "q1", "text": "1?"}\n'})
    with pytest.raises(SystemExit, match="expected a train query with answer, got none"):
        program.main([str(tmp_path), str(tmp_path / "out"), "--pairs", "answer"])
