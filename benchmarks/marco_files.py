"""Make a collection of MS MARCO's form and size from other texts, to run the workflow at its size.

    git clone . ../at-scale
    python benchmarks/marco_files.py --corpus corpus.jsonl.gz --mirror ../marco-made --checkout ../at-scale
    cd ../at-scale && CONDENSER_MIRROR=../marco-made snakemake --cores 2 --configfile configs/paper.yaml \\
        configs/scale.yaml -- results/msmarco/scale_costs.tsv results/msmarco/scale.plan.tsv \\
        results/msmarco/{subsets/n10000-seed1.txt,systems/bm25/seed42/examples.jsonl,audit.tsv}

Writes the official files under their addresses, so that the folder is a mirror (`downloads.mirror`), and puts
their lengths, digests and numbers of rows in place of the official ones in a checkout of its own. Passages
are pieces of 8 words from anywhere in the corpus, of MS MARCO's lengths (mean 56 words, standard deviation
25), so that few resemble each other, with titles of 3 words. A query is the first piece of a passage that is
judged relevant. Negatives of triples are drawn at random. So costs are as with the official files; quality
means nothing. There are as many rows as officially, but for
the triples: a tenth. The checkout's encoder gives random vectors of 768 dimensions, since BERT-base would
take weeks on two cores: all else of an encoding is as it is.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from condenser import program
from condenser.data.official import OFFICIAL_FILES
from condenser.data.sources import msmarco
from condenser.data.triples import OFFICIAL_ROWS as NUM_TRIPLES

JUDGED = {"train": 502_939, "dev": 6_980, "dl19": 43}  # queries
PIECE, TITLE_WORDS, LONGEST = 8, 3, 300  # words
STRIDE = 1_000_003  # a prime number
AT_ONCE = 200_000  # lines
CODE = ("data/official.py", "data/sources/msmarco.py", "data/triples.py")
ENCODER = "retrieve/encode.py"
RANDOM_VECTORS = {
    "dim = retriever.dim": "dim = 768",
    "retriever(Rows.of(ids, whole, device=compute.device).to(compute.device))": (
        "torch.randn(len(batch), dim, generator=torch.Generator().manual_seed(1 + int(ids.sum())))"
    ),
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="corpus.jsonl, plain or gzip")
    parser.add_argument("--mirror", type=Path, required=True, help="a new folder")
    parser.add_argument("--checkout", type=Path, required=True, help="whose official numbers are replaced")
    parser.add_argument("--share", type=float, default=1.0, help="of all rows, for a trial")
    parser.add_argument("--triples", type=float, default=0.1, help="share of the triples")
    given = parser.parse_args(argv)
    made = MarcoFiles(given.corpus, share=given.share, triples=given.triples)
    replaced = {f"{NUM_TRIPLES:_}": f"{made.num_triples:_}"}
    replaced |= {f"{rows:_}": f"{made.rows[name]:_}" for name, rows in msmarco.OFFICIAL_ROWS.items()}
    for name, write in made.files().items():
        official = OFFICIAL_FILES[name]
        path = given.mirror / urlsplit(official.url).path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
        num_bytes = path.stat().st_size
        print(f"{name}: {num_bytes:,} bytes", flush=True)
        replaced[f"{official.num_bytes:_}"] = f"{num_bytes:_}"
        if official.digest:
            with path.open("rb") as file:
                replaced[official.digest] = hashlib.file_digest(file, "md5").hexdigest()
    for file in CODE:
        path = given.checkout / "condenser" / file
        whole = re.compile(r"\b\w+\b")  # numbers and digests
        path.write_text(whole.sub(lambda word: replaced.get(word[0], word[0]), path.read_text()))
    encoder = given.checkout / "condenser" / ENCODER
    code = encoder.read_text()
    for ours, random in RANDOM_VECTORS.items():
        if code.count(ours) != 1:
            raise ValueError(f"{encoder}: expected {ours!r} once, found it {code.count(ours)} times")
        code = code.replace(ours, random)
    encoder.write_text(code)


class MarcoFiles:
    """The official files, with other texts."""

    def __init__(self, corpus: Path, *, share: float, triples: float) -> None:
        with gzip.open(corpus, "rb") if corpus.suffix == ".gz" else corpus.open("rb") as lines:
            words = [word.encode() for line in lines for word in json.loads(line)["text"].split()]
        self.text = b" ".join(words)
        self.begins = np.cumsum([0, *map(len, words)]) + np.arange(len(words) + 1)  # of each word
        self.rows = {name: max(1, round(rows * share)) for name, rows in msmarco.OFFICIAL_ROWS.items()}
        self.num_triples = max(1, round(NUM_TRIPLES * share * triples))
        self.judged = {split: max(1, round(count * share)) for split, count in JUDGED.items()}
        self.draw = np.random.default_rng(0)
        self.num_passages = self.rows["collection.tsv"]
        self.lengths = self.draw.gamma(5.0, 56 / 5, self.num_passages).astype(np.int64).clip(10, LONGEST)
        self.num_begins = len(words) - PIECE
        self.first = self.draw.integers(0, self.num_begins, self.num_passages)
        self.relevant = {
            split: self.draw.integers(0, self.num_passages, self.rows[queries])
            for split, (queries, _) in msmarco.SPLITS.items()
        }

    def files(self) -> dict[str, Callable[[Path], None]]:
        """How to write each file."""
        queries = {name: self.queries(split) for split, (name, _) in msmarco.SPLITS.items()}
        qrels = {name: self.qrels(split) for split, (_, name) in msmarco.SPLITS.items()}
        of_splits = {name: lines for name, lines in (queries | qrels).items() if name.endswith(".tsv")}
        return {
            msmarco.ARCHIVE: lambda path: packed(path, {"collection.tsv": self.passages(), **of_splits}),
            msmarco.TITLED: lambda path: packed(
                path, {"para.txt": self.passages(), "para.title.txt": self.titles()}
            ),
            msmarco.TRIPLES: lambda path: zipped(path, self.triples()),
            msmarco.DL19_QUERIES: lambda path: zipped(path, queries[msmarco.DL19_QUERIES]),
            msmarco.DL19_QRELS: lambda path: write_lines(path, qrels[msmarco.DL19_QRELS]),
        }

    def passages(self) -> Iterator[bytes]:
        """`id text`."""
        return numbered(
            map(self.passage, range(self.num_passages), self.first.tolist(), self.lengths.tolist())
        )

    def passage(self, row: int, first: int, num_words: int) -> bytes:
        """Pieces of the corpus, the first from the word `first` on; two rows hardly share a second one."""
        begins = [(first + row * place * STRIDE) % self.num_begins for place in range(0, num_words, PIECE)]
        whole = b" ".join(map(self.stretch, begins, [PIECE] * len(begins)))
        return b" ".join(whole.split(b" ")[:num_words])

    def titles(self) -> Iterator[bytes]:
        """`id title`: the last words of the first piece."""
        return numbered(self.stretches(self.first + PIECE - TITLE_WORDS, TITLE_WORDS))

    def queries(self, split: str) -> Iterator[bytes]:
        """`id text`; the ids of a split are its own."""
        first = self.first[self.relevant[split]]
        begin = 10_000_000 * [*msmarco.SPLITS].index(split)
        return numbered(self.stretches(first, PIECE), begin=begin)

    def qrels(self, split: str) -> Iterator[bytes]:
        """`query 0 passage grade`; some queries have two relevant passages, or more."""
        begin = 10_000_000 * [*msmarco.SPLITS].index(split)
        judged, count = self.judged[split], self.rows[msmarco.SPLITS[split][1]]
        for row in range(count):
            query, turn = row % judged, row // judged
            passage = (int(self.relevant[split][query]) + turn) % self.num_passages
            yield b"%d\t0\t%d\t1" % (begin + query, passage)

    def triples(self) -> Iterator[bytes]:
        """`query positive negative`."""
        relevant = self.relevant["train"][: self.judged["train"]]
        for begin in range(0, self.num_triples, AT_ONCE):
            query = self.draw.integers(0, len(relevant), min(AT_ONCE, self.num_triples - begin))
            negative = self.draw.integers(0, self.num_passages, len(query))
            for row in zip(query.tolist(), relevant[query].tolist(), negative.tolist(), strict=True):
                yield b"%d\t%d\t%d" % row

    def stretches(self, first: np.ndarray, num_words: int) -> Iterator[bytes]:
        """`num_words` words each, from the word `first` on."""
        return (self.stretch(begin, num_words) for begin in first.tolist())

    def stretch(self, first: int, num_words: int) -> bytes:
        """The text from a word on."""
        return self.text[self.begins[first] : self.begins[first + num_words] - 1]


def numbered(texts: Iterable[bytes], *, begin: int = 0) -> Iterator[bytes]:
    for number, text in enumerate(texts, begin):
        yield b"%d\t%s" % (number, text)


def write_lines(path: Path, lines: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        pour(lines, file.write)


def zipped(path: Path, lines: Iterator[bytes]) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        pour(lines, file.write)


def packed(path: Path, members: dict[str, Iterator[bytes]]) -> None:
    with (
        TemporaryDirectory(dir=path.parent) as folder,
        tarfile.open(path, "w:gz", compresslevel=1) as archive,
    ):
        for name, lines in members.items():
            write_lines(Path(folder, name), lines)
            archive.add(Path(folder, name), name)
            Path(folder, name).unlink()


def pour(lines: Iterator[bytes], write: Callable[[bytes], object]) -> None:
    while some := list(islice(lines, AT_ONCE)):
        write(b"\n".join(some) + b"\n")


if __name__ == "__main__":
    program.run(main)
