"""Reranking against transformers' own model, one pair of texts at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import scores_by_query
from small_trainings import PASSAGE_LENGTH, QUERY_LENGTH, Files, prepare, sharpen
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from condenser.data.records import Passage, Query, ScoredDoc, read_run, write_run
from condenser.data.tokens import Tokenizer, write_token_shard
from condenser.model.crossencoder import CrossEncoder
from condenser.model.devices import set_up
from condenser.retrieve import rerank as module
from condenser.retrieve.rerank import PairScorer, rerank

DEPTH, HITS = 7, 9


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    files = prepare(tmp_path_factory.mktemp("rerank"), dropout=0.1)
    sharpen(files.backbone)
    return files


@pytest.fixture(scope="module")
def model(files: Files) -> Path:
    """A cross-encoder whose scores lie far apart."""
    model = CrossEncoder.start(files.backbone, seed=3)
    with torch.no_grad():
        model.scorer.out.weight *= 50
    model.save(files.root / "model", files.backbone)
    return files.root / "model"


@pytest.fixture(scope="module")
def candidates(files: Files) -> Path:
    """Hits of every query but the second; the fourth has three alone."""
    run = []
    for number, query in enumerate(files.queries):
        hits = 0 if number == 1 else 3 if number == 3 else HITS
        rows = [(13 * number + 7 * place) % 60 for place in range(hits)]
        run += [
            ScoredDoc(query.query_id, files.passages[row].doc_id, -float(i)) for i, row in enumerate(rows)
        ]
    write_run(files.root / "candidates.trec", run, system="first")
    return files.root / "candidates.trec"


def rerank_into(folder: Path, files: Files, model: Path, run: Path, **changes: Any) -> dict[str, int]:
    settings = {
        **{"subset": None, "depth": DEPTH, "lengths": {"query": QUERY_LENGTH, "passage": PASSAGE_LENGTH}},
        **{"batch_tokens": 256, "block_rows": 20, "work_folder": folder / "work", "system": "second"},
        **{"compute": set_up(device="cpu", precision="fp32", threads=1), "model_folder": model},
    } | changes
    texts = replace(files.texts, collection_tokens=settings.pop("collection_tokens", files.tokens))
    scorer = PairScorer(**{field.name: settings.pop(field.name) for field in fields(PairScorer)})
    return rerank(scorer, run, folder / "run.trec", texts, **settings)


def reranked(
    files: Files, folder: Path, model: Path, run: Path, **changes: Any
) -> dict[str, dict[str, float]]:
    """The scores of each query's hits, in the order of the run."""
    counts = rerank_into(folder, files, model, run, **changes)
    found = scores_by_query(folder / "run.trec")
    assert counts["queries"] == len(found) and counts["hits"] == sum(map(len, found.values()))
    return found


@pytest.fixture(scope="module")
def whole(files: Files, model: Path, candidates: Path) -> Path:
    """The run of all candidates."""
    rerank_into(files.root, files, model, candidates)
    return files.root / "run.trec"


def plain_scores(model_folder: Path, query: Query, passages: list[Passage]) -> list[float]:
    """Each text is cut by itself, as training cuts it, and each pair is computed alone."""
    model = AutoModelForSequenceClassification.from_pretrained(model_folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    first = tokenizer(query.text, truncation=True, max_length=QUERY_LENGTH)["input_ids"]
    scores = []
    for passage in passages:
        text = f"{passage.title} [SEP] {passage.text}" if passage.title else passage.text
        second = tokenizer(text, truncation=True, max_length=PASSAGE_LENGTH)["input_ids"][1:]
        types = torch.tensor([[0] * len(first) + [1] * len(second)])
        with torch.inference_mode():
            logits = model(torch.tensor([first + second]), token_type_ids=types).logits
        scores.append(logits.item())
    return scores


def test_scores_are_those_of_transformers_one_pair_at_a_time(
    files: Files, model: Path, candidates: Path, whole: Path
) -> None:
    found = scores_by_query(whole)
    passages = {passage.doc_id: passage for passage in files.passages}
    given = {query_id: list(hits)[:DEPTH] for query_id, hits in scores_by_query(candidates).items()}
    assert list(found) == list(given) and len(found) == 19
    moved = 0
    for query in files.queries:
        hits = found.get(query.query_id, {})
        assert set(hits) == set(given.get(query.query_id, []))
        moved += list(hits) != given.get(query.query_id, [])
        values = list(hits.values())
        assert values == sorted(values, reverse=True)
        expected = plain_scores(model, query, [passages[doc_id] for doc_id in hits])
        assert values == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert moved > 10


@pytest.mark.parametrize("changes", [{"batch_tokens": 8}, {"batch_tokens": 4096}, {"block_rows": 1000}])
def test_batches_and_blocks_change_no_score_beyond_rounding(
    files: Files, tmp_path: Path, model: Path, candidates: Path, whole: Path, changes: dict[str, int]
) -> None:
    expected, found = scores_by_query(whole), reranked(files, tmp_path, model, candidates, **changes)
    assert found.keys() == expected.keys()
    for query_id, hits in expected.items():
        assert found[query_id] == pytest.approx(hits, rel=1e-5, abs=1e-5)


def test_the_number_of_shards_changes_no_byte(
    files: Files, tmp_path: Path, model: Path, candidates: Path, whole: Path
) -> None:
    texts = [(passage.title, passage.text) for passage in files.passages]
    write_token_shard(texts, tmp_path / "one", Tokenizer(model), batch_size=16, split=True)
    reranked(files, tmp_path, model, candidates, collection_tokens=[tmp_path / "one"])
    assert (tmp_path / "run.trec").read_bytes() == whole.read_bytes()


def test_a_tie_goes_to_the_lower_row_of_the_collection(files: Files, tmp_path: Path, model: Path) -> None:
    """Whatever the order of the hits: here all scores are the same."""
    flat = CrossEncoder.load(model)
    with torch.no_grad():
        flat.scorer.out.weight.zero_()
    flat.save(tmp_path / "flat", model)
    rows = [40, 3, 17, 59, 0]
    hits = [ScoredDoc(files.queries[0].query_id, files.passages[row].doc_id, 1.0) for row in rows]
    write_run(tmp_path / "hits.trec", hits, system="first")
    found = reranked(files, tmp_path, tmp_path / "flat", tmp_path / "hits.trec")
    assert list(found[files.queries[0].query_id]) == [files.passages[row].doc_id for row in sorted(rows)]


def test_of_a_subset_only_its_queries_are_reranked(
    files: Files, tmp_path: Path, model: Path, candidates: Path
) -> None:
    wanted = {files.queries[number].query_id for number in (1, 3, 8)}
    found = reranked(files, tmp_path, model, candidates, subset=wanted)
    assert list(found) == [files.queries[3].query_id, files.queries[8].query_id]
    assert reranked(files, tmp_path / "none", model, candidates, subset={"q of another"}) == {}


def test_counts_say_how_many_queries_had_fewer_hits(
    files: Files, tmp_path: Path, model: Path, candidates: Path
) -> None:
    lengths = {"query": 5, "passage": 6}
    counts = rerank_into(tmp_path, files, model, candidates, depth=8, lengths=lengths)
    assert counts == {"queries": 19, "queries_of_fewer_hits": 1, "hits": 18 * 8 + 3, "tokens": 147 * 10}


def test_an_interrupted_reranking_resumes_after_its_saved_blocks(
    files: Files,
    tmp_path: Path,
    model: Path,
    candidates: Path,
    whole: Path,
    noted: Callable[..., list[int]],
) -> None:
    sizes = noted(module, "token_batches", lambda lengths, **_: len(lengths), breaks_at=3)
    with pytest.raises(KeyboardInterrupt):
        reranked(files, tmp_path, model, candidates)
    assert not (tmp_path / "run.trec").exists()
    reranked(files, tmp_path, model, candidates)
    assert (tmp_path / "run.trec").read_bytes() == whole.read_bytes()
    num_pairs = 18 * DEPTH + 3
    assert sizes == [20, 20, 20] + [20] * (num_pairs // 20 - 2) + [num_pairs % 20]


def test_a_score_that_is_no_number_names_query_and_passage(
    files: Files, tmp_path: Path, model: Path, candidates: Path
) -> None:
    broken = CrossEncoder.load(model)
    with torch.no_grad():
        broken.scorer.out.bias.fill_(math.nan)
    broken.save(tmp_path / "broken", model)
    first = next(iter(read_run(candidates)))
    message = (
        f"broken: expected finite scores, .* query {first.query_id} with passage {first.doc_id} and 19 more"
    )
    with pytest.raises(ValueError, match=message):
        reranked(files, tmp_path, tmp_path / "broken", candidates)
