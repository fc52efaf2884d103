"""Queries that are made from a collection."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import pytest

from condenser.data.extracted import (
    NoQuery,
    count_words,
    keywords_of,
    sentences_of,
    titles_of,
    words_of,
    write_extracted,
)
from condenser.data.records import Passage, read_queries, write_passages
from condenser.files import read_json

SETTINGS: dict[str, Any] = {"words": [3, 6], "keywords": [1, 2], "seed": 1, "is_split": False}
PARTS = ([0.0, 0.5], [0.5, 1.0])
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


def test_a_title_is_a_query_and_passages_without_words_in_it_are_counted(collection: Path) -> None:
    write_passages(collection, [*PASSAGES[1:], Passage("p5", "A dog ", "x")])
    queries, counts = made(collection, ["titles"])
    assert queries == {"p3": "Cats", "p5": "A dog"}
    assert counts == {
        **{"passages": 4, "passages_of_part": 4, "titles": 2, "repeated": 0, "without_title": 2},
        "queries": {"set": 2},
    }
    with pytest.raises(NoQuery, match="without_title"):
        titles_of(PASSAGES[3])


@pytest.mark.parametrize(
    ("view", "first", "second"),
    [
        ("titles", Passage("a", "The Fox", "x"), Passage("b", " the\u2003fox. ", "y")),
        (
            "sentences",
            Passage("a", "", "Sign in to read it. One."),
            Passage("b", "", "Two. Sign in to read  it!"),
        ),
        ("keywords", Passage("a", "", "cats cats dogs dogs dogs"), Passage("b", "", "Dogs dogs, cats")),
    ],
)
def test_what_several_passages_give_is_a_query_of_none(
    collection: Path, view: str, first: Passage, second: Passage
) -> None:
    write_passages(collection, [first, second])
    with pytest.raises(ValueError, match=rf"got none \(passages 2, passages_of_part 2, shared_{view} 2\)"):
        made(collection, [view], keywords=[2, 2])
    for part in PARTS:  # also where the other passage is in the other part
        with pytest.raises(ValueError, match="got none"):
            made(collection, [view], keywords=[2, 2], passages=part)


def test_a_passage_that_shares_a_text_gives_another_of_its_own(collection: Path) -> None:
    write_passages(collection, [Passage("p0", "", "It hunts mice at night. I sleep."), *PASSAGES])
    queries, counts = made(collection, ["titles", "sentences"])
    assert queries["p1"] == "A cat sleeps all day." and "p0" not in queries
    assert (counts["shared_titles"], counts["shared_sentences"]) == (2, 1)


def test_passages_of_one_document_that_is_split_share_a_query(collection: Path) -> None:
    stories = [Passage(f"{story}#{number}", title, f"{story} {number}") for story, title in (
        ("s1", "The Fox"), ("s2", "A Day"), ("s3", "a day")
    ) for number in (1, 2)]  # fmt: skip
    write_passages(collection, stories)
    queries, counts = made(collection, ["titles"], is_split=True)
    assert queries == {"s1#1": "The Fox"}
    assert (counts["shared_titles"], counts["repeated"]) == (4, 1)


def test_a_sentence_is_one_of_several_and_of_the_length_asked_for(collection: Path) -> None:
    queries, counts = made(collection, ["sentences"])
    assert queries["p2"] == "A dog sleeps all night."  # the other has ten words
    assert queries["p1"] in ("A cat sleeps all day.", "It hunts mice at night.")
    assert queries["p4"] in ("Mice hide where a cat hunts.", "Mice mice mice.")
    assert counts["of_one_sentence"] == 1 and "p3" not in queries
    fitting = sentences_of(PASSAGES[0], words=[3, 6])
    assert [sentence.strip() for sentence in fitting] == ["A cat sleeps all day.", "It hunts mice at night."]
    drawn = {made(collection, ["sentences"], seed=seed)[0]["p1"] for seed in range(9)}
    assert drawn == {"A cat sleeps all day.", "It hunts mice at night."}
    with pytest.raises(NoQuery, match="without_sentence_of_this_length"):
        sentences_of(PASSAGES[0], words=[8, 9])


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
        for count, keywords in enumerate(keywords_of(passage, words, count=[1, 2]), start=1):
            assert set(keywords.split()) == set(sorted(weights, key=lambda word: -weights[word])[:count])
    assert keywords_of(PASSAGES[3], words, count=[2, 2]) == ["mice hunts"]  # in the text's order
    with pytest.raises(NoQuery, match="without_keywords"):
        keywords_of(PASSAGES[2], words, count=[9, 9])


def test_a_passage_gives_the_first_view_that_it_has(collection: Path) -> None:
    queries, counts = made(collection, ["titles", "sentences", "keywords"])
    assert (counts["titles"], counts["sentences"], counts["keywords"]) == (0, 3, 1)
    assert list(queries) == ["p1", "p2", "p3", "p4"]


def test_parts_share_no_document_and_a_seed_draws_other_passages(tmp_path: Path) -> None:
    collection = tmp_path / "collection.jsonl"
    numbers = range(600)
    write_passages(
        collection,
        [Passage(f"d{number // 3}#{number % 3 + 1}", f"title {number}", "x") for number in numbers],
    )

    def origins(**changed: Any) -> list[str]:
        return list(made(collection, ["titles"], is_split=True, **changed)[0])

    first, second = (origins(passages=part, count=600) for part in PARTS)
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
