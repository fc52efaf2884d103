"""Queries that are made from a collection."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import pytest

from condenser.data.extracted import (
    Unmade,
    count_words,
    keywords_of,
    sentence_of,
    title_of,
    words_of,
    write_extracted,
)
from condenser.data.records import Passage, read_queries, write_passages
from condenser.files import read_json

SETTINGS: dict[str, Any] = {"words": [3, 6], "keywords": [1, 2], "seed": 1, "is_split": False}
PASSAGES = [
    Passage("p1", "Cats", "A cat sleeps all day. It hunts mice at night. Yes."),
    Passage("p2", "", "A dog sleeps all night. It barks at a cat for no good reason at all."),
    Passage("p3", "Cats", "A mouse hides."),
    Passage("p4", " - ", "Mice hide where a cat hunts. Mice mice mice."),
]


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    write_passages(tmp_path / "collection.jsonl", PASSAGES)
    return tmp_path / "collection.jsonl"


def made(collection: Path, views: list[str], **changed: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """The texts of the queries by id, and the counts."""
    asked = {**SETTINGS, "passages": [0.0, 1.0], "count": 100, **changed}
    output = collection.with_name("queries.set.jsonl")
    counts = write_extracted(collection, output, name="set", views=views, **asked)
    assert read_json(collection.with_name("counts.json")) == counts
    return {query.query_id: query.text for query in read_queries(output)}, counts


def test_a_title_is_a_query_once_and_passages_without_words_in_it_are_counted(collection: Path) -> None:
    queries, counts = made(collection, ["titles"])
    assert queries == {"p1": "Cats"}
    assert counts == {
        **{"passages": 4, "passages_of_part": 4, "titles": 1, "repeated": 1, "without_title": 2},
        "queries": {"set": 1},
    }
    with pytest.raises(Unmade, match="without_title"):
        title_of(PASSAGES[3])


def test_a_sentence_is_one_of_several_and_of_the_length_asked_for(collection: Path) -> None:
    queries, counts = made(collection, ["sentences"])
    assert queries["p2"] == "A dog sleeps all night."  # the other has ten words
    assert queries["p1"] in ("A cat sleeps all day.", "It hunts mice at night.")
    assert queries["p4"] in ("Mice hide where a cat hunts.", "Mice mice mice.")
    assert counts["of_one_sentence"] == 1 and "p3" not in queries
    drawn = {sentence_of(PASSAGES[0], words=[3, 6], draw=draw) for draw in (0.0, 0.49, 0.5, 0.99)}
    assert {one.strip() for one in drawn} == {"A cat sleeps all day.", "It hunts mice at night."}
    with pytest.raises(Unmade, match="without_sentence_of_this_length"):
        sentence_of(PASSAGES[0], words=[8, 9], draw=0.0)


def test_keywords_have_the_highest_weight_of_bm25(collection: Path) -> None:
    words = count_words(collection)
    texts = [words_of(f"{one.title} {one.text}") for one in PASSAGES]
    assert words.num_passages == 4 and words.mean_length == sum(map(len, texts)) / 4

    def weight(word: str, text: list[str]) -> float:
        found = sum(word in other for other in texts)
        idf = log(1 + (4 - found + 0.5) / (found + 0.5))
        norm = 0.9 * (0.6 + 0.4 * len(text) / words.mean_length)
        return idf * text.count(word) / (text.count(word) + norm)

    for passage, text in zip(PASSAGES, texts, strict=True):
        weights = words.weights(text)
        assert set(weights) == {word for word in text if sum(word in other for other in texts) > 1}
        assert weights == pytest.approx({word: weight(word, text) for word in weights})
        for draw, count in ((0.0, 1), (0.99, 2)):
            found = keywords_of(passage, words, count=[1, 2], draw=draw).split()
            assert set(found) == set(sorted(weights, key=lambda word: -weights[word])[:count])
    assert keywords_of(PASSAGES[3], words, count=[2, 2], draw=0.5) == "mice hunts"  # in the text's order
    with pytest.raises(Unmade, match="without_keywords"):
        keywords_of(PASSAGES[2], words, count=[9, 9], draw=0.0)


def test_a_passage_gives_the_first_view_that_it_has(collection: Path) -> None:
    queries, counts = made(collection, ["titles", "sentences", "keywords"])
    assert (counts["titles"], counts["sentences"], counts["keywords"]) == (1, 2, 0)
    assert list(queries) == ["p1", "p2", "p4"]


def test_parts_share_no_document_and_a_seed_draws_other_passages(tmp_path: Path) -> None:
    collection = tmp_path / "collection.jsonl"
    numbers = range(600)
    write_passages(
        collection,
        [Passage(f"d{number // 3}#{number % 3 + 1}", f"title {number}", "x") for number in numbers],
    )

    def origins(**changed: Any) -> list[str]:
        return list(made(collection, ["titles"], is_split=True, **changed)[0])

    first, second = (origins(passages=part, count=600) for part in ([0.0, 0.5], [0.5, 1.0]))
    assert len(first) + len(second) == 600 and 240 < len(first) < 360
    documents = [{one.partition("#")[0] for one in half} for half in (first, second)]
    assert not documents[0] & documents[1]
    assert set(origins(passages=[0.0, 0.5], seed=7)) < set(first)
    few, more = origins(count=50), origins(count=100)
    assert len(few) == 50 and set(few) < set(more) and origins(count=50) == few
    assert len(set(few) & set(origins(count=50, seed=2))) < 20  # about 4 by chance
    order = [f"d{number // 3}#{number % 3 + 1}" for number in numbers]
    assert few == [one for one in order if one in few]


def test_a_collection_that_gives_no_query_is_an_error_with_the_reasons(collection: Path) -> None:
    message = r"expected passages that give queries by titles, got none \(passages 4, .*without_title 2"
    write_passages(collection, [PASSAGES[1], PASSAGES[3]] * 2)
    with pytest.raises(ValueError, match=message.replace("without_title 2", "without_title 4")):
        made(collection, ["titles"])
