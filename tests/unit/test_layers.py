"""Imports go one way (docs/architecture.md), and a configuration is read without torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from source_code import imports, imports_at_once, tree_of

# The ground, from below: each may import those before it.
GROUND = [
    *("settings", "variants", "blocks", "kinds", "nouns", "files", "encoders", "progress", "commands"),
    *("program", "shards", "manifest", "job"),
]
# What each other room may import besides, in all of a file, and in its functions alone.
MAY_IMPORT = {
    "data": {"data"},
    "model": {"model"},
    "loss": {"loss"},
    "train": {"train", "data", "model", "loss"},
    "retrieve": {"retrieve", "data", "model"},
    "evaluate": {"evaluate", "data"},
    "export": {"export", "data", "model", "retrieve", "evaluate"},
    "objectives": {"objectives"},
    "papers": {"papers", "data", "model", "loss", "train", "retrieve", "evaluate"},
    "systems": {"systems"},
    "shown": {"data", "evaluate"},
    "config": {"config", "shown", "data", "evaluate", "objectives", "systems"},
    "report": {"report", "data", "evaluate", "pipeline"},
    "live": {"live", "data", "model", "retrieve"},
    "notebook": {"live", "pipeline"},
    "pipeline": {"pipeline", "shown", "papers", "data", "evaluate", "objectives", "systems", "live"},
}
MAY_IMPORT_IN_FUNCTIONS = {
    "objectives": {"data", "model", "loss", "train", "papers"},  # an LSTM
    "systems": {"data", "model", "loss", "train", "retrieve"},
    "shown": {"objectives"},  # of a checkpoint, what it is called and read from
    "live": {"evaluate"},  # what judgements show
    "notebook": {"data", "model", "retrieve", "train"},
    "manifest": {"pipeline"},  # digests of the code that runs
}


def rooms(names: set[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.startswith("condenser.")}


def calls(file: Path) -> list[str]:
    """The calls of functions in a file."""
    return [ast.unparse(node) for node in ast.walk(tree_of(file)) if isinstance(node, ast.Call)]


def package_files(root: Path) -> list[Path]:
    return sorted((root / "condenser").rglob("*.py"))


def test_each_room_imports_only_what_it_may(root: Path) -> None:
    seen = set()
    for file in package_files(root):
        room = file.relative_to(root / "condenser").parts[0].removesuffix(".py")
        below = GROUND[: GROUND.index(room)] if room in GROUND else GROUND
        allowed = MAY_IMPORT.get(room, set()) | set(below)
        tree = tree_of(file)
        found, lazily = rooms(imports_at_once(tree)), rooms(imports(tree))
        assert found <= allowed, f"{file.relative_to(root)} imports {found - allowed}"
        allowed |= MAY_IMPORT_IN_FUNCTIONS.get(room, set())
        assert lazily <= allowed, f"{file.relative_to(root)} imports {lazily - allowed} in a function"
        seen |= lazily
    assert seen == {*GROUND, *MAY_IMPORT} - {"notebook"}  # which users import


CHECK = """
import sys, yaml
import numpy as np
from pathlib import Path
from condenser import kinds
from condenser.config import validated
from condenser.data import sources
from condenser.evaluate import measures, published
from condenser.pipeline import costs, environment, freshness, known, locks, specs, verify
from condenser.report import state
for folder in ("data/sources", "objectives", "systems", "evaluate/measures", "evaluate/figures"):
    for name in kinds.names(folder):
        kinds.load(folder, name)
config = validated(yaml.safe_load(Path("config.yaml").read_text()))
sources.check_local_files(config.datasets)
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""


def test_reading_the_configuration_imports_nothing_that_takes_long(root: Path) -> None:
    """Snakemake does so in every job that it starts."""
    done = subprocess.run([sys.executable, "-c", CHECK], cwd=root, capture_output=True, text=True, check=True)
    slow = {
        *("torch", "transformers", "pandas", "matplotlib", "scipy", "sklearn", "faiss", "datasets"),
        *("pyserini", "requests"),
    }
    assert set(done.stdout.split()) & slow == set()


PICKLES = ["pickle", "torch.save", "torch.load", "allow_pickle=True", "shelve", "joblib"]


def test_no_pickle_is_written_or_read(root: Path) -> None:
    """But for the tensors of a checkpoint, by PyTorch's reader that makes nothing else."""
    weights = root / "condenser" / "model" / "weights.py"
    for file in {*package_files(root), *(root / "workflow_scripts").glob("*.py")} - {weights}:
        assert not [call for call in calls(file) if any(one in call for one in PICKLES)], file
        assert not imports(tree_of(file)) & {*PICKLES}, file
    loads = [call for call in calls(weights) if call.startswith("torch.load")]
    assert loads == ["torch.load(file, map_location='cpu', weights_only=True)"]
