"""Small files in DPR's exact forms."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def tab_separated(rows: Iterable[Iterable[str]]) -> str:
    """Rows as DPR's files have them: quoted as in CSV where a column has a quotation mark."""
    file = io.StringIO()
    csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)
    return file.getvalue()


def passages(rows: Iterable[tuple[str, str, str]]) -> str:
    """The file of passages from id, text and title."""
    return tab_separated([("id", "text", "title"), *rows])


def context(doc_id: str, *, key: str = "passage_id", title: str = "T", score: float = 1000) -> dict[str, Any]:
    """A passage of a question."""
    return {"title": title, "text": f"text {doc_id}", "score": score, "title_score": 1, key: doc_id}


def question(
    text: str, answers: list[str], positive: list[Any], hard: list[Any], other: list[Any] | None = None
) -> dict[str, Any]:
    """An element of a file of questions."""
    contexts = {"positive_ctxs": positive, "negative_ctxs": other or [], "hard_negative_ctxs": hard}
    return {"dataset": "nq_train_psgs_w100", "question": text, "answers": answers, **contexts}


def answers(rows: Iterable[tuple[str, list[str]]]) -> str:
    """A file `.qa.csv`."""
    return tab_separated((asked, repr(given)) for asked, given in rows)


def write(folder: Path, files: Mapping[str, str | list[Any]]) -> dict[str, Path]:
    """Files by their official names, packed where the name says so; a list is written as JSON, indented.

    In a zip file each element is a line.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if name.endswith(".zip"):
            lines = (
                content if isinstance(content, str) else "".join(f"{json.dumps(one)}\n" for one in content)
            )
            with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(f"folder/{name.removesuffix('.zip')}", lines)
            continue
        text = content if isinstance(content, str) else json.dumps(content, indent=4)
        data = text.encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return {name: folder / name for name in files}
