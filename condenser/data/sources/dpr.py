"""Open-domain question answering in DPR's files: Natural Questions, TriviaQA, SQuAD and PAQ in their form.

- `psgs_w100.tsv.gz`: the Wikipedia of December 2018 in passages of 100 words, `id<tab>text<tab>title` with
  this header, columns quoted as in CSV, one passage a line.
- `biencoder-<set>-<split>.json.gz`: one JSON array of questions with `answers`, `positive_ctxs`,
  `hard_negative_ctxs` (BM25's passages without an answer) and `negative_ctxs`. A passage there has its id in
  the file of passages, `passage_id` (NQ) or `psg_id` (the others). The arrays of training have gigabytes, so
  one question at a time is in memory (`condenser.data.parsing.json_array`).
- `biencoder-nq-adv-hn-train.json.gz`: the same form, with negatives that a first DPR mined. It has questions
  that the file of training lacks, so that its questions are found by their text.
- `PAQ.dpr.train.neg1.jsonl.zip`: PAQ's 65 million generated questions (Lewis et al. 2021) as dpr-scale has
  them, one object of the same form a line, with one hard negative and perhaps without `answers`; a passage
  may have its id as `id`. That is what dpr-scale's README says of its files (where the id is optional; here
  it is needed): nobody has read this one with this code. No line is kept in memory.
- `<set>-<split>.qa.csv`: `question<tab>answers`, quoted as in CSV; the answers are a list as Python
  writes it.

A question is used as it is written, in training and in search; DPR's code puts straight apostrophes in some.
Source: Karpukhin et al. 2020 (DPR) and their `download_data.py`; the numbers of rows: their Table 1. Nobody
publishes a length, a checksum or a number of rows of their files of SQuAD and PAQ, so these are not checked.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from condenser.data.archives import open_gzip, open_zip_member
from condenser.data.canonical import CanonicalFiles
from condenser.data.official import check_official_rows
from condenser.data.parsing import (
    MAX_LINE_BYTES,
    BadRow,
    Row,
    answers_of,
    csv_columns,
    json_array,
    json_object,
    parse_rows,
    preview,
    text_field,
    text_lines,
)
from condenser.data.randomness import permutation
from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    TrainExample,
    is_relevant,
    read_qrels,
    read_queries,
    write_examples,
)
from condenser.nouns import PartlyJudgedTexts
from condenser.progress import track
from condenser.settings import Name

PASSAGES = "psgs_w100.tsv.gz"
FILES = {
    "nq": {
        "train": "biencoder-nq-train.json.gz",
        "dev": "biencoder-nq-dev.json.gz",
        "dev-qa": "nq-dev.qa.csv",
        "test": "nq-test.qa.csv",
    },
    "tqa": {
        "train": "biencoder-trivia-train.json.gz",
        "dev": "biencoder-trivia-dev.json.gz",
        "dev-qa": "trivia-dev.qa.csv.gz",
        "test": "trivia-test.qa.csv.gz",
    },
    "squad": {
        "train": "biencoder-squad1-train.json.gz",
        "dev": "biencoder-squad1-dev.json.gz",
        "test": "squad1-test.qa.csv",
    },
    "paq": {"train": "PAQ.dpr.train.neg1.jsonl.zip"},
}
RELEASED = {"nq": "biencoder-nq-adv-hn-train.json.gz"}
OFFICIAL_ROWS = {
    PASSAGES: 21_015_324,
    "biencoder-nq-train.json.gz": 58_880,
    "biencoder-nq-adv-hn-train.json.gz": 69_639,
    "biencoder-nq-dev.json.gz": 6_515,
    "biencoder-trivia-train.json.gz": 78_785,
    "biencoder-trivia-dev.json.gz": 8_837,
    "nq-dev.qa.csv": 8_757,
    "nq-test.qa.csv": 3_610,
    "trivia-dev.qa.csv.gz": 8_837,
    "trivia-test.qa.csv.gz": 11_313,
}
BY_ANSWERS = ("dev-qa", "test")  # splits without judgements


_HEADER = ("id", "text", "title")
_LINES = ".zip"  # of a file with a question a line
_ID_KEYS = ("passage_id", "psg_id", "id")


class Settings(PartlyJudgedTexts):
    """One of DPR's data sets on their Wikipedia.

    `positives` says which passages of a question are judged relevant: the first, on which DPR and GC-DPR
    train, or all. `hard_negatives` names the system whose negatives the files give; null: it makes its own.
    `released` names systems that take the mined negatives that DPR released for those of their own.
    """

    OFFICIAL_ROWS: ClassVar[Mapping[str, Any]] = OFFICIAL_ROWS

    AFTER_COLLECTING = ("hard_negatives", "released")

    name: Literal["nq", "tqa", "squad", "paq"]  # Natural Questions, TriviaQA, SQuAD or PAQ
    train_split: Literal["train", "dev"] | None = "train"  # the questions that are learnt from; null: none
    # the questions that are measured on; `dev-qa` are those of open-domain question answering
    eval_split: Literal["dev", "dev-qa", "test"] | None = "test"
    positives: Literal["first", "all"] = "first"  # passages of a question that count as relevant
    hard_negatives: Name | None = None  # the system whose negatives the files give; null: it makes its own
    # systems that take DPR's released negatives for their own
    released: list[Name] = Field(default_factory=list)
    # replace `metrics.measures`
    measures: list[str] | None = Field(default_factory=lambda: ["hits@5", "hits@20", "hits@100"])

    @model_validator(mode="after")
    def _splits_are_there(self) -> Settings:
        known = FILES[self.name]
        if self.released and self.name not in RELEASED:
            raise ValueError(f"released: expected none, DPR released mined negatives of nq, got {self.name}")
        if self.eval_split is not None and self.eval_split not in known:
            wanted = f"one of {', '.join(known)}" if len(known) > 1 else "null"
            raise ValueError(f"eval_split: expected {wanted} for {self.name}, got {self.eval_split}")
        if self.train_split is not None and self.train_split not in known:
            raise ValueError(f"train_split: expected train for {self.name}, got {self.train_split}")
        others = [name for name in self.measures or [] if not name.startswith("hits@")]
        if self.eval_split in BY_ANSWERS and (others or not self.measures):
            raise ValueError(
                f"measures: expected measures by answer, such as hits@20, for eval_split {self.eval_split}, "
                f"which has no judgements, got {', '.join(others) or 'none'}"
            )
        return self

    def raw_files(self) -> list[str]:
        """The passages, and the questions of the splits."""
        return [PASSAGES, *(FILES[self.name][split] for split in self.splits)]

    def example_files(self, system: str) -> list[str]:
        """The questions of training, or of the mined negatives, for the systems whose negatives they give."""
        split = self.train_split
        if split and system in self.released:
            return [RELEASED[self.name]]
        return [FILES[self.name][split]] if split and self.hard_negatives == system else []


def make_examples(
    raw: Mapping[str, Path],
    queries: Path,
    qrels: Path,
    output: Path,
    *,
    relevant_grade: int,
    sample: int,
    wanted: Collection[str] | None,
    seed: int,
) -> dict[str, int]:
    """Write an example for each train question with hard negatives in DPR's file; gives the counts.

    An example has the judged positives of its question, and a random sample of `sample` of its distinct
    hard negatives (all of them if it has fewer), drawn by (seed, query_id), in the order of the file. A
    passage that the file also has among the positives is no negative, and is counted. So are questions of
    the mined negatives that are no train questions here (`unknown_questions`), and rows that ask again.

    Raises:
        ValueError: the file does not fit, or has no negatives of our questions.
    """
    (path,) = raw.values()
    chosen = (one for one in read_queries(queries) if wanted is None or one.query_id in wanted)
    counts: Counter[str] = Counter(
        queries=sum(1 for _ in chosen),
        without_negatives=0,
        fewer_negatives_than_sample=0,
        negatives_given_as_positives=0,
    )

    def examples() -> Iterator[TrainExample]:
        if path.name in RELEASED.values():
            asked = _asked_by_text(path, queries, qrels, relevant_grade, counts)
        else:
            asked = _asked_in_order(path, qrels, relevant_grade)
        for query_id, positives, element in asked:
            if wanted is not None and query_id not in wanted:
                continue
            given = _passage_ids(element, "hard_negative_ctxs")
            relevant = {*_passage_ids(element, "positive_ctxs"), *positives}
            negatives = [doc_id for doc_id in given if doc_id not in relevant]
            counts["negatives_given_as_positives"] += len(given) - len(negatives)
            if not negatives:
                counts["without_negatives"] += 1
                continue
            drawn = sorted(permutation(seed, f"negatives of {query_id}", 0, len(negatives))[:sample].tolist())
            counts["fewer_negatives_than_sample"] += len(drawn) < sample
            counts["negatives"] += len(drawn)
            yield TrainExample(query_id, tuple(positives), tuple(negatives[index] for index in drawn))

    counts["examples"] = write_examples(output, examples())
    if not counts["examples"]:
        output.unlink()
        raise ValueError(
            f"{path}: expected hard negatives of the questions in {queries}, got none. "
            "Do they belong together?"
        )
    return dict(counts)


def _judged(qrels: Path, relevant_grade: int) -> Iterator[tuple[str, list[str]]]:
    """Each judged question and its positives, in the order of the file."""
    for query_id, of_query in groupby(read_qrels(qrels), key=attrgetter("query_id")):
        yield query_id, [qrel.doc_id for qrel in of_query if is_relevant(qrel.grade, relevant_grade)]


def _asked_in_order(path: Path, qrels: Path, relevant_grade: int) -> Iterator[tuple[str, list[str], Any]]:
    """The judged questions of a file that they were collected from: id, positives, and the file's element.

    Raises:
        ValueError: the judgements are of another file.
    """
    judged = _judged(qrels, relevant_grade)
    waiting = next(judged, None)
    for number, _, element in _elements(path, "examples"):
        if waiting and waiting[0] == _query_id(_split_of(path), number):
            yield *waiting, element
            waiting = next(judged, None)
    if waiting:
        raise ValueError(f"{path}: expected the question {waiting[0]} of {qrels}. Do they belong together?")


def _asked_by_text(
    path: Path, queries: Path, qrels: Path, relevant_grade: int, counts: Counter[str]
) -> Iterator[tuple[str, list[str], Any]]:
    """The same of a file that has other rows, by the text of the question; counts those that are unknown."""
    positives = dict(_judged(qrels, relevant_grade))
    id_of_text = {question.text: question.query_id for question in read_queries(queries)}
    for _, _, element in _elements(path, "examples"):
        query_id = id_of_text.pop(text_field(element, "question", absent=None), "")
        counts["unknown_questions"] += not query_id
        if query_id:
            yield query_id, positives[query_id], element


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the canonical files into `folder`; gives the counts.

    A question is known by its place in its file, counted from 0: `train-0`. Questions without a positive
    passage are left out, as in DPR's code, and counted as `without_positives`. In the splits `BY_ANSWERS`
    no passage is judged: the answers say what is found.

    Raises:
        ValueError: a file is damaged, has a row that does not fit, or another number of rows than the
            official one (`OFFICIAL_ROWS`).
    """
    splits = settings.splits
    paths = {split: raw[FILES[settings.name][split]] for split in splits}
    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        only_first = settings.positives == "first"
        passages = files.rows(raw[PASSAGES], _passage, header=_HEADER)
        files.write_collection(passages, num_rows=settings.OFFICIAL_ROWS[PASSAGES])
        qrels: dict[str, list[Row[Qrel]]] = {}
        queries = []
        for split, path in paths.items():
            if path.suffix == _LINES:
                files.write_relevant(split, _questions(path, split, files, only_first=only_first))
                continue
            of_split: list[Row[Query]] = []
            qrels[split] = []
            if split in BY_ANSWERS:
                of_split += files.rows(path, _asked(split))
            else:
                _read_questions(path, split, of_split, qrels[split], files, only_first=only_first)
            queries.append(((split,), of_split))
        files.write_splits(qrels, queries, answered=[split for split in splits if split in BY_ANSWERS])
        counts = files.counts
        names = [PASSAGES, *(path.name for path in paths.values())]
        official = [name for name in names if name in settings.OFFICIAL_ROWS]
        check_official_rows(counts["files"], official, settings.OFFICIAL_ROWS)
    return counts


def _passage(line: bytes) -> Passage:
    doc_id, text, title = csv_columns(line, names=_HEADER)
    return Passage(doc_id, title, text)


def _read_questions(
    path: Path,
    split: str,
    queries: list[Row[Query]],
    qrels: list[Row[Qrel]],
    files: CanonicalFiles,
    *,
    only_first: bool,
) -> None:
    """Add the questions of a JSON file, and the judgements that they hold, to the lists."""
    for row in _questions(path, split, files, only_first=only_first):
        if isinstance(row.record, BadRow):
            queries.append(Row(row.file, row.line, row.record))
            continue
        query, relevant = row.record
        queries.append(Row(row.file, row.line, query))
        for doc_id in relevant:
            qrels.append(Row(f"{path} positive_ctxs", row.line, Qrel(query.query_id, doc_id, 1)))


def _questions(
    path: Path, split: str, files: CanonicalFiles, *, only_first: bool
) -> Iterator[Row[tuple[Query, list[str]]]]:
    """The questions of a file with the passages that are judged relevant; those without any are counted."""
    for number, line, element in _elements(path, split, files.tally(path)):
        try:
            if isinstance(element, BadRow):
                raise element
            query = _question(_query_id(split, number), element, has_answers=path.suffix != _LINES)
            relevant = _passage_ids(element, "positive_ctxs")
        except BadRow as unfit:
            yield Row(str(path), line, unfit)
            continue
        if relevant:
            yield Row(str(path), line, (query, relevant[:1] if only_first else relevant))
        else:
            files.tally(path).update(rows=1, without_positives=1)


def _elements(
    path: Path, label: str, tally: Counter[str] | None = None
) -> Iterator[tuple[int, int | str, Any]]:
    """Number, line and value of each element of a JSON file, or of a file with one a line.

    A line that is no element gives an `BadRow`. `tally` counts blank lines and the like.
    """
    total = OFFICIAL_ROWS.get(path.name)
    if path.suffix == _LINES:
        with open_zip_member(path, path.stem) as stream:
            lines = text_lines(
                stream, max_line_bytes=MAX_LINE_BYTES, tally=Counter() if tally is None else tally
            )
            rows = track(parse_rows(str(path), lines, json_object), label, total=total, unit="questions")
            yield from ((number, row.line, row.record) for number, row in enumerate(rows))
        return
    with open_gzip(path) as stream:
        elements = json_array(str(path), stream, max_characters=MAX_LINE_BYTES)
        counted = track(elements, label, total=total, unit="questions")
        for number, (line, element) in enumerate(counted):
            yield number, line, element


def _query_id(split: str, number: int) -> str:
    return f"{split}-{number}"


def _split_of(path: Path) -> str:
    return next(split for files in FILES.values() for split, name in files.items() if name == path.name)


def _question(query_id: str, element: Any, *, has_answers: bool) -> Query:
    if not isinstance(element, dict):
        raise BadRow("a JSON object", preview(element), "Is it a file of questions of DPR's?")
    answers = answers_of(element.get("answers", None if has_answers else []))
    return Query(query_id, text_field(element, "question", absent=None), _distinct(answers))


def _passage_ids(element: dict[str, Any], key: str) -> list[str]:
    """The ids of the passages of a list, each once."""
    passages = element.get(key)
    if not isinstance(passages, list):
        raise BadRow(f'a list in "{key}"', preview(passages), "Is it a file of questions of DPR's?")
    ids = []
    for passage in passages:
        fields = passage if isinstance(passage, dict) else {}
        doc_id = next((fields[name] for name in _ID_KEYS if name in fields), None)
        if type(doc_id) is int:
            doc_id = str(doc_id)
        if not isinstance(doc_id, str) or not doc_id:
            raise BadRow(
                f'passages with one of {", ".join(_ID_KEYS)} in "{key}"',
                preview(passage),
                "Give the id of the passage in the file of passages.",
            )
        ids.append(doc_id)
    return list(dict.fromkeys(ids))


def _asked(split: str) -> Any:
    """A parser of the lines of a file `.qa.csv`, which numbers them."""
    number = -1

    def parse(line: bytes) -> Query:
        nonlocal number
        number += 1
        question, written = csv_columns(line, names=("question", "answers"))
        try:
            answers = ast.literal_eval(written)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            answers = None
        if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
            raise BadRow(
                "a list of answers as Python writes it", preview(written), "For instance ['Paris', 'Rome']."
            )
        return Query(_query_id(split, number), question, _distinct(answers))

    return parse


def _distinct(answers: list[str]) -> tuple[str, ...]:
    """The answers that are not empty, each once."""
    return tuple(dict.fromkeys(answer for answer in answers if answer.strip()))
