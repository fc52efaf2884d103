"""configs/paper.yaml from download to tables, on the official files and bert-base-uncased in miniature."""

from __future__ import annotations

from pathlib import Path

import pytest
from made import make
from official_files import TRIPLES_OF_A_PAIR, accepted, write_hub_texts, write_mirror
from runs import checkout, rows_of

from condenser.data.records import read_examples, read_passages, read_qrels
from condenser.files import read_json

pytestmark = pytest.mark.ci

SIZES = """
objectives:
  condenser: {batch_size: 16, rows_per_chunk: 16, epochs: 1}
  cocondenser: {batch_size: 16, rows_per_chunk: 16, epochs: 1, min_span_tokens: 4, span_tokens: [16, 32]}
recipes:
  marco: &few
    lengths: {query: 16, passage: 64}
    depth: {train: 40}
    negatives: {depth: 30, sample: 3}
    passages_per_query: 2
    learning_rate: 1.0e-3
    epochs: 1
  marco_doc: *few
tables:
  full_train: {by_dataset: {msmarco_doc: {rows: [bm25, condenser-round1]}}}
compute: {threads: 1, precision: fp32, device: cpu}
shards: 1
encode: {batch_tokens: 4096, block_rows: 256}
downloads: {mirror: mirror}
"""


@pytest.fixture(scope="module")
def made(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = checkout(root, tmp_path_factory.mktemp("paper") / "checkout")
    tiny = root / "tests" / "data" / "tiny"
    write_mirror(tiny, folder / "mirror")
    write_hub_texts(tiny, folder)
    (folder / "sizes.yaml").write_text(SIZES)
    targets = ("results/msmarco/table1.tsv", "results/msmarco_doc/full_train.tsv")
    with accepted(tiny):
        make(folder, *targets, base="configs/paper.yaml", overlays=["sizes.yaml"])
    return folder


def test_the_tables_have_measured_rows_only_and_say_that_the_files_are_not_the_official_ones(
    made: Path,
) -> None:
    passages = rows_of(made / "results/msmarco/table1.tsv")
    assert [row["method"] for row in passages] == [
        *("BM25", "BM25, k1 .9 and b .4 as DPR"),
        *("Condenser + hard negatives", "coCondenser + hard negatives"),
    ]
    documents = rows_of(made / "results/msmarco_doc/full_train.tsv")
    assert [row["method"] for row in documents] == ["BM25", "Condenser w/o hard negatives"]
    for row in passages + documents:
        assert row["origin"] == "measured" and row["passages"] == "240" and row["queries"] == "48"
        assert "not the official passages and queries" in row["collection"]
        assert row["backbone"] == ("" if row["method"].startswith("BM25") else "bert-base-uncased")
    assert all(0 < float(row["MRR@10"]) <= 1 == float(row["R@1000"]) for row in passages[2:])
    assert all(0 < float(row[name]) <= 1 for row in documents for name in ("MRR@100", "dl19/nDCG@10"))


def test_each_rule_read_the_corpus_that_the_papers_give_it(made: Path) -> None:
    results = made / "results"
    wikibook = read_json(results / "wikibook/data/counts.json")
    assert set(wikibook["files"]) == {"wikipedia", "bookcorpus"} and wikibook["passages"] > 240
    assert (results / "wikibook/models/condenser/model.safetensors").is_file()
    assert (results / "msmarco-documents/models/cocondenser/model.safetensors").is_file()
    assert read_json(results / "msmarco/data/counts.json")["passages_without_title"] == 160
    titles = [one.title for one in read_passages(results / "msmarco/data/collection.jsonl")]
    assert titles[:2] == ["maximum independent set", ""]


def test_the_negatives_of_the_first_round_are_those_of_the_triples(made: Path) -> None:
    results = made / "results/msmarco"
    positives = {qrel.query_id: int(qrel.doc_id) for qrel in read_qrels(results / "data/qrels.train.tsv")}
    given = list(read_examples(results / "systems/bm25/seed42/examples.jsonl"))
    assert len(given) == len(positives) == 192
    for one in given:
        behind = {(int(doc_id) - positives[one.query_id]) % 240 for doc_id in one.negative_doc_ids}
        assert len(behind) == 3 and behind < set(range(1, TRIPLES_OF_A_PAIR + 1))
    assert not (made / "results/msmarco/systems/bm25/untrained/run.train.trec").exists()


def test_dl_2019_has_its_grades(made: Path) -> None:
    for name in ("msmarco", "msmarco_doc"):
        lines = (made / f"results/{name}/data/qrels.dl19.tsv").read_text().splitlines()
        assert len(lines) == 96 and {line.split("\t")[-1] for line in lines} == {"1", "3"}
