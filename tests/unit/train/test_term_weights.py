"""Term weights: targets and weights against transformers and the texts; what is learnt; resuming."""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from architectures import write_folder
from small_models import full_rows
from small_trainings import TERMS, Files, losses, prepare, qrels_of, sharpen, train, write_term_weights
from transformers import AutoModel, AutoTokenizer

from condenser.data.batches import step_items
from condenser.data.expansions import expanded
from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    passage_id,
    write_qrels,
)
from condenser.data.tokens import Tokenizer
from condenser.papers import term_weights
from condenser.papers.term_training import judged_passages
from condenser.papers.term_weigher import TermWeigher
from condenser.papers.terms import WordReader

LENGTH = TERMS["max_tokens"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    files = prepare(tmp_path_factory.mktemp("terms"), dropout=0.0)
    sharpen(files.backbone)
    return files


def trained(files: Files, output: Path, **changes: Any) -> dict[str, int]:
    """With the judgements of `small_trainings`: some passages have two queries."""
    return train("terms", files, output, checkpoint_every_s=0, **{"updates": 1, **changes})


def weights_in(output: Path) -> list[dict[str, float]]:
    lines = (output / "weights.jsonl").read_text().splitlines()
    return [json.loads(line)["contents"] for line in lines]


def text_of(passage: Passage) -> str:
    return f"{passage.title} [SEP] {passage.text}" if passage.title else passage.text


class Slow:
    """Words and weights as transformers has them, one text at a time."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder).eval()
        self.out = TermWeigher.start(folder, seed=42).out

    def words(self, text: str, length: int = LENGTH) -> list[tuple[int, str]]:
        """The place of the first token of each word, and the word as it is in the text, in lower case."""
        encoded = self.tokenizer(text, truncation=True, max_length=length)
        ids, words = encoded.input_ids, encoded.word_ids()
        firsts = [place for place in range(1, len(ids) - 1) if words[place] != words[place - 1]]
        spans = {place: encoded.word_to_chars(words[place]) for place in firsts}
        # a word that is cut off is as much of it as the tokens say
        ends = {place: max(encoded.token_to_chars(p).end for p in range(place, len(ids) - 1)
                           if words[p] == words[place]) for place in firsts}  # fmt: skip
        special = (self.tokenizer.unk_token_id, self.tokenizer.sep_token_id)
        return [
            (place, text[spans[place].start : ends[place]].lower())
            for place in firsts
            if ids[place] not in special
        ]

    @torch.inference_mode()
    def weights(self, text: str) -> list[tuple[str, float]]:
        inputs = self.tokenizer(text, truncation=True, max_length=LENGTH, return_tensors="pt")
        of_tokens = self.out(self.model(**inputs).last_hidden_state[0])[:, 0]
        return [(word, of_tokens[place].item()) for place, word in self.words(text)]


def recall(slow: Slow, passage: int, queries: list[Query]) -> dict[str, float]:
    """QTR of each word that a query of the passage has, by the rule of the fixture."""
    asked = [
        {word for _, word in slow.words(query.text, 512)}
        for number, query in enumerate(queries)
        if passage in range(number, number + 1 + number % 2)
    ]
    return {word: np.mean([word in query for query in asked]) for query in asked for word in query}


def test_the_loss_is_the_mean_square_of_weight_less_query_term_recall(files: Files, tmp_path: Path) -> None:
    counts = trained(files, tmp_path / "out")
    slow, size = Slow(files.backbone), TERMS["batch_size"]
    assert (counts["passages_trained_on"], counts["queries"]) == (21, 20)
    _, _, items = step_items(21, batch_size=size, step=0, seed=42, stream="term weights")
    assert {2, 4} & set(items.tolist()), "a passage with two queries"
    errors = [
        weight - recall(slow, item, files.queries).get(word, 0.0)
        for item in items.tolist()
        for word, weight in slow.weights(text_of(files.passages[item]))
    ]
    assert losses(tmp_path / "out")[0]["loss"] == pytest.approx(np.mean(np.square(errors)), rel=1e-4)


def test_a_word_has_the_larger_weight_of_its_first_pieces_in_the_form_that_an_index_reads(
    files: Files, tmp_path: Path
) -> None:
    model, slow = TermWeigher.start(files.backbone, seed=42), Slow(files.backbone)
    write_term_weights(files, tmp_path, model, tmp_path)
    texts, expected = [], []
    for passage in files.passages:
        largest: dict[str, float] = {}
        for word, weight in slow.weights(text_of(passage)):
            largest[word] = max(weight, largest.get(word, 0.0))
        texts.append((passage.doc_id, passage.text))
        expected.append({word: weight for word, weight in largest.items() if weight >= 1e-6})
    assert any(len(slow.tokenizer(text).input_ids) > LENGTH for _, text in texts)
    for found, of_text in zip(weights_in(tmp_path), expected, strict=True):
        assert found == pytest.approx(of_text, abs=2e-6)
    counts: Counter[str] = Counter()
    read = expanded(
        texts, tmp_path / "weights.jsonl", by="row", field="contents", weights=100.0, counts=counts
    )
    for (_, indexed), of_text in zip(read, weights_in(tmp_path), strict=True):
        times = {word: round(100 * weight) for word, weight in of_text.items()}
        assert Counter(indexed.split()) == {word: number for word, number in times.items() if number}


@pytest.mark.ci
def test_words_that_train_queries_ask_for_come_to_weigh_more(files: Files, tmp_path: Path) -> None:
    trained(files, tmp_path / "out", updates=60)
    slow = Slow(files.backbone)
    asked, others = [], []
    for row, weights in enumerate(weights_in(tmp_path / "out")[:20]):
        wanted = recall(slow, row, files.queries)
        for word in {word for _, word in slow.words(text_of(files.passages[row]))}:
            (asked if word in wanted else others).append(weights.get(word, 0.0))
    assert np.mean(asked) > 3 * np.mean(others)


def test_the_state_of_a_word_is_dropped_before_its_weight_in_training_alone(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, drawn = TermWeigher.start(files.backbone, seed=1), list[tuple[tuple[int, ...], float]]()
    model._dropout = 0.25

    def dropout(states: torch.Tensor, probability: float) -> torch.Tensor:
        drawn.append((tuple(states.shape), probability))
        return states

    monkeypatch.setattr("condenser.papers.term_weigher.dropout", dropout)
    for is_training in (True, False):
        model.train(is_training)(full_rows(torch.arange(5, 15)[None]), torch.tensor([1, 4, 5]))
    assert drawn == [((3, 32), 0.25), ((3, 32), 0.0)]


def test_held_out_queries_are_not_learnt_from(files: Files, tmp_path: Path) -> None:
    held_out = tmp_path / "held_out.txt"
    held_out.write_text("".join(f"{query.query_id}\n" for query in files.queries[:3]))
    qrels, texts, split = qrels_of(files), files.texts.read(), {"is_split": False}
    judged = judged_passages(qrels, texts, relevant_grade=1, subset=None, held_out=held_out, **split)
    assert judged.passages.tolist() == list(range(3, 21)) and judged.num_held_out == 3
    assert judged.queries[1] == [3, 4]
    subset = tmp_path / "subset.txt"
    subset.write_text("".join(f"{query.query_id}\n" for query in files.queries[:5]))
    of_subset = judged_passages(qrels, texts, relevant_grade=1, subset=subset, held_out=held_out, **split)
    assert set(chain.from_iterable(of_subset.queries)) == {3, 4} and of_subset.num_held_out == 3
    held_out.write_text("".join(f"{query.query_id}\n" for query in files.queries))
    message = r"qrels\.tsv: expected a train query with a relevant passage, .* got none \(20 are held out\)"
    with pytest.raises(ValueError, match=message):
        trained(files, tmp_path / "none", held_out=held_out)


def test_each_passage_of_a_relevant_document_that_is_split_is_learnt_from(
    tmp_path: Path, files: Files
) -> None:
    ids = [passage_id(document, number) for document in ("a", "b", "c") for number in (1, 2)]
    texts = files.texts.read()._replace(doc_ids=ids, query_ids=["q", "r"])
    write_qrels(tmp_path / "qrels.tsv", [Qrel("r", "c", 1), Qrel("q", "a", 1), Qrel("r", "a", 1)])
    judged = judged_passages(
        tmp_path / "qrels.tsv", texts, relevant_grade=1, subset=None, held_out=None, is_split=True
    )
    assert judged.passages.tolist() == [0, 1, 4, 5]
    assert judged.queries == [[1, 0], [1, 0], [1], [1]]


def test_a_row_longer_than_the_positions_is_refused(files: Files, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected positions for max_tokens \(65\), got 64"):
        trained(files, tmp_path / "out", max_tokens=65)


def test_what_was_stopped_resumes_to_the_same_bytes(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each of some steps, and after a block of passages."""
    output, whole = tmp_path / "out", tmp_path / "whole"
    trained(files, whole, updates=3)
    of_rows, calls = term_weights._words_of_rows, list[int]()

    def broken(*args: Any, **kwargs: Any) -> Any:
        calls.append(int(args[2][0]))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return of_rows(*args, **kwargs)

    monkeypatch.setattr(term_weights, "_words_of_rows", broken)
    with pytest.raises(KeyboardInterrupt):
        trained(files, output, updates=3)
    trained(files, output, updates=3)
    assert calls == [0, 7, 14, 21, 21, 28, 35, 42, 49, 56]
    for name in ("weights.jsonl", "losses.jsonl"):
        assert (output / name).read_bytes() == (whole / name).read_bytes()


def test_a_word_is_its_pieces_together_and_special_tokens_are_none(files: Files) -> None:
    tokenizer, texts = Tokenizer(files.backbone), ["Unbelievably kernelised [SEP] x [UNK], y", "", "[SEP]"]
    reader = WordReader(tokenizer)
    firsts, words = reader.words(tokenizer.encode(texts)[0])
    assert words == ["unbelievably", "kernelised", "x", ",", "y"]
    assert firsts[0] == 0 and (np.diff(firsts) > 0).all() and len(firsts) == len(words)
    for ids in tokenizer.encode(texts)[1:]:
        firsts, words = reader.words(ids)
        assert len(firsts) == 0 and words == []


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta"])
def test_words_are_those_of_the_text_in_lower_case_with_any_tokenizer(kind: str, tmp_path: Path) -> None:
    write_folder(kind, tmp_path / "model", head="MaskedLM")
    tokenizer = Tokenizer(tmp_path / "model")
    ids = tokenizer.encode([f"The cat{tokenizer.joint}sat on the mat. Words never unmasked"])[0]
    firsts, words = WordReader(tokenizer).words(ids)
    assert words == ["the", "cat", "sat", "on", "the", "mat", ".", "words", "never", "unmasked"]
    assert ids[firsts[2] - 1] == tokenizer.sep_id  # "sat" begins behind the title's [SEP], not with it
    assert firsts[-1] < len(ids) - 1  # the last has several pieces
    assert tokenizer.decode(ids[firsts[-1] :].tolist()) == "unmasked"
