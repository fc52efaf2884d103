"""The embedded collection of docstrings."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from condenser.data.records import read_passages, read_qrels, read_queries
from condenser.data.sources.pydoc import (
    Docstring,
    choose_pairs,
    package_docstrings,
    plain_text,
    split_places,
    tree_docstrings,
)
from condenser.data.sources.pydoc_documents import choose_documents
from configs import sources

SETTINGS = {
    "source": "pydoc",
    "packages": ["requests", "networkx"],
    "query_words": [4, 30],
    "passage_words": [20, 60],
    "eval_queries": 100,
    "train_queries": 500,
    "held_out": "none",
    "train_split": "train",
    "eval_split": "dev",
    "bad_rows": "strict",
}

SOURCE = '''"""Summary of the module.

Body of the module.
"""

import no_such_module_anywhere

def later():
    def inner():
        """Inner
        summary."""

class First:
    """Only a summary."""
    async def method(self):
        """One.\n\n        Two, see :class:`~package.Name` and ``code``.

        >>> 1 + 1
        2

        Parameters
        ----------
        x : int
        """
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pydoc")
    return folder, sources.collect(folder, {}, SETTINGS)


@pytest.fixture(scope="module")
def found():
    return [pair for package in SETTINGS["packages"] for pair in package_docstrings(package, Counter())]


def test_docstrings_come_in_order_of_line_split_at_the_first_blank_line():
    assert tree_docstrings(ast.parse(SOURCE), "a/b.py") == [
        Docstring("a/b.py:1", "Summary of the module.", "Body of the module."),
        Docstring("a/b.py:9", "Inner summary.", ""),
        Docstring("a/b.py:13", "Only a summary.", ""),
        Docstring("a/b.py:15", "One.", "Two, see Name and code. Parameters x : int"),
    ]


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        (":func:`torch.relu`", "torch.relu"),
        (":py:meth:`~a.b.c`", "c"),
        (":class:`.Engine`", "Engine"),
        (":ref:`Randomness<randomness>`", "Randomness"),
        ("``x`` and `y`", "x and y"),
        (".. versionadded:: 1.2\n   New.", "1.2 New."),
        ("Title\n=====\ntext", "Title text"),
        ("a -- b ... c", "a -- b ... c"),
        (">>> f()\n'output'\n\nAfter.", "After."),
        ("one\u2028two", "one two"),
        ("a\0b", "ab"),
    ],
)
def test_markup_is_made_plain(marked, plain):
    assert plain_text(marked) == plain


def test_each_docstring_left_out_has_one_reason():
    body = " ".join(f"w{i}" for i in range(70))
    left_out: Counter[str] = Counter()
    chosen = choose_pairs(
        [
            Docstring("a:1", "A good long summary", body),
            Docstring("a:2", "too short", body),
            Docstring("a:3", "Another good long summary", "too short"),
            Docstring("a:4", "a good LONG summary", "x " + body),
            Docstring("a:5", "Again a good summary", body + " differs after the cut"),
            Docstring("a:6", " ".join("word" for _ in range(31)), "y " + body),
        ],
        left_out,
        query_words=[4, 30],
        passage_words=[20, 60],
    )
    assert [pair.place for pair in chosen] == ["a:1"]
    assert len(chosen[0].body.split()) == 60
    assert left_out == {"summary_length": 2, "body_short": 1, "equal_summary": 1, "equal_body": 1}


def test_every_docstring_is_kept_or_left_out(made, found):
    folder, counts = made
    reasons = dict(counts["left_out"])
    reasons.pop("files_unparsed", None)  # counts files: what docstrings they hold is not known
    assert reasons.keys() == {"summary_length", "body_short", "equal_summary", "equal_body"}
    assert counts["docstrings"] == counts["passages"] + sum(reasons.values())
    assert counts["docstrings"] == len(found) == len({docstring.place for docstring in found})
    assert counts["passages"] == len(list(read_passages(folder / "collection.jsonl"))) > 600
    assert counts["queries"] == {"train": 500, "dev": 100}


def test_texts_and_ids_are_clean(made):
    folder, _ = made
    passages = {passage.doc_id: passage for passage in read_passages(folder / "collection.jsonl")}
    assert all(20 <= len(passage.text.split()) <= 60 and passage.title == "" for passage in passages.values())
    assert all(doc_id.startswith(("requests/", "networkx/")) for doc_id in passages)
    assert not any("/tests/" in doc_id for doc_id in passages)
    for split in ("train", "dev"):
        queries = {query.query_id: query for query in read_queries(folder / f"queries.{split}.jsonl")}
        assert all(4 <= len(query.text.split()) <= 30 for query in queries.values())
        for qrel in read_qrels(folder / f"qrels.{split}.tsv"):
            assert qrel.query_id in queries and qrel.doc_id in passages and qrel.query_id != qrel.doc_id


def test_the_same_packages_give_the_same_bytes(made, tmp_path):
    folder, _ = made
    sources.collect(tmp_path, {}, SETTINGS | {"packages": ["networkx", "requests"]})
    for file in folder.iterdir():
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


def test_tuning_is_done_on_queries_that_are_never_reported(made, tmp_path):
    folder, _ = made
    counts = sources.collect(tmp_path, {}, SETTINGS | {"held_out": "rest"})

    def ids(where, split):
        return {query.query_id for query in read_queries(where / f"queries.{split}.jsonl")}

    reported, tuning = ids(folder, "dev"), ids(tmp_path, "dev")
    assert tuning and counts["queries_set_aside"] == len(reported) == 100
    assert ids(tmp_path, "train") == ids(folder, "train")
    assert not tuning & (reported | ids(tmp_path, "train"))
    assert (tmp_path / "collection.jsonl").read_bytes() == (folder / "collection.jsonl").read_bytes()


def test_the_split_of_a_place_does_not_depend_on_the_other_places():
    places = [f"p/{i}.py:{i}" for i in range(1000)]
    train, evaluation, aside = split_places(places, num_eval=100, num_train=600, held_out=True)
    assert (len(train), len(evaluation), len(aside)) == (600, 300, 100)
    again, _, _ = split_places(places[::-1], num_eval=100, num_train=600, held_out=True)
    assert again == train
    fewer = set(places[:900])
    _, kept, kept_aside = split_places(sorted(fewer), num_eval=100, num_train=600, held_out=True)
    assert aside & fewer <= kept_aside and evaluation & fewer >= kept


@pytest.mark.parametrize(
    ("num_eval", "num_train", "held_out", "message"),
    [
        *((*numbers, False, "expected at most 10 together") for numbers in [(0, 5), (5, 0), (6, 5)]),
        (5, 5, True, "held_out: expected docstrings besides the 10"),
    ],
)
def test_more_queries_than_there_are_docstrings_are_refused(num_eval, num_train, held_out, message):
    places = [str(number) for number in range(10)]
    with pytest.raises(ValueError, match=message):
        split_places(places, num_eval=num_eval, num_train=num_train, held_out=held_out)


def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(ValueError, match="expected no-such-package to be installed"):
        list(package_docstrings("no-such-package", Counter()))


def test_a_document_is_a_whole_body_without_its_summary_and_none_comes_twice():
    body = " ".join(f"w{i}" for i in range(70))
    left_out: Counter[str] = Counter()
    chosen = choose_documents(
        [
            Docstring("a:1", "short", body),
            Docstring("a:2", "Another summary", "too short"),
            Docstring("a:3", "Equal to the first", body.upper()),
            Docstring("a:4", "Equal up to its 70 words", body + " more"),
        ],
        left_out,
        least_words=20,
    )
    assert [(one.place, one.body) for one in chosen] == [("a:1", body), ("a:4", body + " more")]
    assert left_out == {"body_short": 1, "equal_body": 1}


def test_documents_hold_the_passages_of_the_same_packages_uncut_and_no_summary_of_theirs(
    made, found, tmp_path
):
    settings = {"source": "pydoc_documents", "packages": SETTINGS["packages"], "bad_rows": "strict"}
    counts = sources.collect(tmp_path / "out", {}, {**settings, "least_words": 20})
    documents = {one.doc_id: one for one in read_passages(tmp_path / "out" / "collection.jsonl")}
    assert counts["passages"] == len(documents) and counts["queries"] == {}
    assert counts["docstrings"] == counts["passages"] + sum(
        counts["left_out"].get(reason, 0) for reason in ("body_short", "equal_body")
    )
    folder, _ = made
    passages = {one.doc_id: one for one in read_passages(folder / "collection.jsonl")}
    assert passages.keys() - documents.keys() == set()  # equal when cut is not equal when whole
    assert all(documents[doc_id].text.startswith(one.text) for doc_id, one in passages.items())
    assert max(len(one.text.split()) for one in documents.values()) > 300
    assert {documents[one.place].text for one in found if one.place in documents} == {
        one.body for one in found if one.place in documents
    }
