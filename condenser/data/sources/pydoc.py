"""The embedded collection: docstrings of pinned Python packages, summary against body.

It stands in for MS MARCO where there is no network: the summary of a docstring is a query, the
rest of the docstring its one relevant passage. The packages' source files are read and parsed,
never imported. Titles stay empty: names of functions would give the query away.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from condenser.data.canonical import CanonicalFiles
from condenser.data.parsing import Row
from condenser.data.records import Passage, Qrel, Query
from condenser.nouns import JudgedTexts
from condenser.progress import track
from condenser.settings import Count

_TEST_FOLDERS = {"test", "tests", "testing", "_tests", "_testing"}
_ROLE = re.compile(r":[a-zA-Z][\w:+.-]*:`([^`]*)`")
_TARGET = re.compile(r"\s*<[^<>`]*>$")
_DIRECTIVE = re.compile(r"\.\. [\w:-]+::")
_RULE = re.compile(r"[-=~^*#\"'`+_.]{3,}")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A summary and the rest; `place` is `file:line` relative to where packages are installed."""

    place: str
    summary: str
    body: str


Range = Annotated[list[Count], Field(min_length=2, max_length=2)]


class Settings(JudgedTexts):
    """Which docstrings make queries and passages; see `collect`."""

    packages: Annotated[list[str], Field(min_length=1)]  # installed packages whose docstrings are read
    query_words: Range
    passage_words: Range
    eval_queries: Count
    train_queries: Count
    held_out: Literal["none", "rest"]

    @model_validator(mode="after")
    def _ranges_ascend(self) -> Settings:
        for key in ("query_words", "passage_words"):
            shortest, longest = vars(self)[key]
            if shortest > longest:
                raise ValueError(f"{key}: expected [least, most], got [{shortest}, {longest}]")
        return self

    def installed(self) -> list[str]:
        """The packages whose versions decide the texts."""
        return list(self.packages)


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the docstrings of `packages` as a collection with judged queries; gives the counts.

    A summary of `query_words` (shortest, longest) words with a body of at least `passage_words[0]`
    words is taken; a body is cut to `passage_words[1]` words. Of equal summaries or equal bodies
    the first is taken. The `eval_queries` evaluation queries are those whose ids have the smallest
    SHA-256, so the split depends on no seed; the next `train_queries` are for training, and the
    summaries of the rest are no queries, as most passages of MS MARCO have none. With `held_out`
    "rest" the evaluation queries are set aside unused and the summaries of the rest take their
    place, for tuning on other queries than those reported.

    Raises:
        ValueError: a package is not installed, or too few docstrings remain.
    """
    left_out: Counter[str] = Counter()
    docstrings = docstrings_of(settings.packages, left_out)
    words = {"query_words": settings.query_words, "passage_words": settings.passage_words}
    pairs = choose_pairs(docstrings, left_out, **words)
    train, evaluation, unused = split_places(
        [pair.place for pair in pairs],
        num_eval=settings.eval_queries,
        num_train=settings.train_queries,
        held_out=settings.held_out == "rest",
    )
    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        passages = (row_of(pair, Passage(pair.place, "", pair.body)) for pair in pairs)
        files.write_collection(passages, num_rows=len(pairs))
        qrels, queries = {}, []
        for split, places in ((settings.train_split, train), (settings.eval_split, evaluation)):
            of_split = [pair for pair in pairs if pair.place in places]
            qrels[split] = [row_of(pair, Qrel(_query_id(pair), pair.place, 1)) for pair in of_split]
            queries.append(
                ((split,), [row_of(pair, Query(_query_id(pair), pair.summary)) for pair in of_split])
            )
        files.write_splits(qrels, queries)
        counts = files.counts
    del counts["files"]  # one entry for each of some thousand source files says nothing
    of_passages = sum(len(pair.body.split()) for pair in pairs)
    of_queries = sum(len(pair.summary.split()) for pair in pairs)
    return counts | {
        "docstrings": len(docstrings),
        "left_out": dict(sorted(left_out.items())),
        "queries_set_aside": len(unused),
        "mean_passage_words": round(of_passages / len(pairs), 1),
        "mean_query_words": round(of_queries / len(pairs), 1),
        "packages": versions_of(settings.packages),
    }


def _query_id(pair: Docstring) -> str:
    """Unlike the passage's id: some evaluators drop a passage whose id is the query's."""
    return f"summary:{pair.place}"


def row_of(pair: Docstring, record: Any) -> Row[Any]:
    """A record with the file and line of its docstring."""
    file, _, line = pair.place.rpartition(":")
    return Row(file, int(line), record)


def docstrings_of(packages: Sequence[str], left_out: Counter[str]) -> list[Docstring]:
    """The docstrings of all packages, in order of their names (`package_docstrings`)."""
    names = track(sorted(packages), "docstrings", total=len(packages), unit="packages")
    return [docstring for name in names for docstring in package_docstrings(name, left_out)]


def versions_of(packages: Sequence[str]) -> dict[str, str]:
    """The version of each package, without what its builder added."""
    return {name: importlib.metadata.version(name).split("+")[0] for name in sorted(packages)}


def package_docstrings(package: str, left_out: Counter[str]) -> Iterator[Docstring]:
    """The docstrings of an installed package, in order of file and line, tests left out.

    `left_out` counts `files_unparsed` (not Python of this version).

    Raises:
        ValueError: the package is not installed, or its list of files is not known.
    """
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        raise ValueError(
            f"packages: expected {package} to be installed, got none. Install it, or take it off the list."
        ) from None
    paths = sorted(
        (
            path
            for path in distribution.files or ()
            if path.suffix == ".py"
            and ".." not in path.parts
            and not _TEST_FOLDERS.intersection(path.parts)
            and not path.name.startswith(("test_", "conftest"))
        ),
        key=lambda path: path.as_posix(),
    )
    if not paths:
        raise ValueError(
            f"packages: expected {package} to list Python files, got none. Is it installed in editable mode?"
        )
    for path in paths:
        source = Path(str(distribution.locate_file(path))).read_bytes()
        if b'"""' not in source and b"'''" not in source:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # other people's escapes
                tree = ast.parse(source)
        except (SyntaxError, ValueError):
            left_out["files_unparsed"] += 1
            continue
        yield from tree_docstrings(tree, path.as_posix())


def tree_docstrings(tree: ast.Module, file: str) -> list[Docstring]:
    """The docstrings of one parsed file in order of line, marked-up text made plain."""
    docstrings = []
    waiting: list[ast.AST] = [tree]
    while waiting:  # statements alone: most of a tree is expressions, which hold no docstring
        node = waiting.pop()
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, block, ()))
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if text := ast.get_docstring(node):
            summary, _, body = text.partition("\n\n")
            line = getattr(node, "lineno", 1)
            docstrings.append((line, Docstring(f"{file}:{line}", plain_text(summary), plain_text(body))))
    return [docstring for _, docstring in sorted(docstrings, key=lambda pair: pair[0])]


def plain_text(text: str) -> str:
    """Text without what is not English: sessions of the interpreter, rules, roles, directives.

    >>> plain_text("Like :func:`~a.b`.\\n\\nNotes\\n-----\\n\\n>>> 1 + 1\\n2\\n\\n.. note:: See ``c``.")
    'Like b. Notes See c.'
    """
    kept, in_session = [], False
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(">>>"):
            in_session = True
        elif not stripped:
            in_session = False
        if in_session or _RULE.fullmatch(stripped):
            continue
        kept.append(_DIRECTIVE.sub("", stripped))
    joined = _ROLE.sub(lambda match: _role_text(match[1]), "\n".join(kept))
    return " ".join(joined.replace("`", "").replace("\0", "").split())


def _role_text(content: str) -> str:
    shown = _TARGET.sub("", content)
    return shown.rpartition(".")[2] if shown.startswith(("~", ".")) else shown


def choose_pairs(
    docstrings: Sequence[Docstring],
    left_out: Counter[str],
    *,
    query_words: Sequence[int],
    passage_words: Sequence[int],
) -> list[Docstring]:
    """The docstrings that make a query and a passage, bodies cut, no summary and no body twice.

    `left_out` counts, one reason each: `summary_length`, `body_short`, `equal_summary`, `equal_body`.
    """
    pairs: list[Docstring] = []
    summaries, bodies = set[str](), set[str]()
    for docstring in docstrings:
        body_words = docstring.body.split()
        body = " ".join(body_words[: passage_words[1]])
        if not query_words[0] <= len(docstring.summary.split()) <= query_words[1]:
            left_out["summary_length"] += 1
        elif len(body_words) < passage_words[0]:
            left_out["body_short"] += 1
        elif docstring.summary.lower() in summaries:
            left_out["equal_summary"] += 1
        elif body.lower() in bodies:
            left_out["equal_body"] += 1
        else:
            summaries.add(docstring.summary.lower())
            bodies.add(body.lower())
            pairs.append(Docstring(docstring.place, docstring.summary, body))
    return pairs


def split_places(
    places: Sequence[str], *, num_eval: int, num_train: int, held_out: bool
) -> tuple[set[str], set[str], set[str]]:
    """Places for training, for evaluation, and set aside, by rank of their SHA-256.

    Raises:
        ValueError: there are fewer places than are asked for, or none is left for evaluation.
    """
    ranked = sorted(places, key=lambda place: hashlib.sha256(place.encode()).digest())
    first, last = num_eval, num_eval + num_train
    if min(num_eval, num_train) < 1 or len(ranked) < last:
        raise ValueError(
            f"eval_queries, train_queries: expected at most {len(ranked):,} together, as there are that "
            f"many docstrings, got {num_eval:,} and {num_train:,}. Choose fewer, or more packages."
        )
    aside, train, rest = set(ranked[:first]), set(ranked[first:last]), set(ranked[last:])
    if not held_out:
        return train, aside, set()
    if not rest:
        raise ValueError(
            f"held_out: expected docstrings besides the {last:,} of eval_queries and train_queries, got "
            "none. Choose fewer of those, or more packages."
        )
    return train, rest, aside
