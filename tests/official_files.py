"""The papers' official files in miniature: the tiny collection in the form of each, as a mirror folder."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pyarrow
import pyarrow.parquet

from condenser.data.official import OFFICIAL_FILES, OfficialFile
from condenser.data.records import Passage
from condenser.data.sources import dpr, msmarco, msmarco_doc
from condenser.model.backbone import new_backbone
from tests.dpr_files import answers, context, passages, question, write

TRIPLES_OF_A_PAIR = 4


class Tiny:
    """The tiny collection with MS MARCO's ids; a passage's first two words answer its query."""

    def __init__(self, folder: Path) -> None:
        rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
        self.numbers = {row["_id"]: str(number) for number, row in enumerate(rows)}
        self.passages = [Passage(self.numbers[row["_id"]], row["title"], row["text"]) for row in rows]
        asked = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
        self.asked = {row["_id"]: row["text"] for row in asked}
        self.query_numbers = {query_id: str(1000 + number) for number, query_id in enumerate(self.asked)}
        lines = {one: (folder / "qrels" / f"{one}.tsv").read_text().splitlines() for one in ("train", "dev")}
        self.judged = {split: [row.split("\t")[:2] for row in rows[1:]] for split, rows in lines.items()}

    def queries(self, split: str) -> str:
        """`id<tab>text`."""
        ids = dict.fromkeys(query_id for query_id, _ in self.judged[split])
        return "".join(f"{self.query_numbers[one]}\t{self.asked[one]}\n" for one in ids)

    def judgements(self, split: str, *, prefix: str = "", between: str = "\t") -> str:
        """TREC's four columns; `prefix` stands before a passage's number."""
        rows = [
            (self.query_numbers[query_id], "0", prefix + self.numbers[doc_id], "1")
            for query_id, doc_id in self.judged[split]
        ]
        return "".join(between.join(row) + "\n" for row in rows)

    def answer(self, doc_id: str) -> list[str]:
        """The answers of the query of a passage."""
        return [" ".join(self.passages[int(self.numbers[doc_id])].text.split()[:2])]

    def others(self, doc_id: str) -> list[str]:
        """Numbers of the passages behind one."""
        number = int(self.numbers[doc_id])
        return [str((number + step) % len(self.passages)) for step in range(1, TRIPLES_OF_A_PAIR + 1)]


def write_mirror(tiny: Path, mirror: Path) -> None:
    """All that configs/paper.yaml and configs/qa.yaml fetch from a mirror.

    MS MARCO's passages, titles, triples and documents; TREC DL 2019; NQ and TriviaQA of DPR;
    bert-base-uncased with as many layers, but 24 wide.
    """
    mirror.mkdir(parents=True)
    texts = Tiny(tiny)
    _write_marco(texts, mirror)
    _write_documents(texts, mirror)
    _write_dpr(texts, mirror)
    shape = {"vocab_size": 600, "hidden_size": 24, "num_layers": 12, "num_heads": 2}
    new_backbone(
        mirror / "bert-base-uncased",
        seed=1,
        shape=shape | {"intermediate_size": 48, "max_positions": 512},
        texts=(text for one in texts.passages for text in (one.title, one.text)),
    )


def write_hub_texts(tiny: Path, folder: Path) -> None:
    """Wikipedia and BookCorpus in the hub's layout."""
    texts = [one.text for one in Tiny(tiny).passages]
    wikipedia, books = folder / "wikimedia/wikipedia/20231101.en", folder / "rojagtap/bookcorpus"
    for number in range(2):
        articles = [
            {"id": str(row), "url": "u", "title": f"Article {row}", "text": "\n\n".join(texts[row : row + 4])}
            for row in range(number * 4, len(texts), 8)
        ]
        _write_parquet(wikipedia / f"train-0000{number}-of-00002.parquet", articles)
    sentences = [{"text": sentence.lower()} for text in texts for sentence in text.split(". ")]
    _write_parquet(books / "train-00000-of-00001.parquet", sentences)


@contextmanager
def accepted(tiny: Path) -> Iterator[None]:
    """The sources take the small files, whose lengths and numbers of rows are others."""
    texts = Tiny(tiny)
    num_passages, (train, dev) = len(texts.passages), (len(texts.judged[split]) for split in ("train", "dev"))
    rows = dict.fromkeys(
        ("collection.tsv", "para.txt", "msmarco-docs.tsv.gz", "psgs_w100.tsv.gz"), num_passages
    )
    rows |= dict.fromkeys(("biencoder-nq-train.json.gz", "biencoder-trivia-train.json.gz"), train + 1)
    rows |= dict.fromkeys(("nq-test.qa.csv", "trivia-test.qa.csv.gz"), dev)
    rows |= {"2019qrels-pass.txt": 2 * dev, "2019qrels-docs.txt": 2 * dev}
    rows |= {"msmarco-test2019-queries.tsv.gz": dev + 1}
    for kind in ("queries", "qrels"):  # each query has one judgement
        rows |= {f"{kind}.train.tsv": train, f"msmarco-doctrain-{kind}.tsv.gz": train}
        rows |= {f"{kind}.dev.small.tsv": dev, f"msmarco-docdev-{kind}.tsv.gz": dev}
    unknown = {name: OfficialFile(file.url, None, None) for name, file in OFFICIAL_FILES.items()}
    with (
        mock.patch.dict(OFFICIAL_FILES, unknown),
        mock.patch.dict(msmarco.OFFICIAL_ROWS, rows),
        mock.patch.dict(msmarco_doc.OFFICIAL_ROWS, rows),
        mock.patch.dict(dpr.OFFICIAL_ROWS, rows),
        mock.patch.object(msmarco, "NUM_TRIPLES", TRIPLES_OF_A_PAIR * train),
    ):
        yield


def _write_marco(texts: Tiny, mirror: Path) -> None:
    collection = "".join(f"{one.doc_id}\t{one.text}\n" for one in texts.passages)
    of_splits = {
        f"{kind}.{name}.tsv": text(split)
        for kind, text in (("queries", texts.queries), ("qrels", texts.judgements))
        for split, name in (("train", "train"), ("dev", "dev.small"))
    }
    write_tar(mirror / "collectionandqueries.tar.gz", {"collection.tsv": collection, **of_splits})
    titles = "".join(f"{one.doc_id}\t{one.title}\n" for one in texts.passages if one.title)
    write_tar(mirror / "marco.tar.gz", {"marco/para.txt": collection, "marco/para.title.txt": titles})
    triples = "".join(
        f"{texts.query_numbers[query_id]}\t{texts.numbers[doc_id]}\t{other}\r\n"
        for query_id, doc_id in texts.judged["train"]
        for other in texts.others(doc_id)
    )
    topics = texts.queries("dev") + "9999\tone of the topics without judgements\n"
    write(mirror, {
        "qidpidtriples.train.full.2.tsv.gz": triples,
        "msmarco-test2019-queries.tsv.gz": topics,
        "2019qrels-pass.txt": _graded(texts, ""),
    })  # fmt: skip


def _graded(texts: Tiny, prefix: str) -> str:
    """TREC's judgements: the passage has grade 3, the next one 1."""
    return "".join(
        f"{texts.query_numbers[query_id]} Q0 {prefix}{number} {grade}\n"
        for query_id, doc_id in texts.judged["dev"]
        for number, grade in ((texts.numbers[doc_id], 3), (texts.others(doc_id)[0], 1))
    )


def _write_documents(texts: Tiny, mirror: Path) -> None:
    documents = "".join(
        f"D{one.doc_id}\thttps://example.org/{one.doc_id}\t{one.title}\t{one.text}\n"
        for one in texts.passages
    )
    files: dict[str, str] = {"msmarco-docs.tsv.gz": documents, "2019qrels-docs.txt": _graded(texts, "D")}
    for split in ("train", "dev"):
        files[f"msmarco-doc{split}-queries.tsv.gz"] = texts.queries(split)
        files[f"msmarco-doc{split}-qrels.tsv.gz"] = texts.judgements(split, prefix="D", between=" ")
    write(mirror, files)


def _write_dpr(texts: Tiny, mirror: Path) -> None:
    def questions(key: str) -> list[object]:
        asked = [
            question(
                texts.asked[query_id],
                texts.answer(doc_id),
                [context(texts.numbers[doc_id], key=key)],
                [context(other, key=key) for other in texts.others(doc_id)],
            )
            for query_id, doc_id in texts.judged["train"]
        ]
        return [*asked, question("without a positive", ["nothing"], [], [])]

    tested = answers(
        (texts.asked[query_id], texts.answer(doc_id)) for query_id, doc_id in texts.judged["dev"]
    )
    files: Mapping[str, str | list[object]] = {
        "psgs_w100.tsv.gz": passages((one.doc_id, one.text, one.title) for one in texts.passages),
        "biencoder-nq-train.json.gz": questions("passage_id"),
        "biencoder-trivia-train.json.gz": questions("psg_id"),
        "nq-test.qa.csv": tested,
        "trivia-test.qa.csv.gz": tested,
    }
    write(mirror, files)


def write_tar(path: Path, members: Mapping[str, str | bytes]) -> Path:
    """A tar.gz of these contents by name."""
    with tarfile.open(path, "w:gz") as archive:
        for name, given in members.items():
            content = given if isinstance(given, bytes) else given.encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def _write_parquet(file: Path, rows: list[dict[str, str]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
