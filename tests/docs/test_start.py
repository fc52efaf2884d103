"""The journeys of docs/start.md: their commands run as they stand, and print what the page shows in form."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from runs import checkout, environment

from condenser.data.judged import Judgements
from condenser.data.own_texts import note_judged
from condenser.files import read_json
from condenser.settings import merged

pytestmark = [pytest.mark.ci, pytest.mark.timeout(900)]
HIT = re.compile(r"^ {1,3}\d+ +-?\d+\.\d{4}  \S+", re.M)
Make = Callable[[str], str]


def blocks_of(root: Path, heading: str, language: str = "") -> list[str]:
    """The code blocks of a journey."""
    page = (root / "docs" / "start.md").read_text()
    _, _, journey = page.partition(f"\n## {heading}\n")
    journey = journey.partition("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", journey, flags=re.M | re.S)
    return [block for name, block in blocks if name == language]


def commands_of(root: Path, heading: str) -> list[str]:
    blocks = "".join(blocks_of(root, heading))
    return [line for line in blocks.splitlines() if line.startswith("make ")]


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Path:
    """A checkout as a user has it, with texts of the user's beside it."""
    folder = checkout(root, tmp_path / "workflow")
    shutil.copy(root / "Makefile", folder)
    (folder / ".venv").symlink_to(root / ".venv")
    return folder


@pytest.fixture
def make(folder: Path) -> Make:
    """Runs a command of the page in the checkout, without setting up .venv; gives what it printed."""

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command.replace("make ", "make -o .venv/ready ", 1)],
            cwd=folder,
            env={**environment(), "CORES": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}"
        return done.stdout

    return run


def test_texts_alone_are_indexed_searched_judged_and_kept_fresh(root: Path, folder: Path, make: Make) -> None:
    notes = folder.parent / "my" / "notes"
    notes.mkdir(parents=True)
    (notes / "salt.md").write_text("# Salt\n\nSalt dissolves in water.\n")
    (notes / "air.txt").write_text("People breathe out carbon dioxide, a gas.\n")
    (notes / "picture.png").write_bytes(b"\x89PNG\0")
    index, search, table = commands_of(root, "Texts only")
    printed = make(index)
    assert "2 texts" in printed and "1 of another kind than .txt and .md (picture.png)" in printed
    assert "make search DATASET=notes" in printed
    answer = make(search)
    assert HIT.search(answer) and "air.txt" in answer
    # nothing changed: the second time nothing is made
    before = sorted((file, file.stat().st_mtime_ns) for file in folder.glob("results/notes/**/*.npy"))
    make(index)
    assert before == sorted((file, file.stat().st_mtime_ns) for file in folder.glob("results/notes/**/*.npy"))

    texts = folder / "results" / "notes" / "texts"
    judged = Judgements(texts)
    judged.add(["what gas do people breathe out", "what does salt do in water"])
    for query, relevant in (("j1", "air.txt"), ("j2", "salt.md")):
        judged.pool(query, {"hybrid": ["air.txt", "salt.md"]})
        judged.grade(query, {doc: int(doc == relevant) for doc in ("air.txt", "salt.md")})
    note_judged(texts)
    printed = " ".join(make(table).split())
    assert "notes: 2 passages, 2 queries" in printed and "has the highest MRR@10 (1.000" in printed
    assert "The judgements of judged are of the first 10 hits of hybrid, pooled" in printed
    assert "not relevant: bm25 0 %, backbone-zeroshot 0 %, late 0 %, hybrid 0 %." in printed

    (notes / "iron.md").write_text("# Iron\n\nIron rusts in damp air.\n")
    assert "Passages that were encoded before are copied" in make(index)
    (manifest,) = folder.glob("results/notes/systems/backbone-zeroshot/**/collection.*.manifest.json")
    assert {"rows": 3, "rows_copied": 2}.items() <= read_json(manifest)["counts"].items()
    assert "iron.md" in make(search)
    (notes / "salt.md").unlink()  # a judged text
    make(index)
    printed = " ".join(make(table).split())
    assert "Left out as bad rows: 2 judgements of judged" in printed


def test_with_labels_rankings_are_compared_and_the_best_is_named(
    root: Path, folder: Path, make: Make
) -> None:
    """With the settings of configs/tiny.yaml; the commands and the overlay are those of the page."""
    shutil.copytree(root / "tests" / "data" / "tiny", folder.parent / "my" / "collection")
    qrels = folder.parent / "my" / "collection" / "qrels"
    shutil.copy(qrels / "dev.tsv", qrels / "test.tsv")
    (overlay,) = blocks_of(root, "With labels", "yaml")
    small = yaml.safe_load((root / "configs" / "tiny.yaml").read_text())
    small.pop("datasets")
    (folder / "mine.yaml").write_text(yaml.safe_dump(merged(small, yaml.safe_load(overlay))))
    plain, best, report, search = commands_of(root, "With labels")
    for command in (plain, best):
        printed = make(command)
        assert re.search(r"highest MRR@10 \(\.\d{3}", printed)
        assert "the smallest difference that" in " ".join(printed.split()) or "no difference" in printed
        assert 'QUERY="..."' in printed
    make(report)
    assert (folder / "results" / "mine" / "report.html").stat().st_size > 10_000
    assert HIT.search(make(search))
    assert (folder / "results/mine/systems/retriever/seed42/model/model.safetensors").is_file()


def test_the_papers_are_planned(root: Path, make: Make) -> None:
    (*_, dry_run) = commands_of(root, "With a GPU")
    assert "SNAKEMAKE_ARGS=-n" in dry_run
    assert "By the plan about" in make(dry_run)
