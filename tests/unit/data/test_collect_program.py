"""The program `collect` as its rule starts it, on a user's own folder: strict, and with bad rows skipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bad_rows import rejected_rows
from job_files import job_file
from own_collections import write_tsv

from condenser.files import sha256_file
from configs import sources


def collected(
    root: Path, folder: Path, described: dict, *, bad_rows: str
) -> subprocess.CompletedProcess[str]:
    made = [
        "collection.jsonl",
        "doc_ids.txt",
        "rejected.jsonl",
        "counts.json",
        *sources.split_files(described),
    ]
    job = job_file(
        folder / "job.json",
        "collect",
        settings={"dataset": described | {"bad_rows": bad_rows}},
        input={"downloads": [], "files": sources.local_files(described)},
        output={
            "files": [folder / "data" / name for name in made],
            "manifest": folder / "data.manifest.json",
        },
    )
    return subprocess.run(
        [sys.executable, str(root / "workflow_scripts" / "collect.py"), job],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


def test_a_bad_row_is_one_line_and_nothing_made_or_is_skipped_and_listed(root, tmp_path):
    described = write_tsv(
        tmp_path / "in",
        collection_tsv="d1\tfirst\nno tab\nd2\tsecond\nd3\tthird\n",
        qrels_train_tsv="q1 0 d1 1\nq1 0 d7 1\nq2 0 d2 1\n",
    )
    done = collected(root, tmp_path, described, bad_rows="strict")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"error: {tmp_path}/in/collection.tsv:2: expected 2 tab-separated columns (id, text), got 1 in "
        "'no tab'. Is it tab-separated, without tabs inside the text? bad_rows: skip leaves it out."
    )
    assert done.stderr.count("error") == 1 and "Traceback" not in done.stderr
    assert list((tmp_path / "data").iterdir()) == [] and not (tmp_path / "data.manifest.json").exists()

    done = collected(root, tmp_path, described, bad_rows="skip")
    assert done.returncode == 0, done.stderr
    rejected = [(row["file"], row["line"]) for row in rejected_rows(tmp_path / "data")]
    assert rejected == [("collection.tsv", 2), ("qrels.train.tsv", 2)]
    manifest = json.loads((tmp_path / "data.manifest.json").read_text())
    assert manifest["counts"] == json.loads((tmp_path / "data" / "counts.json").read_text())
    assert manifest["counts"]["rejected"] == 2
    assert {name: sha256_file(tmp_path / name) for name in manifest["outputs"]} == manifest["outputs"]
    assert {"data/rejected.jsonl", "data/counts.json"} <= set(manifest["outputs"])
