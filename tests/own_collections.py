"""Small collections of a user's own, in the two forms that are read, with files that may be replaced."""

from __future__ import annotations

from pathlib import Path

SPLITS = {"train_split": "train", "eval_split": "dev"}


def write_tsv(folder: Path, **files: str | bytes) -> dict:
    """A folder in MS MARCO's plain form; files given by name with `_` for `.` replace the good ones."""
    content: dict[str, str | bytes] = {
        "collection_tsv": "d1\tfirst text\nd2\tsecond text\nd3\tthird text\n",
        "queries_train_tsv": "q1\tfirst?\nq2\tsecond?\n",
        "queries_dev_tsv": "q3\tthird?\n",
        "qrels_train_tsv": "q1 0 d1 1\nq2 0 d2 1\n",
        "qrels_dev_tsv": "q3\t0\td3\t1\n",
    } | files
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / name.replace("_", ".")).write_bytes(data)
    return {"source": "tsv", "path": str(folder), "bad_rows": "strict", **SPLITS}


def write_beir(folder: Path, **files: str | bytes) -> dict:
    content = {
        "corpus.jsonl": '{"_id": "d1", "title": "T", "text": "one"}\n{"_id": "d2", "text": "two"}\n',
        "queries.jsonl": '{"_id": "q1", "text": "1?", "answers": ["one"]}\n{"_id": "q2", "text": "2?"}\n'
        '{"_id": "q3", "text": "of no split"}\n',
        "qrels/train.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
        "qrels/dev.tsv": "query-id\tcorpus-id\tscore\nq2\td2\t2\nq2\td1\t0\n",
    } | files
    for name, text in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return {"source": "beir", "path": str(folder), "bad_rows": "strict", **SPLITS}


def files_of(folder: Path, *without: str) -> dict[str, bytes]:
    """The files of a collected data set by name, without its counts and those named."""
    left_out = {"counts.json", *without}
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name not in left_out}
