"""What programs ask the server for, as JSON: an answer, a passage, queries to judge and their texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from condenser.data.judged import POOL_DEPTH, Judgements
from condenser.data.own_texts import names_judged, note_judged
from condenser.live.judging import progress
from condenser.live.known import Asked, Known
from condenser.live.systems import MAX_CHARACTERS, MAX_DEPTH, OpenSystems, check

VERSION = 1
MAX_TEXT = 5_000  # characters of a passage; a whole document would take the page

Parameters = Sequence[tuple[str, str]]


class TooLarge(ValueError):
    """A request that is larger than the limits."""


class Door:
    """Answers requests by what is known; all calls come from one thread, that of the systems."""

    def __init__(self, known: Known, opened: OpenSystems) -> None:
        self._known, self._opened = known, opened

    def systems(self, given: Parameters) -> dict[str, Any]:
        """What the pages offer: every system, and what keeps it from answering now."""
        known, offered = self._known, []
        for dataset in known.datasets:
            for system, variants in known.systems(dataset).items():
                for variant in variants:
                    asked = known.asked(dataset, system, variant)
                    state = asked.state()
                    offered.append(
                        {
                            "dataset": dataset,
                            "system": system,
                            "variant": variant,
                            "kind": asked.kind,
                            "label": asked.label,
                            "ready": state is None,
                            "why": state,
                            "command": "" if state is None or asked.error else asked.command,
                        }
                    )
        return {
            "systems": offered,
            "opens_with": {dataset: known.dataset(dataset).opens_with for dataset in known.datasets},
            "judged": [dataset for dataset in known.datasets if known.dataset(dataset).judged_in],
            "max_characters": MAX_CHARACTERS,
            "max_depth": MAX_DEPTH,
        }

    def search(self, given: Parameters) -> dict[str, Any]:
        """The hits of a system for the query `q`, at most `k`."""
        asked_for = _parameters(given, "q", optional=("dataset", "system", "variant", "k"))
        query, depth = asked_for["q"], _whole(asked_for.get("k", "10"), "k")
        try:
            check(query, depth)
        except ValueError as error:
            raise (TooLarge if len(query) > MAX_CHARACTERS else ValueError)(str(error)) from error
        asked = self._asked(asked_for)
        answer = asdict(self._opened.answer(asked, query, depth))
        for hit in answer["hits"]:
            hit.update(_shortened(hit))
        return {"dataset": asked.dataset, "system": asked.system, "variant": asked.variant, **answer}

    def passage(self, given: Parameters) -> dict[str, Any]:
        """The passage with an `id`: the `passage_id` of a hit, or else its `doc_id`."""
        asked_for = _parameters(given, "id", optional=("dataset", "system", "variant"))
        passage = self._opened.passage(self._asked(asked_for), asked_for["id"])
        return {"id": passage.doc_id, "title": passage.title, "text": passage.text}

    def judging(self, given: Parameters) -> dict[str, Any]:
        """The queries of a data set that are judged, and how far that is; `systems` are compared."""
        asked_for = _parameters(given, "dataset", many="systems")
        return self._judging(asked_for["dataset"], [self._named(one) for one in asked_for["systems"]])

    def add_queries(self, given: Any) -> dict[str, Any]:
        """Add `queries`, a list of texts."""
        dataset, texts = _fields(given, dataset=str, queries=list)
        texts = [" ".join(str(text).split()) for text in texts]
        for text in filter(None, texts):
            check(text, POOL_DEPTH)
        judgements = self._judgements(dataset)
        judgements.add(list(filter(None, texts)))
        return self._judging(dataset, [])

    def pool(self, given: Parameters) -> dict[str, Any]:
        """The texts to judge for the query `id`: the first hits of the `systems` together."""
        asked_for = _parameters(given, "dataset", "id", many="systems")
        if not asked_for["systems"]:
            raise ValueError("systems: expected one or more, got none.")
        dataset, judgements = asked_for["dataset"], self._judgements(asked_for["dataset"])
        query = judgements.query(asked_for["id"])
        texts: dict[str, Any] = {}
        rankings = {}
        for name in asked_for["systems"]:
            asked = self._known.asked(dataset, *name.split(" ", 1))
            hits = self._opened.answer(asked, query.text, POOL_DEPTH).hits
            rankings[self._named(name)] = [hit.doc_id for hit in hits]
            texts.update({hit.doc_id: _shortened(vars(hit)) for hit in hits})
        judgements.pool(query.query_id, rankings)
        for doc_id in query.pool:
            if doc_id not in texts:  # of a ranking that has changed since
                try:
                    passage = self._opened.passage(asked, doc_id)
                    texts[doc_id] = _shortened({"title": passage.title, "text": passage.text})
                except ValueError:  # its judgement counts for nothing
                    texts[doc_id] = {"title": "", "text": "(This text is no longer in the collection.)"}
        return {
            "query": query.text,
            "texts": [{"doc_id": one, **texts[one], "grade": query.grades.get(one)} for one in query.pool],
        }

    def grade(self, given: Any) -> dict[str, Any]:
        """Take `grades` of texts by their ids; null withdraws one."""
        dataset, query_id, grades, systems = _fields(given, dataset=str, id=str, grades=dict, systems=list)
        most = self._most_grade(dataset)
        for grade in grades.values():
            if grade is not None and (type(grade) is not int or not 0 <= grade <= most):
                raise ValueError(
                    f"grade: expected a whole number from 0 to {most}, or null, got {grade!r:.20}."
                )
        judgements = self._judgements(dataset)
        judgements.grade(query_id, grades)
        note_judged(judgements.folder)
        return self._judging(dataset, [self._named(str(one)) for one in systems])

    def _judging(self, dataset: str, systems: Sequence[str]) -> dict[str, Any]:
        judgements = self._judgements(dataset)
        queries = [
            {"id": one.query_id, "text": one.text, "done": one.is_done} for one in judgements.queries.values()
        ]
        relevant = self._known.dataset(dataset).relevant_grade
        return {
            "queries": queries,
            "progress": progress(judgements, systems, relevant_grade=relevant),
            "most_grade": self._most_grade(dataset),
            "relevant_grade": relevant,
            "file": str(judgements.folder / "qrels" / "judged.tsv"),
            "command": self._known.table_of_judged(dataset),
            "is_named": names_judged(judgements.folder),
        }

    def _judgements(self, dataset: str) -> Judgements:
        folder = self._known.dataset(dataset).judged_in
        if folder is None:
            raise ValueError(
                f"dataset: expected one with the source beir, or one of make index, got {dataset!r:.80}."
            )
        return Judgements(Path(folder))

    def _most_grade(self, dataset: str) -> int:
        """1, or 3 where a data set has grades between relevant and not."""
        return 1 if self._known.dataset(dataset).relevant_grade == 1 else 3

    def _asked(self, given: Mapping[str, Any]) -> Asked:
        """The system that is asked; where none is named, the usual one."""
        dataset = given.get("dataset") or self._known.usual_dataset()
        if system := given.get("system"):
            return self._known.asked(dataset, system, given.get("variant"))
        return self._known.usual(dataset)

    @staticmethod
    def _named(name: str) -> str:
        """A system with its variant, as tables and journals name it."""
        return name.removesuffix(" untrained")


def _parameters(
    given: Parameters, *needed: str, optional: Sequence[str] = (), many: str = ""
) -> dict[str, Any]:
    """The values of an address by name; `many` may be there several times."""
    found: dict[str, Any] = {many: []} if many else {}
    for name, value in given:
        if name == many:
            found[many].append(value)
        elif name in found or name not in (*needed, *optional, "token"):
            raise ValueError(
                f"request: expected {', '.join((*needed, *optional))}, each once, got {name!r:.40}."
            )
        else:
            found[name] = value
    if missing := [name for name in needed if name not in found]:
        raise ValueError(f"{missing[0]}: expected a value, got none.")
    return found


def _fields(given: Any, **expected: type) -> list[Any]:
    """The values of a posted object."""
    if not isinstance(given, dict) or any(
        type(given.get(name)) is not kind for name, kind in expected.items()
    ):
        raise ValueError(f"request: expected an object with {', '.join(expected)}.")
    return [given[name] for name in expected]


def _whole(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{name}: expected a whole number, got {text!r:.40}.")
    return int(text)


def _shortened(hit: Mapping[str, Any]) -> dict[str, str]:
    """Title and text as the page shows them."""
    texts = {part: str(hit[part]) for part in ("title", "text")}
    return {part: text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…" for part, text in texts.items()}
