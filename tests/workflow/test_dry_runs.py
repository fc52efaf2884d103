"""Dry runs: offline, at the papers' scale, and with a configuration that is wrong."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.workflow


def snakemake(root: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A dry run of the real Snakefile in an empty folder."""
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments, "--snakefile", str(root / "Snakefile"), "-n"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_bytes((root / "config.yaml").read_bytes())
    return tmp_path


def jobs(said: str) -> dict[str, int]:
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", said, flags=re.MULTILINE)}


def test_the_default_target_is_table_2_of_msmarco(root: Path, folder: Path) -> None:
    done = snakemake(root, folder)
    assert done.returncode == 0, done.stdout
    assert jobs(done.stdout)["table2"] == 1
    assert jobs(done.stdout)["retriever"] == 4


def test_the_papers_scale_is_planned_offline_with_its_official_files(root: Path, folder: Path) -> None:
    done = snakemake(
        root, folder, "results/msmarco/table2.tsv", "--configfile", str(root / "configs" / "paper.yaml")
    )
    assert done.returncode == 0, done.stdout
    counted = jobs(done.stdout)
    assert counted["collect_wikibook"] == counted["pretrain_condenser"] == counted["triple_examples"] == 1
    assert counted["tokens"] == 128 and counted["encode"] == 256
    for name in ("collectionandqueries.tar.gz", "marco.tar.gz", "qidpidtriples.train.full.2.tsv.gz"):
        assert f"results/downloads/{name}" in done.stdout
    assert "results/wikibook/models/condenser/model.safetensors" in done.stdout
    assert "results/msmarco/examples/triples.jsonl" in done.stdout


def test_five_hundred_shards_are_planned_in_seconds(root: Path, folder: Path) -> None:
    (folder / "overlay.yaml").write_text("tokens: {shards: 500}\nencode: {shards: 500}\n")
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    done = snakemake(
        root, folder, "results/msmarco/table2.tsv", "--quiet", "all",
        "--configfile", str(root / "configs" / "paper.yaml"), "overlay.yaml",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    seconds = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before
    assert seconds < 30  # of a processor: 9 as it is, 100 were each encoding to list all token shards


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ("condenser: {lr: 1}", "condenser.lr: unknown key"),
        ("condenser: {learning_rate: 1e-4}", "write 1.0e-4"),
        ("datasets: {mine: {source: beir, path: nowhere}}", "datasets.mine.path: expected a folder"),
        ("datasets: {mine: {source: tsv, path: .}}", "datasets.mine.path: expected the file collection.tsv"),
        ("seed: !!python/name:os.system", "overlay.yaml:1: expected settings, got a tag that calls Python"),
        ("a: [1\nb: 2", "overlay.yaml:2: expected YAML or JSON: expected ',' or ']'"),
    ],
)
def test_a_wrong_configuration_is_one_line_and_a_bad_status(
    root: Path, folder: Path, overlay: str, message: str
) -> None:
    (folder / "overlay.yaml").write_text(overlay)
    done = snakemake(root, folder, "--configfile", "overlay.yaml")
    assert done.returncode != 0
    lines = [line for line in done.stdout.splitlines() if "error: config:" in line]
    assert len(lines) == 1 and message in lines[0]
    assert "Traceback" not in done.stdout


def test_a_configuration_that_calls_python_is_refused_uncalled(root: Path, folder: Path) -> None:
    (folder / "overlay.yaml").write_text("seed: !!python/object/apply:os.mkdir [called]\n")
    done = snakemake(root, folder, "--configfile", "overlay.yaml")
    assert done.returncode != 0
    assert "expected settings, got a tag that calls Python" in done.stdout and "Traceback" not in done.stdout
    assert not (folder / "called").exists()


@pytest.mark.parametrize(
    "switch",
    [
        "__use_yte__: true",
        r'"__use\x5fyte__": true',
        "<<: {__use_yte__: true}",
        "? !!python/name:condenser.pipeline.overlays._SWITCH ''\n: true",
    ],
)
@pytest.mark.parametrize("profile", ["default", "multi-gpu", "slurm", "generic"])
def test_an_overlay_that_is_a_template_is_refused_unrun(
    root: Path, folder: Path, switch: str, profile: str
) -> None:
    (folder / "overlay.yaml").write_text(f"{switch}\nseed: ?__import__('os').mkdir('called') or 1\n")
    profile_folder = str(root / "profiles" / profile)
    done = snakemake(root, folder, "--configfile", "overlay.yaml", "--workflow-profile", profile_folder)
    assert done.returncode != 0
    lines = [line for line in done.stdout.splitlines() if "error: config: overlay.yaml:" in line]
    assert len(lines) == 1 and "expected settings, got a t" in lines[0]
    assert "Traceback" not in done.stdout and not (folder / "called").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "overlay.yaml: No such file"), (b"seed: \xe9", "overlay.yaml: expected UTF-8, got")],
)
def test_an_overlay_that_cannot_be_read_is_one_line(
    root: Path, folder: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        (folder / "overlay.yaml").write_bytes(content)
    done = snakemake(root, folder, "--configfile", "overlay.yaml")
    assert done.returncode != 0
    lines = [line for line in done.stdout.splitlines() if "error: config:" in line]
    assert len(lines) == 1 and message in lines[0] and "Traceback" not in done.stdout


def test_an_overlay_that_is_a_template_makes_nothing_without_our_profiles(root: Path, folder: Path) -> None:
    (folder / "overlay.yaml").write_text("__use_yte__: true\nseed: ?40 + 2\n")
    done = snakemake(root, folder, "--configfile", "overlay.yaml", "--workflow-profile", "none")
    assert done.returncode != 0 and "Traceback" not in done.stdout
    assert "expected settings, got a template" in done.stdout
