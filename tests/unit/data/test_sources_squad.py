"""SQuAD 1.1 in its own JSON: small files of its exact form."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from bad_rows import refuse_and_skip
from pydantic import ValidationError

from condenser.data.records import Passage, Qrel, Query, read_doc_ids, read_passages, read_qrels, read_queries
from condenser.data.sources import squad
from configs import sources


def asked(query_id: str, text: str, *answers: str) -> dict[str, Any]:
    given = [{"answer_start": 0, "text": answer} for answer in answers]
    return {"answers": given, "question": text, "id": query_id}


def article(title: str, *paragraphs: tuple[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {"title": title, "paragraphs": [{"context": context, "qas": qas} for context, qas in paragraphs]}


TRAIN = [
    article("Beyonc\u00e9", ("Giselle sang.", [asked("a", "Who sang?", "Giselle", "Giselle", "giselle")])),
    article(
        "1973_oil_crisis",
        ("It began in October.\u2028NA", [asked("b", "When?", "October")]),
        ("It ended.", []),
    ),
]
DEV = [article("Normans", ("They settled in Normandy.", [asked("c", "Where?", "Normandy", "in Normandy")]))]


def written(folder: Path, **files: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in ({"train": TRAIN, "dev": DEV} | files).items():
        text = data if isinstance(data, str) else json.dumps({"data": data, "version": "1.1"})
        (folder / f"{name}-v1.1.json").write_text(text)
    return folder


def settings(folder: Path, **others: Any) -> dict[str, Any]:
    return squad.Settings(source="squad", path=str(folder), **others).model_dump()


def test_paragraphs_are_passages_and_questions_are_judged_relevant_to_theirs(tmp_path: Path) -> None:
    given = settings(written(tmp_path / "squad"))
    dev = tmp_path / "squad" / "dev-v1.1.json"
    dev.write_bytes(b"\xef\xbb\xbf" + dev.read_bytes())  # as Windows writes it
    assert [file.name for file in sources.local_files(given)] == ["train-v1.1.json", "dev-v1.1.json"]
    out = tmp_path / "out"
    counts = sources.collect(out, {}, given)
    assert list(read_passages(out / "collection.jsonl")) == [
        Passage("train-0-0", "Beyonc\u00e9", "Giselle sang."),
        Passage("train-1-0", "1973 oil crisis", "It began in October.\u2028NA"),
        Passage("train-1-1", "1973 oil crisis", "It ended."),
        Passage("dev-0-0", "Normans", "They settled in Normandy."),
    ]
    assert list(read_queries(out / "queries.train.jsonl")) == [
        Query("a", "Who sang?", ("Giselle", "giselle")), Query("b", "When?", ("October",)),
    ]  # fmt: skip
    assert list(read_queries(out / "queries.dev.jsonl")) == [
        Query("c", "Where?", ("Normandy", "in Normandy"))
    ]
    assert list(read_qrels(out / "qrels.dev.tsv")) == [Qrel("c", "dev-0-0", 1)]
    assert counts["queries"] == {"train": 2, "dev": 1} and counts["rejected"] == 0
    assert counts["files"]["train-v1.1.json paragraphs"] == {"rows": 3, "kept": 3, "rejected": 0}


def test_a_split_that_is_null_is_not_read(tmp_path: Path) -> None:
    folder = written(tmp_path / "squad")
    (folder / "train-v1.1.json").unlink()
    given = settings(folder, train_split=None)
    assert sources.local_files(given) == [folder / "dev-v1.1.json"]
    assert sources.collect(tmp_path / "out", {}, given)["queries"] == {"dev": 1}


def many(number: int) -> list[dict[str, Any]]:
    return [
        article(f"Title_{one}", (f"Text {one}.", [asked(f"q{one}", "What?", "Text")]))
        for one in range(number)
    ]


def split_of_one_file(folder: Path, articles: list[Any], **others: Any) -> tuple[set[str], set[str]]:
    given = settings(
        written(folder, dev=articles), one_file="dev", eval_split="test", **{"held_out_articles": 3, **others}
    )
    assert sources.local_files(given) == [folder / "dev-v1.1.json"]
    sources.collect(folder / "out", {}, given)
    assert len(read_doc_ids(folder / "out" / "doc_ids.txt")) == len(articles)  # all are searched
    return tuple(  # type: ignore[return-value]
        {query.query_id for query in read_queries(folder / "out" / f"queries.{split}.jsonl")}
        for split in ("train", "test")
    )


def test_one_file_is_divided_by_articles_and_a_seed_in_any_order(tmp_path: Path) -> None:
    train, test = split_of_one_file(tmp_path, many(10))
    assert len(test) == 3 and len(train) == 7 and not train & test
    assert split_of_one_file(tmp_path, many(10)[::-1]) == (train, test)
    assert split_of_one_file(tmp_path, many(10), held_out_seed=1)[1] != test
    larger = split_of_one_file(tmp_path, many(10), held_out_articles=5)[1]
    assert test < larger


def test_some_article_must_be_left_for_training(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"dev-v1.1.json: expected more than 3 articles, .*, got 3. Hold out"
    ):
        split_of_one_file(tmp_path, many(3))


def changed(*path: str | int, to: Any) -> list[Any]:
    data = copy.deepcopy(TRAIN)
    value: Any = data
    for step in path[:-1]:
        value = value[step]
    if to is None:
        del value[path[-1]]
    else:
        value[path[-1]] = to
    return data


QUESTION = (0, "paragraphs", 0, "qas", 0)
PARAGRAPH = (1, "paragraphs", 1)
BAD = [
    (changed(0, "title", to=None), 'paragraphs:data[0]: expected a field "title"'),
    (changed(0, "paragraphs", to={}), 'paragraphs:data[0]: expected a list in "paragraphs"'),
    (changed(1, to="text"), "paragraphs:data[1]: expected a JSON object, got 'text'"),
    (changed(*PARAGRAPH, "context", to=7), 'data[1].paragraphs[1]: expected a string in "context"'),
    (changed(*PARAGRAPH, "context", to=" "), "data[1].paragraphs[1]: expected a passage text that is not"),
    (changed(*QUESTION, "id", to=None), 'questions:data[0].paragraphs[0].qas[0]: expected a field "id"'),
    (changed(*QUESTION, "id", to="b"), "data[1].paragraphs[0].qas[0]: expected unique query ids, got 'b'"),
    (changed(*QUESTION, "answers", to=[]), "qas[0]: expected an answer, got none. Take SQuAD 1.1"),
    (changed(*QUESTION, "answers", to=["Paris"]), "qas[0]: expected a JSON object, got 'Paris'"),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_what_does_not_fit_is_refused_with_its_place_or_left_out(
    tmp_path: Path, data: list[Any], message: str
) -> None:
    given = settings(written(tmp_path / "squad", train=data))
    counts, listed = refuse_and_skip(tmp_path / "out", {}, given, message)
    assert counts["queries"]["dev"] == 1
    assert all(str(place).startswith("data[") for _, place in listed)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", r"train-v1.1.json: expected SQuAD's JSON, one object, got '\[\]'. Is it SQuAD's file\?"),
        ('{"data": [', "train-v1.1.json: expected SQuAD's JSON, one object, got .*Expecting value"),
        ('{"version": "1.1"}', 'train-v1.1.json: expected a list in "data", got None'),
        ('{"data": [], "data": []}', "train-v1.1.json: expected each key once in an object, got 'data'"),
    ],
)
def test_another_file_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sources.collect(tmp_path / "out", {}, settings(written(tmp_path / "squad", train=content)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"one_file": "dev"}, "one_file and held_out_articles: give both"),
        ({"held_out_articles": 3}, "one_file and held_out_articles: give both"),
        ({"one_file": "dev", "held_out_articles": 3, "train_split": None}, "expected a train_split"),
        ({"train_split": None, "eval_split": None}, "expected at least one"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(Path(), **given)


def test_without_a_folder_the_official_files_are_read_and_their_rows_are_counted(tmp_path: Path) -> None:
    given = squad.Settings(source="squad").model_dump()
    assert sources.raw_files(given) == ["train-v1.1.json", "dev-v1.1.json"] and not sources.local_files(given)
    folder = written(tmp_path / "downloads")
    raw = {name: folder / name for name in sources.raw_files(given)}
    rows = {"train-v1.1.json": (3, 2), "dev-v1.1.json": (1, 1)}
    counts = sources.collect(tmp_path / "out", raw, {**given, "official_rows": rows})
    assert counts["queries"] == {"train": 2, "dev": 1}
    with pytest.raises(ValueError, match=r"dev-v1\.1\.json questions: expected the official 2 rows, got 1"):
        sources.collect(tmp_path / "bad", raw, {**given, "official_rows": {**rows, "dev-v1.1.json": (1, 2)}})


def test_a_split_that_has_no_official_file_needs_a_folder() -> None:
    with pytest.raises(ValidationError, match=r"path: expected the folder that has test-v1\.1\.json"):
        squad.Settings(source="squad", eval_split="test")
