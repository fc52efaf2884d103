"""Planted faults are found; what is found is what a plain reading of the definitions finds."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from job_files import do
from planted import edited, reworded
from sklearn.feature_extraction.text import TfidfVectorizer

from condenser.blocks import AutoLengths
from condenser.data.audit import WHAT_TO_DO, Finding, Thresholds, audit, write_findings
from condenser.data.lengths import TextLengths, TokenCounts
from condenser.data.near import Passages, Rarity, trigrams_of, words_of
from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    ScoredDoc,
    TrainExample,
    write_examples,
    write_passages,
    write_qrels,
    write_queries,
    write_run,
)
from condenser.data.sources import pydoc
from condenser.settings import partly

THRESHOLDS = Thresholds(
    **{"least_words": 5, "near_passages": 0.58, "near_negatives": 0.5, "near_queries": 0.8},
    **{"near_queries_judged_alike": 0.6, "query_share": 0.5},
)
LENGTHS = {"query": 32, "passage": 128}


def write_data(
    folder: Path,
    passages: list[Passage],
    train: list[Query],
    evaluation: list[Query],
    examples: list[TrainExample],
    relevant: dict[str, str],
) -> dict[str, Any]:
    """The files of a data set; gives the arguments of an audit of it."""
    write_passages(folder / "collection.jsonl", passages)
    write_queries(folder / "queries.train.jsonl", train)
    write_queries(folder / "queries.dev.jsonl", evaluation)
    write_qrels(folder / "qrels.train.tsv", [Qrel(query, doc, 1) for query, doc in relevant.items()])
    write_examples(folder / "examples.jsonl", examples)
    return {
        "collection": folder / "collection.jsonl",
        "train_queries": folder / "queries.train.jsonl",
        "eval_queries": {"dev": folder / "queries.dev.jsonl"},
        "qrels": dict.fromkeys(["train", "dev"], folder / "qrels.train.tsv"),
        "relevant_grade": 1,
        "examples": {"bm25": folder / "examples.jsonl"},
        "runs": {},
        "thresholds": THRESHOLDS,
        "lengths": LENGTHS,
        "text_lengths": {},
    }


def without_resembling(texts: list[str], others: list[str] | None = None) -> list[int]:
    """The numbers of the texts that resemble no earlier text, or none of `others`: another measure than ours.

    Cosine of TF-IDF vectors of words, below .8.
    """
    vectors = TfidfVectorizer(token_pattern=r"\w+").fit([*texts, *(others or [])])
    cosines = (vectors.transform(texts) @ vectors.transform(texts if others is None else others).T).tocsr()
    kept: list[int] = []
    for number in range(len(texts)):
        row = cosines[number]
        near = set(row.indices[row.data >= 0.8].tolist())
        if not near & set(kept) if others is None else not near:
            kept.append(number)
    return kept


def planted(
    folder: Path,
    passages: list[Passage],
    train: list[Query],
    evaluation: list[Query],
    relevant: dict[str, str],
    *,
    seed: int,
) -> dict[str, tuple[float, float]]:
    """Recall and precision of what is planted: 200 false negatives, 50 leaked queries, 1 % of the passages.

    A false negative is an edited copy of a query's positive among its negatives, which are the passages
    nearest by TF-IDF. Copies of positives are doubles, too. Whatever else is found counts as wrong.

    Args:
        relevant: the one relevant passage of each query.
    """
    draw = Random(seed)
    texts = {passage.doc_id: passage.text for passage in passages}
    vocabulary = [word for text in texts.values() for word in text.split()]
    asked = draw.sample([query for query in train if query.query_id in relevant], 200)
    copied = {query.query_id: relevant[query.query_id] for query in asked}
    others = [doc_id for doc_id in texts if doc_id not in copied.values()]
    doubled = draw.sample(others, len(texts) // 100)
    copies = {f"copy of {doc_id}": edited(texts[doc_id], draw, vocabulary) for doc_id in doubled}
    for query_id, doc_id in copied.items():
        copies[f"copy for {query_id} of {doc_id}"] = edited(texts[doc_id], draw, vocabulary)
    leaks = {f"leak of {query.query_id}": reworded(query.text, draw) for query in draw.sample(evaluation, 50)}
    judged = relevant | {leak: relevant[leak.removeprefix("leak of ")] for leak in leaks}

    ids = list(texts)
    vectors = TfidfVectorizer(stop_words="english").fit(texts.values())
    vectors_of_passages = vectors.transform(texts.values()).T.tocsr()
    examples = []
    for query in train:
        scores = (vectors.transform([query.text]) @ vectors_of_passages).toarray()[0]
        positive = relevant[query.query_id]
        hits = [ids[place] for place in np.argsort(-scores, kind="stable")[:31]]
        negatives = [doc_id for doc_id in hits if doc_id != positive][:30]
        if query.query_id in copied:
            negatives[draw.randrange(30)] = f"copy for {query.query_id} of {positive}"
        examples.append(TrainExample(query.query_id, (positive,), tuple(negatives)))
    everything = [*passages, *(Passage(doc_id, "", text) for doc_id, text in copies.items())]
    draw.shuffle(everything)
    with_leaks = [*train, *(Query(query_id, text) for query_id, text in leaks.items())]
    findings, _ = audit(**write_data(folder, everything, with_leaks, evaluation, examples, judged))

    def found(kinds: str) -> list[Finding]:
        return [one for one in findings if one.kind in kinds.split()]

    def original(doc_id: str) -> str:
        return doc_id.partition(" of ")[2] or doc_id

    negatives_found = {(one.query_id, one.doc_id) for one in found("equal_negative near_negative")}
    false_negatives = {(query, f"copy for {query} of {doc_id}") for query, doc_id in copied.items()}
    leaks_found = found("leaked_query near_leaked_query")
    leaks_right = [one for one in leaks_found if one.query_id == f"leak of {one.other_id}"]
    doubles = found("equal_passage near_passage")
    doubles_right = [one for one in doubles if original(one.doc_id) == original(one.other_id)]
    doubles_found = {doc_id for one in doubles_right for doc_id in (one.doc_id, one.other_id)}
    right = negatives_found & false_negatives
    return {
        "negatives": (len(right) / 200, len(right) / len(negatives_found)),
        "queries": (len(leaks_right) / 50, len(leaks_right) / len(leaks_found)),
        "passages": (
            sum(f"copy of {doc_id}" in doubles_found for doc_id in doubled) / len(doubled),
            len(doubles_right) / len(doubles),
        ),
    }


@pytest.mark.ci
def test_planted_faults_are_found_and_little_else(tmp_path: Path) -> None:
    """In docstrings, where much resembles much; what another measure calls alike is left out first."""
    found = [one for name in ("scipy", "scikit-learn") for one in pydoc.package_docstrings(name, Counter())]
    pairs = pydoc.choose_pairs(found, Counter(), query_words=[4, 30], passage_words=[20, 60])
    pairs = [pairs[number] for number in without_resembling([pair.body for pair in pairs])]
    train, evaluation, _ = pydoc.split_places(
        [pair.place for pair in pairs], num_eval=1000, num_train=800, held_out=False
    )
    of_train, of_evaluation = (
        [Query(f"query {pair.place}", pair.summary) for pair in pairs if pair.place in places]
        for places in (train, evaluation)
    )
    kept = without_resembling([query.text for query in of_train], [query.text for query in of_evaluation])
    measured = planted(
        tmp_path,
        [Passage(pair.place, "", pair.body) for pair in pairs],
        [of_train[number] for number in kept],
        of_evaluation,
        {f"query {pair.place}": pair.place for pair in pairs},
        seed=1,
    )
    for recall, precision in measured.values():
        assert recall >= 0.9 and precision >= 0.8, measured


# ---- the measures and the searches, against plain versions -----------------------------------------


def passages_of(folder: Path, texts: list[str]) -> Passages:
    """The passages of these texts, read once; the caller closes them."""
    write_passages(folder / "texts.jsonl", [Passage(str(row), "", text) for row, text in enumerate(texts)])
    passages = Passages(folder / "texts.jsonl", num_rows=len(texts))
    assert len(list(passages.read())) == len(texts)
    return passages


def slow_similarity(texts: list[str]) -> Callable[[int, int], float]:
    """The weighted Jaccard similarity of two of the texts, from their pairs of words themselves."""
    pairs = []
    for text in texts:
        words = words_of(text)
        pairs.append({*pairwise(words)} if len(words) > 1 else {(word,) for word in words})
    texts_with = Counter(pair for of in pairs for pair in of)
    weights = {pair: math.log((len(texts) + 1) / count) for pair, count in texts_with.items()}

    def similarity(one: int, other: int) -> float:
        shared, either = pairs[one] & pairs[other], pairs[one] | pairs[other]
        return sum(map(weights.__getitem__, shared)) / sum(map(weights.__getitem__, either))

    return similarity


def tiny_texts(root: Path) -> list[str]:
    """Half of the 240 passages of the tiny collection and an edited copy of each, in any order."""
    draw = Random(4)
    lines = (root / "tests" / "data" / "tiny" / "corpus.jsonl").read_text().splitlines()
    texts = [json.loads(line)["text"] for line in lines[::2]]
    vocabulary = [word for text in texts for word in text.split()]
    everything = [*texts, *(edited(text, draw, vocabulary) for text in texts)]
    draw.shuffle(everything)
    return everything


def test_the_similarity_of_passages_is_that_of_the_definition(root: Path, tmp_path: Path) -> None:
    texts = [*tiny_texts(root), "one", "One!", "two", "a a a"]
    slow = slow_similarity(texts)
    draw = Random(2)
    chosen = [draw.sample(range(len(texts)), 2) for _ in range(300)]
    last = len(texts)
    chosen += [[last - 4, last - 3], [last - 4, last - 2], [last - 1, 0], [7, 7]]
    with closing(passages_of(tmp_path, texts)) as passages:
        measured = [passages.similarity(one, other) for one, other in chosen]
        # two pairs of words may share a counter
        assert measured == pytest.approx([slow(one, other) for one, other in chosen], abs=0.01)
    assert measured[-4:] == pytest.approx([1.0, 0.0, 0.0, 1.0])


def test_near_passages_are_those_that_a_comparison_of_all_pairs_finds(root: Path, tmp_path: Path) -> None:
    texts = tiny_texts(root)
    slow = slow_similarity(texts)
    best: dict[int, float] = {}
    for one, other in combinations(range(len(texts)), 2):
        best[other] = max(best.get(other, 0.0), slow(one, other))
    expected = {row for row, score in best.items() if score >= 0.6}
    with closing(passages_of(tmp_path, texts)) as passages:
        rows = np.arange(len(texts))
        found = {row: (earlier, score) for row, earlier, score in passages.near_rows(rows, 0.6)}
    assert len(expected) > 75 and len(expected & set(found)) >= 0.98 * len(expected)
    for row, (earlier, score) in found.items():
        assert earlier < row and best[row] > 0.59 and score == pytest.approx(slow(earlier, row), abs=0.01)


def test_similarities_of_passages_and_of_queries_are_worked_by_hand(tmp_path: Path) -> None:
    rare, common = math.log(3 / 1), math.log(3 / 2)
    with closing(passages_of(tmp_path, ["a b c", "a b d"])) as passages:
        assert passages.similarity(0, 1) == pytest.approx(common / (common + 2 * rare))
    rarity = Rarity([frozenset("ab"), frozenset("ac"), frozenset("ad")])
    rare, common = math.log(4 / 1), math.log(4 / 3)
    similarity = rarity.similarity(frozenset("ab"), frozenset("ac"))
    assert similarity == pytest.approx(common / (common + 2 * rare))


@pytest.mark.parametrize(
    ("texts", "nearest"),
    [
        (["u v w x y z", "u v w x y q", "u v w x y p"], {1: 0, 2: 0}),  # of equal ones the first
        (["a b c d e f", "u v w x y z", "u v w x y q"], {2: 1}),
    ],
)
def test_of_passages_that_share_a_band_each_is_compared_with_the_first_and_the_one_before(
    tmp_path: Path, texts: list[str], nearest: dict[int, int]
) -> None:
    with closing(passages_of(tmp_path, texts)) as passages:
        passages._keys[:] = 0
        found = passages.near_rows(np.arange(3), 0.2)
        assert {row: earlier for row, earlier, _ in found} == nearest


def test_a_similarity_of_the_least_itself_is_near() -> None:
    both, one = frozenset("ab"), frozenset("a")
    rarity = Rarity([both])  # equal weights
    similarity = rarity.similarity(both, one)
    assert similarity == pytest.approx(0.5)
    assert list(rarity.near([both], [one], similarity)) == [[(similarity, 0)]]


def test_near_sets_are_those_that_a_comparison_of_all_pairs_finds() -> None:
    draw = Random(3)
    letters = [chr(97 + number) for number in range(26)]
    sets = [frozenset(draw.choices(letters, k=draw.randint(0, 8))) for _ in range(200)]
    sets, others = sets[:120], sets[120:]
    rarity = Rarity([*sets, *others])
    for least in (0.35, 0.6, 0.9):
        for one, found in zip(sets, rarity.near(sets, others, least), strict=True):
            expected = [
                (rarity.similarity(one, other), number) for number, other in enumerate(others) if one | other
            ]
            expected = [pair for pair in expected if pair[0] >= least]
            assert found == sorted(expected, key=lambda pair: (-pair[0], pair[1]))


# ---- single findings -------------------------------------------------------------------------------


def found_in(folder: Path, passages: list[str], **given: Any) -> tuple[list[Finding], dict[str, Any]]:
    """The findings of passages with the ids 0, 1, ...; `given` are queries, judgements, examples and runs."""
    data = write_data(
        folder,
        [Passage(str(row), "", text) for row, text in enumerate(passages)],
        [Query(*query) for query in given.get("train", [])],
        [Query(*query) for query in given.get("evaluation", [])],
        [TrainExample(*example) for example in given.get("examples", [])],
        given.get("relevant", {}),
    )
    for judge, hits in given.get("runs", {}).items():
        write_run(folder / judge, [ScoredDoc(*hit) for hit in hits], system=judge)
        data["runs"][judge] = folder / judge
    data["qrels"] = {split: data["qrels"][split] for split in given.get("judged", data["qrels"])}
    return audit(**data | {"text_lengths": given.get("text_lengths", {})})


def test_texts_that_are_not_read_are_found_as_the_note_under_a_table_says(tmp_path: Path) -> None:
    rows = {"passages": Counter({100: 64, 200: 236}), "dev": Counter({12: 40})}
    passages, queries = (TokenCounts(9, 0, of) for of in rows.values())
    auto = partly(AutoLengths, {"share": 0.95, "multiple": 8})
    texts = {"backbone": TextLengths(512, passages, {"dev": queries}, dict.fromkeys(LENGTHS, 0), auto)}
    findings, counts = found_in(tmp_path, FILLERS, text_lengths=texts)
    (finding,) = (one for one in findings if one.kind == "unread_text")
    (note, _), *_ = texts["backbone"].cuts(LENGTHS, splits=["dev"], in_one_row=False)
    assert finding.text == note and note.startswith("236 of 300 passages (78.7 %) are longer than 128 tokens")
    assert (finding.where, finding.score) == ("backbone", 236) and counts["findings"]["unread_text"] == 1


def test_a_title_alone_is_shown_where_there_is_no_text(tmp_path: Path) -> None:
    write_data(tmp_path, [Passage("a", "Two words", ""), Passage("b", "", FILLERS[0])], [], [], [], {})
    findings, _ = audit(
        tmp_path / "collection.jsonl",
        **{"train_queries": None, "eval_queries": {}, "qrels": {}, "examples": {}, "runs": {}},
        **{"thresholds": THRESHOLDS, "lengths": LENGTHS, "text_lengths": {}, "relevant_grade": 1},
    )
    assert [(one.kind, one.text) for one in findings] == [("short_text", "Two words")]


def kinds_of(findings: list[Finding]) -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for one in findings:
        found.setdefault(one.kind, []).append((one.query_id, one.doc_id, one.other_id))
    return found


FILLERS = [f"Passage {number} says {number * 7} things of subject {number * 31}." for number in range(15)]


def test_short_cut_and_equal_texts_are_found(tmp_path: Path) -> None:
    texts = [
        *("A text that ends in the middle of...", "Four words are few."),
        *("?!", "--"),  # no words: these are short, and not equal
        *("The same text, twice in here.", "the SAME text twice: in here", "The ﬁrst and only text of it."),
    ]
    findings, counts = found_in(tmp_path, [*texts, *FILLERS])
    assert kinds_of(findings) == {
        "short_text": [("", "1", ""), ("", "2", ""), ("", "3", "")],
        "cut_text": [("", "0", "")],
        "equal_passage": [("", "5", "4")],
    }
    assert [one.score for one in findings if one.kind == "short_text"] == [4, 0, 0]
    assert counts["passages"] == 22 and counts["findings"]["short_text"] == 3
    assert list(counts["findings"]) == list(WHAT_TO_DO) and not counts["findings"]["leaked_query"]


def test_a_collection_that_is_cut_at_one_length_is_found_once(tmp_path: Path) -> None:
    draw = Random(1)
    texts = [" ".join(f"w{draw.randrange(10**6)}" for _ in range(min(60, 30 + row))) for row in range(80)]
    (finding,), _ = found_in(tmp_path, texts)
    assert finding.kind == "cut_collection" and finding.score == 50
    assert finding.text == "50 of 80 passages have 60 words, and none has more"


def test_of_two_copies_only_one_of_which_is_judged_both_are_to_be_read(tmp_path: Path) -> None:
    texts = ["One text that stands here twice.", "One text that stands here twice!", *FILLERS]
    given = {"train": [("q", "what")], "relevant": {"q": "0"}}
    (finding,), _ = found_in(tmp_path, texts, **given)
    assert "only one of them is judged relevant" in finding.what_to_do
    given["relevant"] = {"q": "0", "r": "1"}
    (finding,), _ = found_in(tmp_path, texts, **given)
    assert finding.what_to_do == ""  # what the kind says


def test_leaked_queries_are_equal_or_near_and_have_the_same_numbers(tmp_path: Path) -> None:
    fill = [(f"t{number}", f"{word} of things") for number, word in enumerate(["weight", "colour", "age"])]
    train = [
        *(("equal", "what is the TALLEST mountain"), ("typed", "What is the talest mountain?")),
        ("number", "Who won the cup in 2015?"),
        ("alike", "mountain of greatest height, the tallest"),
        ("other", "mountain of greatest depth, the lowest"),
        *(("none", "??"), *fill),
    ]
    evaluation = [("e1", "What is the tallest mountain?"), ("e2", "Who won the cup in 2014?"), ("e3", "!")]
    given: dict[str, Any] = {"train": train, "evaluation": evaluation}
    findings, _ = found_in(tmp_path, FILLERS, **given)
    assert kinds_of(findings) == {
        "short_query": [("e3", "", ""), ("none", "", "")],
        "leaked_query": [("equal", "", "e1")],
        "near_leaked_query": [("typed", "", "e1")],
    }
    assert {one.where for one in findings if "leaked" in one.kind} == {"dev"}


def test_queries_with_a_relevant_passage_in_common_need_resemble_each_other_less(tmp_path: Path) -> None:
    train = [("alike", "How tall is the tallest mountain on Earth?"), ("t", "colour of the sky at dusk")]
    evaluation = [("e", "What is the tallest mountain on Earth?"), ("f", "number of bones in a hand")]
    given: dict[str, Any] = {"train": train, "evaluation": evaluation, "relevant": {"alike": "3", "e": "4"}}
    (score, _), *_ = next(
        Rarity(map(trigrams_of, (text for _, text in [*train, *evaluation]))).near(
            [trigrams_of(train[0][1])], [trigrams_of(evaluation[0][1])], 0.3
        )
    )
    assert 0.6 <= score < 0.8
    assert found_in(tmp_path, FILLERS, **given)[0] == []
    texts = [*FILLERS[:4], FILLERS[3], *FILLERS[4:]]  # the passage of the one is a copy of the other's
    findings, _ = found_in(tmp_path, texts, **given)
    assert kinds_of(findings)["near_leaked_query"] == [("alike", "", "e")]
    renamed = {
        "train": [("1", train[0][1]), train[1]],
        "evaluation": [("1", evaluation[0][1]), evaluation[1]],
    }
    given = {**renamed, "relevant": {"1": "3"}}  # the judgements are those of one split alone, in the second
    assert "near_leaked_query" in kinds_of(found_in(tmp_path, FILLERS, **given)[0])
    assert found_in(tmp_path, FILLERS, **given, judged=["train"])[0] == []


def test_a_near_negative_must_have_the_words_that_the_query_asks_for(tmp_path: Path) -> None:
    template = (
        "The signs of {} are listed in a table that says how often each of them is seen in people who have "
        "it, and which are the usual names of these signs in the books that doctors use when they meet them"
    )
    texts = [template.format(name) for name in ("Netherton syndrome", "Bartter disease")]
    texts += [texts[0].replace("doctors", "physicians"), texts[0].upper(), *FILLERS]
    train = [("q", "signs of Netherton syndrome?"), *((f"t{n}", f"signs of thing {n}") for n in range(9))]
    findings, counts = found_in(
        tmp_path, texts, train=train, relevant={"q": "0"}, examples=[("q", ("0",), ("1", "2", "3", "9"))]
    )
    negatives = [one for one in findings if "negative" in one.kind]
    expected = {"equal_negative": [("q", "3", "0")], "near_negative": [("q", "2", "0")]}
    assert kinds_of(negatives) == expected
    near = {one.doc_id for one in findings if one.kind == "near_passage"}
    assert "1" in near  # it resembles it as a text
    assert counts["negatives"] == {"bm25": 4} and {one.where for one in negatives} == {"bm25"}


def test_a_judge_says_which_negatives_are_above_the_best_positive(tmp_path: Path) -> None:
    examples = [("q", ("0", "1"), ("2", "3", "4", "5")), ("r", ("6",), ("7",)), ("s", ("8",), ("9",))]
    scores = {"2": 9.0, "1": 8.5, "3": 8.5, "0": 8.0, "4": 7.0, "8": 1.0}
    run = [
        *(("q", doc_id, score) for doc_id, score in scores.items()),
        ("r", "7", 3.0),  # its positive is not found
        *[("u", "7", 3.0), ("u", "6", 1.0)],  # no example
    ]
    train = [(name, f"query {name}") for name in "qrsu"]
    findings, counts = found_in(tmp_path, FILLERS, train=train, examples=examples, runs={"judge": run})
    assert [(one.kind, one.query_id, one.doc_id, one.other_id, one.where, one.score) for one in findings] == [
        ("negative_above_positive", "q", "2", "1", "judge", 0.5)
    ]
    assert counts["judged"] == {"judge": {"queries": 1, "negatives": 3}}


# ---- the program -----------------------------------------------------------------------------------


def test_the_program_writes_one_line_for_each_finding_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    texts = ["One\ttext\nthat is\u2028 here twice.", "One text that is here twice!", *FILLERS]
    found_in(tmp_path, texts, train=[("q", "what\tis it")], evaluation=[("e", "What is it?")])
    settings = {"systems": ["bm25"], "judges": [], **THRESHOLDS._asdict()}
    job = {
        "wildcards": {"dataset": "mine"},
        "settings": {
            **{"audit": settings, "lengths": LENGTHS, "dataset": {"split": None}},
            "metrics": {"relevant_grade": 1},
        },
    }
    no_queries = {
        "collection": tmp_path / "collection.jsonl",
        **{name: [] for name in ("train_queries", "eval_queries", "qrels", "examples", "runs", "lengths")},
    }
    with_queries = {
        **no_queries,
        "train_queries": tmp_path / "queries.train.jsonl",
        "eval_queries": [tmp_path / "queries.dev.jsonl"],
        "qrels": [tmp_path / "qrels.train.tsv"],
        "examples": [tmp_path / "examples.jsonl"],
    }

    def made(name: str, given: dict[str, Any]) -> Path:
        folder = tmp_path / name
        do("audit", **job, input=given, output={key: folder / file for key, file in OUTPUTS.items()})
        return folder

    first, second = made("first", with_queries), made("second", with_queries)
    for file in ("audit.tsv", "audit.json"):
        assert (first / file).read_bytes() == (second / file).read_bytes()
    header, *lines = (first / "audit.tsv").read_text().split("\n")[:-1]
    rows = [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
    assert [(row["kind"], row["text"]) for row in rows] == [
        ("equal_passage", "One text that is here twice!"),
        ("leaked_query", "what is it"),
    ]
    assert rows[0]["other_text"] == "One text that is here twice." and rows[1]["where"] == "dev"
    assert [row["what_to_do"] for row in rows] == [WHAT_TO_DO[row["kind"]] for row in rows]
    counts = json.loads((first / "audit.json").read_text())
    assert json.loads((first / "audit.manifest.json").read_text())["counts"] == counts
    assert counts["queries"] == {"train": 1, "dev": 1} and counts["findings"]["leaked_query"] == 1
    alone = json.loads((made("alone", no_queries) / "audit.json").read_text())  # a collection without queries
    assert alone["findings"]["equal_passage"] == 1 and alone["queries"] == {"train": 0}


OUTPUTS = {"findings": "audit.tsv", "counts": "audit.json", "manifest": "audit.manifest.json"}


def row_of(folder: Path, **values: Any) -> dict[str, str]:
    """The line of a finding in the table, by column."""
    write_findings(folder / "audit.tsv", [Finding("near_passage", **values)])
    header, line = (folder / "audit.tsv").read_text().splitlines()
    return dict(zip(header.split("\t"), line.split("\t"), strict=True))


def test_a_line_of_the_table_has_a_cell_for_each_column(tmp_path: Path) -> None:
    row = row_of(tmp_path, doc_id="a", other_id="b", score=0.81234)
    assert list(row) == list(Finding._fields)
    given = {"kind": "near_passage", "doc_id": "a", "other_id": "b", "score": "0.8123"}
    assert {name: cell for name, cell in row.items() if cell} == {
        **given,
        "what_to_do": WHAT_TO_DO["near_passage"],
    }


@pytest.mark.parametrize("cell", ["=HYPERLINK(A1)", "+1", "-d2", "@a", "'a", "'=a", "d=1"])
def test_no_cell_is_a_formula_and_a_program_gets_the_id_back(tmp_path: Path, cell: str) -> None:
    names = ("query_id", "doc_id", "other_id", "text")
    row = row_of(tmp_path, **dict.fromkeys(names, cell), score=-0.25)
    assert row["score"] == "-0.25"  # a number stays a number
    for name in names:
        assert not row[name].startswith(("=", "+", "-", "@"))
        assert row[name].removeprefix("'") == cell


def test_no_cell_can_steer_a_terminal(tmp_path: Path) -> None:
    hostile = "\x1b[2Ja\u202e"
    row_of(tmp_path, doc_id=hostile, text=hostile)
    assert (tmp_path / "audit.tsv").read_text().count("\\x1b[2Ja\\u202e\t") == 2
