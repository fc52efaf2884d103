"""Make the folders that the studies read, in BEIR's layout, from the files that their authors publish.

    python docs/studies/data/make.py squad dev-v1.1.json ../my/squad
    python docs/studies/data/make.py medquad MedQuAD ../my/medquad      # a clone of its repository

Compares each file with its digest in digests.tsv, and says what differs. README.md has origins and licences.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))

from condenser import program  # noqa: E402
from condenser.files import sha256_file  # noqa: E402

SQUAD_SPLITS = {
    "dev": {"1973_oil_crisis", "Amazon_rainforest", "Fresno,_California", "Sky_(United_Kingdom)", "Warsaw"},
    "test": {
        *("French_and_Indian_War", "Jacksonville,_Florida", "Newcastle_upon_Tyne", "Prime_number"),
        "Private_school",
    },
}

Rows = list[dict[str, Any]]
Judged = list[tuple[str, str, str]]  # split, query and passage


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collection", choices=["squad", "medquad"])
    parser.add_argument("origin", type=Path, help="SQuAD's dev-v1.1.json, or a clone of MedQuAD")
    parser.add_argument("folder", type=Path, help="a new folder")
    given = parser.parse_args(argv)
    if not given.origin.exists():
        raise ValueError(f"{given.origin}: no such file or folder.")
    made = squad(given.origin) if given.collection == "squad" else medquad(given.origin)
    write(given.folder, *made)
    with (HERE / "digests.tsv").open() as file:
        known = {row["file"]: row["sha256"] for row in csv.DictReader(file, delimiter="\t")}
    for name, digest in known.items():
        collection, _, rest = name.partition("/")
        if collection == given.collection:
            is_same = sha256_file(given.folder / rest) == digest
            print(f"{given.folder / rest}: {'as in the studies' if is_same else 'DIFFERS from the studies'}")


def write(folder: Path, passages: Rows, queries: Rows, judged: Judged) -> None:
    """Write the files of BEIR's layout."""
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", passages), ("queries", queries)):
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for split in ("train", "dev", "test"):
        lines = (f"{query}\t{passage}\t1" for of, query, passage in judged if of == split)
        text = "".join(f"{line}\n" for line in ("query-id\tcorpus-id\tscore", *lines))
        (folder / "qrels" / f"{split}.tsv").write_text(text)


def squad(file: Path) -> tuple[Rows, Rows, Judged]:
    """Paragraphs are passages; five articles are for dev, five for test, the others to train."""
    passages, queries, judged = Rows(), Rows(), Judged()
    articles = json.loads(file.read_text(encoding="utf-8"))["data"]
    for article in sorted(articles, key=lambda article: article["title"]):
        title = article["title"]
        split = next((name for name, titles in SQUAD_SPLITS.items() if title in titles), "train")
        for number, paragraph in enumerate(article["paragraphs"]):
            name, shown = f"{title}#{number}", title.replace("_", " ")
            passages.append({"_id": name, "title": shown, "text": paragraph["context"]})
            for asked in paragraph["qas"]:
                answers = [answer["text"] for answer in asked["answers"]]
                query = {"_id": asked["id"], "text": asked["question"], "answers": answers, "article": title}
                queries.append(query)
                judged.append((split, asked["id"], name))
    return passages, queries, judged


def medquad(clone: Path) -> tuple[Rows, Rows, Judged]:
    """An answer is a passage, once; a question is a query, once; medquad_splits.tsv has what is held out."""
    with (HERE / "medquad_splits.tsv").open() as file:
        splits = {row["document_or_query"]: row["split"] for row in csv.DictReader(file, delimiter="\t")}
    passages: dict[str, dict[str, Any]] = {}  # by text
    queries: dict[str, dict[str, Any]] = {}
    judged: dict[tuple[str, str, str], None] = {}
    for pair in answered(clone):
        answer = pair["answer"]
        passage = passages.setdefault(answer, {"_id": pair["id"], "title": "", "text": answer})
        split = splits.get(pair["id"]) or splits.get(pair["document"], "train")
        query = {"_id": pair["id"], "text": pair["question"], "qtype": pair["type"], "source": pair["source"]}
        query = queries.setdefault(pair["question"], {**query, "split": split})
        judged[query["split"], query["_id"], passage["_id"]] = None
    if not passages:
        raise ValueError(f"{clone}: expected the folders of MedQuAD with answers, found none. Clone it anew.")
    return [*passages.values()], [*queries.values()], [*judged]


def answered(clone: Path) -> Iterator[Mapping[str, str]]:
    """The questions of MedQuAD that have an answer, by folder, document and place."""
    folders = sorted(folder for folder in clone.iterdir() if folder.name[:1].isdigit() and folder.is_dir())
    for folder in folders:
        number = folder.name.partition("_")[0]
        for file in sorted(folder.glob("*.xml")):
            root = ElementTree.parse(file).getroot()
            document = f"{number}:{root.get('id')}"
            pairs = [*root.iter("QAPair")]
            is_unique = len({pair.get("pid") for pair in pairs}) == len(pairs)
            for place, pair in enumerate(pairs):
                question, answer = pair.find("Question"), one_line(pair.findtext("Answer"))
                again = "" if is_unique or place == 0 else f"~{place}"
                if question is not None and answer and (asked := one_line(question.text)):
                    yield {
                        "id": f"{document}-{pair.get('pid')}{again}", "document": document, "question": asked,
                        "type": question.get("qtype", ""), "source": folder.name, "answer": answer,
                    }  # fmt: skip


def one_line(text: str | None) -> str:
    """A text with single spaces."""
    return " ".join((text or "").split())


if __name__ == "__main__":
    program.run(main)
