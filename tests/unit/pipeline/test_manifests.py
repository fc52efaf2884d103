"""The table of the manifests' places is that of the rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from condenser.pipeline.manifests import MANIFESTS, manifest_path
from condenser.pipeline.stages import STAGES


def manifests_of_rules(root: Path) -> dict[str, str]:
    """By stage, which is the rule's name, or its program's where the rule is one of many."""
    found = {}
    for file in sorted((root / "rules").glob("*.smk")):
        for text in re.split(r"^ *rule\b", file.read_text(), flags=re.MULTILINE)[1:]:
            place = re.search(r'\bmanifest=f?"results/([^"]+)"', text)
            if place:
                programs = re.findall(r"\$PROGRAMS/(\w+)\.py", text)
                name = text.split(":")[0].strip() or programs[0]
                found[name] = place[1].replace("{name}", "{dataset}")  # a data set's own rule
    return found


def test_every_rule_writes_its_manifest_where_the_table_says(root: Path) -> None:
    assert manifests_of_rules(root) == MANIFESTS


def test_every_stage_has_a_place() -> None:
    assert set(MANIFESTS) == set(STAGES)


def test_a_place_is_given_without_dots_and_refused_where_a_wildcard_is_missing() -> None:
    wildcards = {"dataset": "../other", "on": ""}
    assert manifest_path(Path("results"), "plan", wildcards) == Path("other/plan.tsv.manifest.json")
    with pytest.raises(LookupError):
        manifest_path(Path("results"), "plan", {"dataset": "d"})
