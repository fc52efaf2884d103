"""SQuAD 1.1 in its own JSON: a paragraph is a passage, a question a query with answers.

`<split>-v1.1.json` has `data`, a list of articles with `title` and `paragraphs`. A paragraph has `context`
and `qas`: questions with `id`, `question` and `answers`, each with a `text`. A question has one relevant
passage, its paragraph; others may hold its answer, too, and hits@k counts them. The collection is the
paragraphs of the files that are read: the official `train-v1.1.json` and `dev-v1.1.json`, or
those of a folder.
Source: Rajpurkar et al. 2016; rajpurkar.github.io/SQuAD-explorer. The numbers of rows: their Table 2, and as
counted in the files by others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, model_validator

from condenser.data.archives import open_unpacked
from condenser.data.canonical import CanonicalFiles
from condenser.data.official import check_official_rows
from condenser.data.parsing import BYTE_ORDER_MARK, BadRow, Row, check_text, json_object, preview, text_field
from condenser.data.records import Passage, Qrel, Query
from condenser.data.sources import plain_or_packed
from condenser.nouns import PartlyJudgedTexts
from condenser.settings import Count, HomePath, Name, Whole

OFFICIAL_ROWS = {  # paragraphs, questions
    "train-v1.1.json": (18_896, 87_599),
    "dev-v1.1.json": (2_067, 10_570),
}
_BY_ANSWER = ("hits@5", "hits@20", "hits@100")
_BY_JUDGEMENT = ("MRR@10", "MRR@100", "R@100", "R@1000", "nDCG@10")


class Settings(PartlyJudgedTexts):
    """The folder of the user's files; without `path` the official ones are downloaded.

    With `one_file: dev` both splits come from `dev-v1.1.json`: the questions of `held_out_articles` articles,
    drawn by `held_out_seed`, are for evaluation, those of the other articles for training.
    """

    OFFICIAL_ROWS: ClassVar[Mapping[str, Any]] = OFFICIAL_ROWS

    path: HomePath | None = None  # the folder of the files; null: the official ones are downloaded
    one_file: Name | None = None  # `dev`: both splits come from dev-v1.1.json
    held_out_articles: Count | None = None  # articles of that file whose questions are measured on
    held_out_seed: Whole = 0  # draws these articles
    # replace `metrics.measures`
    measures: list[str] | None = Field(default_factory=lambda: [*_BY_ANSWER, *_BY_JUDGEMENT])

    @model_validator(mode="after")
    def _questions_are_there(self) -> Settings:
        if (self.one_file is None) != (self.held_out_articles is None):
            raise ValueError("one_file and held_out_articles: give both, or a file for each split")
        if self.one_file is not None and None in (self.train_split, self.eval_split):
            raise ValueError("one_file: expected a train_split and an eval_split, which it is divided into")
        if self.train_split is None and self.eval_split is None:
            raise ValueError("train_split, eval_split: expected at least one, which names the file")
        if self.path is None and (unknown := {*_file_names(self)} - {*OFFICIAL_ROWS}):
            raise ValueError(f"path: expected the folder that has {', '.join(sorted(unknown))}")
        return self

    def raw_files(self) -> list[str]:
        """The official files; none where the user has a folder of them."""
        return [] if self.path else _file_names(self)

    def local_files(self) -> list[Path]:
        """The files in the folder `path`, if there is one."""
        folder = self.path
        return [plain_or_packed(Path(folder, name)) for name in _file_names(self)] if folder else []


@dataclass(frozen=True, slots=True)
class _ReadRows:
    """The rows of the files so far."""

    passages: list[Row[Passage]]
    queries: dict[str, list[Row[Query]]]  # by split
    qrels: dict[str, list[Row[Qrel]]]


def _file_names(settings: Any) -> list[str]:
    """The file of each split, or the one of both."""
    names = [settings.one_file] if settings.one_file else settings.splits
    return [f"{name}-v1.1.json" for name in names]


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the canonical files of those in `path`, or of the official ones, into `folder`; gives the counts.

    A passage is known by its file, article and paragraph, counted from 0: `dev-3-0`.

    Raises:
        ValueError: a file is not JSON of this form, a paragraph or question does not fit (with `bad_rows`
            "strict"), there are not so many articles, or an official file has other numbers of rows.
    """
    splits = settings.splits
    rows = _ReadRows([], {split: [] for split in splits}, {split: [] for split in splits})
    for name in [settings.one_file] if settings.one_file else splits:
        official = f"{name}-v1.1.json"
        file = plain_or_packed(Path(settings.path, official)) if settings.path else raw[official]
        articles = _articles(file)
        of_articles = dict.fromkeys(range(len(articles)), name)
        count, train, evaluation = settings.held_out_articles, settings.train_split, settings.eval_split
        if settings.one_file and train and evaluation and count:
            held_out = held_out_places(file, articles, count=count, seed=settings.held_out_seed)
            of_articles = {number: evaluation if number in held_out else train for number in of_articles}
        for number, article in enumerate(articles):
            _read_article(file, name, number, article, of_articles[number], rows)
    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        files.write_collection(rows.passages, num_rows=len(rows.passages))
        files.write_splits(rows.qrels, [((split,), queries) for split, queries in rows.queries.items()])
        for index, what in enumerate(("paragraphs", "questions")):
            numbers = {f"{name} {what}": official[index] for name, official in settings.OFFICIAL_ROWS.items()}
            check_official_rows(files.counts["files"], [f"{name} {what}" for name in raw], numbers)
        return files.counts


def held_out_places(file: Path, articles: list[Any], *, count: int, seed: int) -> frozenset[int]:
    """The numbers of `count` articles: those whose titles have the smallest SHA-256, with the seed.

    Whether an article is before another depends on the two alone, so other articles change little.

    Raises:
        ValueError: no article is left.
    """
    if count >= len(articles):
        raise ValueError(
            f"{file}: expected more than {count:,} articles, as held_out_articles leaves the others for "
            f"training, got {len(articles):,}. Hold out fewer."
        )

    def rank(number: int) -> tuple[bytes, int]:
        title = articles[number].get("title") if isinstance(articles[number], dict) else None
        return hashlib.sha256(f"{seed}/{title}".encode()).digest(), number

    return frozenset(sorted(range(len(articles)), key=rank)[:count])


def _articles(file: Path) -> list[Any]:
    """The articles of a file, which is read as a whole: SQuAD's have some 30 MB."""
    with open_unpacked(file) as stream:
        content = stream.read().removeprefix(BYTE_ORDER_MARK)
    try:
        articles = json_object(content).get("data")
        if not isinstance(articles, list):
            raise BadRow('a list in "data"', preview(articles), "Is it SQuAD's JSON?")
    except BadRow as unfit:
        expected = unfit.expected.replace("one JSON object", "SQuAD's JSON, one object")
        raise ValueError(f"{file}: expected {expected}, got {unfit.got}. Is it SQuAD's file?") from None
    return articles


def _read_article(file: Path, name: str, number: int, article: Any, split: str, rows: _ReadRows) -> None:
    """Add what an article holds; what does not fit is there as `BadRow`, to be refused or counted."""
    place = f"data[{number}]"
    try:
        title = text_field(_object(article), "title", absent=None).replace("_", " ")
        paragraphs = _list(article, "paragraphs")
    except BadRow as unfit:
        rows.passages.append(Row(f"{file} paragraphs", place, unfit))
        return
    for index, paragraph in enumerate(paragraphs):
        doc_id, of_paragraph = f"{name}-{number}-{index}", f"{place}.paragraphs[{index}]"
        try:
            passage = Passage(doc_id, title, text_field(_object(paragraph), "context", absent=None))
            check_text("passage text", passage.text)  # the title is that of the whole article
            questions = _list(paragraph, "qas")
        except BadRow as unfit:
            rows.passages.append(Row(f"{file} paragraphs", of_paragraph, unfit))
            continue
        rows.passages.append(Row(f"{file} paragraphs", of_paragraph, passage))
        for row in _queries(file, of_paragraph, questions):
            rows.queries[split].append(row)
            if isinstance(row.record, Query):
                qrel = Qrel(row.record.query_id, doc_id, 1)
                rows.qrels[split].append(Row(f"{file} judgements", row.line, qrel))


def _queries(file: Path, of_paragraph: str, questions: list[Any]) -> Iterator[Row[Query]]:
    for index, question in enumerate(questions):
        try:
            record: Query | BadRow = _query(question)
        except BadRow as unfit:
            record = unfit
        yield Row(f"{file} questions", f"{of_paragraph}.qas[{index}]", record)


def _query(question: Any) -> Query:
    query_id = text_field(_object(question), "id", absent=None)
    answers = [text_field(_object(answer), "text", absent=None) for answer in _list(question, "answers")]
    if not answers:
        raise BadRow("an answer", "none", "Take SQuAD 1.1: questions of 2.0 may have no answer.")
    return Query(query_id, text_field(question, "question", absent=None), tuple(dict.fromkeys(answers)))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRow("a JSON object", preview(value), "Is it SQuAD's JSON?")
    return value


def _list(record: dict[str, Any], key: str) -> list[Any]:
    value = record.get(key)
    if not isinstance(value, list):
        raise BadRow(f'a list in "{key}"', preview(value), "Is it SQuAD's JSON?")
    return value
