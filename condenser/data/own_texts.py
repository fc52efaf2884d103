"""A folder of text files, or one table of texts, as a collection in BEIR's layout, with its overlay.

In a folder every `.txt` and `.md` file is a text. Its id is its path; its title is a Markdown heading in its
first line, else its file name. In a `.jsonl`, `.csv` or `.tsv` file every row is a text; its columns are
found by their names. What is left out is listed by the reason.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from condenser.data.judged import SPLIT
from condenser.data.parsing import MAX_ID_BYTES, MAX_PASSAGE_CHARACTERS, BadRow, check_passage
from condenser.data.records import Passage
from condenser.files import atomic_write, read_json, write_json

SUFFIXES = (".txt", ".md")
TABLES = (".jsonl", ".csv", ".tsv")
TEXT_COLUMNS = ("text", "body", "content", "contents", "passage", "abstract", "document", "answer")
TITLE_COLUMNS = ("title", "name", "heading", "headline", "subject")
ID_COLUMNS = ("_id", "id", "doc_id", "docid")
WINDOW: dict[str, Any] = {"words": 120, "stride": 60}  # ours; of the passages of long texts: docs/data.md
_LONG_WORDS = 240  # ours; two windows; texts are split where one has more words

LeftOut = dict[str, list[str]]
"""Names of what was left out, by the reason."""

csv.field_size_limit(MAX_PASSAGE_CHARACTERS)


class OwnText(NamedTuple):
    """A text with its id; the title may be empty."""

    text_id: str
    title: str
    text: str


def write_index_overlay(
    source: Path, results: Path, *, name: str, title: str | None = None, text: str | None = None
) -> tuple[int, LeftOut]:
    """Write `results/NAME/texts/corpus.jsonl` and `results/NAME/index.yaml`; gives the number of texts.

    The same texts give the same bytes, so that nothing is made again for them.

    Args:
        source: a folder, or a .jsonl, .csv or .tsv file with a header.
        title, text: columns of a file; None finds them by their names.

    Raises:
        ValueError: the source has no text, the name is taken by another one, or a file is not readable.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ValueError(
            f"NAME: expected letters, digits, _ and -, got {name!r:.80}. Give another: NAME=mine."
        )
    folder, origin = results / name / "texts", str(source.resolve())
    overlay = results / name / "index.yaml"
    if overlay.is_file():
        if (other := read_json(folder / "origin.json")["source"]) != origin:
            raise ValueError(
                f"{overlay}: expected the texts of {other}, got those of {origin}. "
                "Give another name: NAME=..."
            )
    elif (results / name).exists():
        raise ValueError(f"results/{name}: expected no results of this name yet. Give another: NAME=...")
    if not source.exists():
        raise ValueError(f"{source}: expected a folder or a file, found none.")
    left_out: LeftOut = {}
    texts = folder_texts(source, left_out) if source.is_dir() else table_texts(source, left_out, title, text)
    lines, longest, ids = [], 0, set[str]()
    for row in texts:
        ids.add(row.text_id)
        longest = max(longest, len(row.text.split()))
        lines.append(
            json.dumps({"_id": row.text_id, "title": row.title, "text": row.text}, ensure_ascii=False)
        )
    if not lines:
        raise ValueError(f"{source}: expected texts, got none ({described(left_out) or 'it is empty'}).")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / "corpus.jsonl") as file:
        file.writelines(f"{line}\n".encode() for line in lines)
    judged = SPLIT if _relevant_texts(folder) & ids else None
    entry: dict[str, Any] = {"source": "beir", "path": str(folder), "train_split": None, "eval_split": judged}
    entry["bad_rows"] = "skip"  # judgements of texts that are gone are left out, and counted
    entry["keep_trained"] = True
    if longest > _LONG_WORDS:
        entry["split"] = WINDOW | ({"by": "headings"} if source.is_dir() else {})
    write_json(folder / "origin.json", {"source": origin})
    with atomic_write(overlay) as file:
        file.write(
            b"# Written by make index; every command reads it. Delete this folder to forget the texts.\n"
        )
        file.write(f"datasets:\n  {name}: {json.dumps(entry)}\n".encode())
    return len(lines), left_out


def names_judged(folder: Path) -> bool:
    """Whether the folder is one that `make index` wrote, whose overlay names the judged queries by itself."""
    return (folder / "origin.json").is_file() and (folder.parent / "index.yaml").is_file()


def _relevant_texts(folder: Path) -> set[str]:
    """The texts that a person judged relevant; without one, nothing can be measured."""
    file = folder / f"qrels/{SPLIT}.tsv"
    rows = (
        [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]
        if file.is_file()
        else []
    )
    return {doc_id for _, doc_id, grade in rows if grade != "0"}


def note_judged(folder: Path) -> None:
    """Name the judged queries as those to evaluate on, where the folder is one that `make index` wrote."""
    overlay = folder.parent / "index.yaml"
    if names_judged(folder) and _relevant_texts(folder):
        written = overlay.read_bytes()
        noted = written.replace(b'"eval_split": null', f'"eval_split": "{SPLIT}"'.encode())
        if noted != written:
            with atomic_write(overlay) as file:
                file.write(noted)


def name_of(source: Path) -> str:
    """A name for a collection, by that of its folder or file.

    >>> name_of(Path("/my/Notes 2024.csv"))
    'Notes-2024'
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "-", source.resolve().stem).strip("-")


def described(left_out: LeftOut) -> str:
    """What was left out, in words; of each reason the first name, at most 200 characters of it.

    >>> described({"empty": ["a.txt"], "hidden": [".git", ".env"]})
    '1 empty (a.txt), 2 hidden (the first: .git)'
    """
    return ", ".join(
        f"{len(names):,} {reason} ({'the first: ' if len(names) > 1 else ''}{names[0]:.200})"
        for reason, names in left_out.items()
    )


def folder_texts(folder: Path, left_out: LeftOut) -> Iterator[OwnText]:
    """The texts of a folder, then those of the folders in it, each in order of their names."""
    waiting = [folder]
    while waiting:
        above = waiting.pop()
        try:
            with os.scandir(above) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError:
            left_out.setdefault("unreadable", []).append(above.relative_to(folder).as_posix())
            continue
        folders: list[Path] = []
        for entry in entries:
            path = Path(entry.path)
            content = reason = ""
            if entry.name.startswith("."):
                reason = "hidden"
            elif entry.is_symlink():
                reason = "links"
            elif entry.is_dir():
                folders.append(path)
                continue
            elif path.suffix.lower() not in SUFFIXES or not entry.is_file():
                reason = "of another kind than .txt and .md"
            else:
                content, reason = _content(path)
            place = path.relative_to(folder).as_posix()
            text_id = _id_of(place)
            if not reason and len(text_id.encode()) > MAX_ID_BYTES:
                reason = f"with a path longer than {MAX_ID_BYTES} bytes"
            if reason:
                left_out.setdefault(reason, []).append(place)
            else:
                yield OwnText(text_id, *_titled(content, path))
        waiting += reversed(folders)


def _id_of(place: str) -> str:
    """A path as an id, without white space, control characters and bytes that are no UTF-8.

    >>> _id_of("my notes/100%.txt"), _id_of(os.fsdecode(b"caf\\xe9.txt"))
    ('my%20notes/100%25.txt', 'caf%E9.txt')
    """
    unfit = r"[\s%\x00-\x1f\x7f\ufeff\udc80-\udcff]"
    return re.sub(unfit, lambda found: quote(os.fsencode(found[0])), place)


def _content(path: Path) -> tuple[str, str]:
    """The text of a file, or why it has none."""
    try:
        content = path.read_bytes()
    except OSError:
        return "", "unreadable"
    is_utf_16 = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = content.decode("utf-16" if is_utf_16 else "utf-8-sig")
    except UnicodeDecodeError:
        return "", "binary" if b"\0" in content else "not in UTF-8"
    if "\0" in text:
        return "", "binary"
    if len(text) > MAX_PASSAGE_CHARACTERS:
        return "", f"longer than {MAX_PASSAGE_CHARACTERS:,} characters"
    return text, "" if text.strip() else "empty"


def _titled(content: str, path: Path) -> tuple[str, str]:
    """Title and text of a file: a Markdown heading in the first line is the title, else the file's name."""
    first, _, rest = content.strip().partition("\n")
    if (
        path.suffix.lower() == ".md"
        and (heading := re.fullmatch(r"#{1,6}\s+(.*?)\s*#*\s*", first))
        and rest.strip()
    ):
        return heading[1], rest.strip()
    return os.fsencode(path.stem).decode(errors="replace"), content.strip()


def table_texts(file: Path, left_out: LeftOut, title: str | None, text: str | None) -> Iterator[OwnText]:
    """The texts of a .jsonl, .csv or .tsv file, in its order.

    Raises:
        ValueError: the file is of another kind, has no such column, or a row is broken.
    """
    if file.suffix.lower() not in TABLES:
        raise ValueError(
            f"{file}: expected a folder, or a file that ends in {', '.join(TABLES)}, got neither."
        )
    columns: dict[str, str | None] = {}
    seen: set[str] = set()
    for line, row in _rows(file):
        if not columns:
            columns = {
                "text": _column(file, row, "TEXT", text, TEXT_COLUMNS),
                "title": _column(file, row, "TITLE", title, TITLE_COLUMNS, is_needed=False),
                "id": _column(file, row, "id", None, ID_COLUMNS, is_needed=False),
            }
        values = {key: str(row.get(name) or "").strip() if name else "" for key, name in columns.items()}
        if not values["text"]:
            left_out.setdefault("empty", []).append(f"line {line}")
            continue
        text_id = values["id"] or str(line)
        try:
            check_passage(Passage(text_id, values["title"], values["text"]))
        except BadRow as unfit:
            raise unfit.at(str(file), line) from None
        if text_id in seen:
            raise ValueError(
                f"{file}:{line}: expected each id once, got {text_id!r:.80} again. Correct the file."
            )
        seen.add(text_id)
        yield OwnText(text_id, values["title"], values["text"])


def _rows(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a table by the names of their columns, with the lines that they begin at."""
    line = 1
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            if file.suffix.lower() == ".jsonl":
                for line, content in enumerate(stream, start=1):
                    if content.strip():
                        row = json.loads(content)
                        if not isinstance(row, dict):
                            raise ValueError("no object")
                        yield line, row
                return
            reader = csv.DictReader(
                stream, delimiter="\t" if file.suffix.lower() == ".tsv" else ",", strict=True
            )
            for row in reader:
                line = reader.line_num
                if None in row or None in row.values():
                    raise ValueError(f"{len(reader.fieldnames or [])} columns expected")
                line -= sum(value.count("\n") for value in row.values())  # where the row begins
                yield line, row
    except UnicodeDecodeError:
        raise ValueError(f"{file}: expected UTF-8, got other bytes. Save the file as UTF-8.") from None
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error.strerror}).") from None
    except (ValueError, csv.Error) as error:
        raise ValueError(
            f"{file}:{line}: expected a row of {file.suffix[1:]} ({error}). Correct it."
        ) from None


def _column(
    file: Path,
    row: Mapping[str, Any],
    variable: str,
    wanted: str | None,
    usual: Sequence[str],
    *,
    is_needed: bool = True,
) -> str | None:
    """The name of a column: the one that is wanted, else the first of the usual ones."""
    by_lower = {name.lower().strip(): name for name in row}
    found = [by_lower[name.lower()] for name in ([wanted] if wanted else usual) if name.lower() in by_lower]
    if not found and (wanted or is_needed):
        raise ValueError(
            f"{file}: expected a column {wanted or ' or '.join(usual[:3])}, got {', '.join(row):.200}. "
            f"Name it: {variable}=..."
        )
    return found[0] if found else None
