"""README and docs speak of what is there: files, links, rules and keys of the configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from condenser.config import validated
from condenser.settings import merged

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = "benchmarks|condenser|configs|docs|envs|profiles|rules|tests|workflow_scripts"
TEXTS = {".py", ".smk", ".tsv", ".yaml"}
PAGES = sorted(
    page
    for folder in ("", "docs", "docs/studies/**", "configs")
    for page in ROOT.glob(f"{folder}/*.md".lstrip("/"))
)


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as a viewer of Markdown makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_links_and_rules_that_a_page_names_exist(root: Path, page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(rf"(?<![\w/.-])(?:{FOLDERS})/[\w/.-]*[\w/]", text))
    roots = [root, root / "docs/examples"] if page.name == "extending.md" else [root]
    missing = {
        path for path in named if "NAME" not in path and not any((top / path).exists() for top in roots)
    }
    for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        target = page.parent / link if link else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.add(f"{link}#{anchor}")
    assert not missing
    rules = "\n".join(file.read_text() for file in root.glob("rules/**/*.smk"))
    for name in re.findall(r"\b(\w+):(?:gpu|mem_mb|runtime)=", text):
        assert f"\nrule {name}:" in rules


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "extending.md"],  # its blocks need its files: test_extending.py
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_overlays_of_a_page_are_valid(
    root: Path, written: dict[str, Any], tmp_path: Path, page: Path
) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), flags=re.M | re.S)
    blocks += [
        Path(root, name).read_text() for name in re.findall(r"docs/studies/\w+/\w+\.yaml", page.read_text())
    ]
    for block in blocks:
        # an overlay that its own command puts behind others
        below = re.search(r"--configfile configs/\{?([\w,]+)\}?\.yaml docs/studies/", block)
        names = below[1].split(",") if below else []
        texts = [*((root / f"configs/{name}.yaml").read_text() for name in names), block]
        config = written
        for text in texts:
            config = merged(config, yaml.safe_load(re.sub(r"\.\./my/\w+|/data/mirror", str(tmp_path), text)))
        validated(config)


def test_pages_that_code_and_configuration_name_exist(root: Path) -> None:
    folders = ["benchmarks", "condenser", "configs", "profiles", "rules", "tests", "workflow_scripts"]
    files = [file for folder in folders for file in (root / folder).rglob("*") if file.suffix in TEXTS]
    files += [root / name for name in ("config.yaml", "pyproject.toml", "Snakefile", "Makefile")]
    named = {(str(file), name) for file in files for name in re.findall(r"docs/\w+\.md", file.read_text())}
    assert len({name for _, name in named}) > 3
    assert not {(file, name) for file, name in named if not (root / name).exists()}


def test_no_page_holds_the_markers_of_an_unfinished_merge(root: Path) -> None:
    assert not [page.name for page in PAGES if re.search(r"^(<{7}|={7}|>{7})( |$)", page.read_text(), re.M)]
