"""Jobs: what a rule hands to its program, as one file, and how a program runs it.

A rule states inputs, outputs and settings by name. The workflow writes them as a JSON file, and the program
gets its path: `python workflow_scripts/encode.py JOB.json`. Such a file can also be written by hand:

    {"rule": "subset", "wildcards": {"dataset": "mine", "variant": "n100-seed1"},
     "settings": {"train_queries": 100, "seed": 1},
     "input": {"queries": "results/mine/data/queries.train.jsonl"},
     "output": {"ids": "hundred.txt", "manifest": "hundred.txt.manifest.json"}}
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from condenser import kinds, program
from condenser.blocks import (
    Audit,
    Compute,
    Encode,
    Extracted,
    Extraction,
    Generated,
    Metrics,
    Notes,
    Report,
    Significance,
    TermWeights,
    recipe_class,
)
from condenser.files import atomic_write, json_bytes, sha256_text
from condenser.manifest import SUFFIX, Manifest
from condenser.nouns import PartlyJudgedTexts, Pretraining, System
from condenser.settings import Block, Lengths, Settings, partly
from condenser.shards import encoder_files, prefix_of, shard_files

KEPT_AFTER_JOB = ("log.jsonl",)  # files of the work folder that remain when the job has ended

_OF_SPEC = ("code", "versions", "lineage", "contents")


KINDS = {  # what names the kind of an entry, and where the kinds are
    "dataset": ("source", "data/sources"),
    "model": ("objective", "objectives"),
    "system": ("kind", "systems"),
}
BLOCKS: dict[str, type[Block]] = {
    **{"dataset": PartlyJudgedTexts, "model": Pretraining, "system": System},
    **{"compute": Compute, "encode": Encode, "metrics": Metrics, "significance": Significance},
    **{"lengths": Lengths, "audit": Audit, "notes": Notes, "report": Report},
    **{"query_set": Extracted, "extraction": Extraction, "term_weights": TermWeights},
    **{"generated": Generated},
}


class MissingName(ValueError, AttributeError):
    """A job lacks what its program needs."""


class Named:
    """Values by name, as attributes."""

    def __init__(self, values: Mapping[str, Any], *, noun: str) -> None:
        self.__dict__.update(values)
        self._noun = noun

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(key for key in self.__dict__ if key != "_noun") or "none"
        raise MissingName(f"job: expected an {self.__dict__.get('_noun')} {name}, got {known}.")


class Job:
    """One job of a rule.

    Attributes:
        rule: the rule's name, which is also the name of its program.
        wildcards: the values in the paths of its outputs.
        settings: the part of the configuration that its result depends on, block by block.
        input: files by name: a path, or a list of paths, which is empty where this job has none.
        output: the same of what it writes.
        options: values that change no result, such as how often a checkpoint is saved.
        device: on what it computed; the program sets it.
    """

    def __init__(self, written: Mapping[str, Any]) -> None:
        self.rule: str = written["rule"]
        self.wildcards: dict[str, str] = written.get("wildcards", {})
        self.settings = settings_of(written.get("settings", {}))
        self.input = Named(_paths(written.get("input", {})), noun="input")
        self.output = Named(_paths(written.get("output", {})), noun="output")
        self.options = Named(written.get("options", {}), noun="option")
        self.device = "cpu"
        self.outputs = _whole(_flat(written.get("output", {}), without="manifest"), is_output=True)
        self._work = Path(written["work"]) if "work" in written else None
        self._inputs = _whole(_flat(written.get("input", {})), is_output=False)
        self.spec: dict[str, Any] = {
            "rule": self.rule,
            "wildcards": self.wildcards,
            "config": written.get("settings", {}),
            **{name: written[name] for name in _OF_SPEC if name in written},
        }

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the result; where another process makes the same, this waits for its end."""
        claims = self._work.parent / "claims" if self._work else None
        return Manifest(self.output.manifest, self.spec, inputs=self._inputs, claims=claims)

    @cached_property
    def work_folder(self) -> Path:
        """The folder of partial work, which a later process with the same spec and inputs resumes."""
        if self._work is None:
            self._work = Path(f"{self.output.manifest}.work")
        return self.manifest.own_folder(self._work)

    def reads(self, files: Sequence[Path]) -> None:
        """Name further inputs, which no rule can know."""
        self.manifest.add_inputs(files)

    def finish(self, counts: dict[str, Any]) -> None:
        """Write the manifest, then remove partial work."""
        kept_by = vars(self.options).get("kept_by")
        self.manifest.write(outputs=self.outputs, counts=counts, device=self.device, kept_by=kept_by)
        if self._work is not None and self._work.exists():
            _remove_partial_work(self._work)


def settings_of(written: Mapping[str, Any]) -> Settings:
    """The settings of a job by the classes that declare them, with the keys that the job depends on."""
    made: dict[str, Any] = {}
    for name, value in written.items():
        if name in ("dataset", "model", "system"):
            tag, folder = KINDS[name]
            kind = value.get(tag)  # absent where the job depends on single keys of the entry
            block = kinds.load(folder, kind).Settings if kind else BLOCKS[name]
            made[name] = partly(block, value)
        elif name == "recipe":
            made[name] = partly(recipe_class(value), value)
        elif name in BLOCKS and isinstance(value, Mapping):
            made[name] = partly(BLOCKS[name], value)
        else:
            made[name] = Settings(**value) if isinstance(value, Mapping) else value
    return Settings(**made)


Main = Callable[["Job"], dict[str, Any] | None]
"""What a program does; gives what it counted."""

Launch = Callable[..., int | None]
"""`condenser.train.launch.launch`, by which a program becomes several processes."""


def run_job(main: Main, *, launch: Launch | None = None) -> None:
    """Run the program of a rule: read its job, do it, write the manifest.

    With `launch` it runs once on each GPU that the job has.
    """
    program.run(lambda: _run(main, launch))


def _run(main: Main, launch: Launch | None) -> None:
    name = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(
        prog=f"python workflow_scripts/{name}.py",
        description=sys.modules[main.__module__].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    place = f".snakemake/jobs/{name}-*.json"
    parser.add_argument("job", type=Path, metavar=place, help="a file as the workflow writes it")
    job = read_job(parser.parse_args().job)
    if launch is not None and "RANK" not in os.environ:
        device = job.settings.compute.device
        status = launch(sys.argv, processes=vars(job.options).get("processes", 1), device=device)
        if status is not None:
            sys.exit(status)
    do_job(job, main)


def do_job(job: Job, main: Main) -> None:
    """Do a job in this process, and write its manifest if it has one."""
    if "manifest" not in vars(job.output):
        main(job)
        return
    with job.manifest:  # refuses damaged inputs before anything is computed
        counts = main(job)
        if os.environ.get("RANK", "0") == "0":
            assert counts is not None
            job.finish(counts)


def read_job(file: Path) -> Job:
    """The job in a file.

    Raises:
        ValueError: the file is no job.
    """
    try:
        return Job(json.loads(file.read_bytes()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{file}: expected a job as JSON, with rule, input and output, got {error!r}. "
            "condenser/job.py shows one."
        ) from error


def write_job(folder: Path, written: Mapping[str, Any]) -> Path:
    """Write a job for its program; the same job has the same file.

    It is not forced to the disk, which would take long for thousands; one that was cut off is written anew.
    """
    content = json_bytes(dict(written))
    file = folder / f"{written['rule']}-{sha256_text(content.decode())[:16]}.json"
    if not file.exists() or file.stat().st_size != len(content):
        with atomic_write(file, is_synced=False) as opened:
            opened.write(content)
    return file


def _paths(files: Mapping[str, str | list[str]]) -> dict[str, Any]:
    return {
        name: Path(given) if isinstance(given, str) else list(map(Path, given))
        for name, given in files.items()
    }


def _flat(files: Mapping[str, str | list[str]], without: str = "") -> list[Path]:
    """All files, without manifests: a job that is run again takes another time, and makes nothing stale."""
    lists = [[given] if isinstance(given, str) else given for name, given in files.items() if name != without]
    given = [file for given in lists for file in given]
    return [Path(file) for file in given if not file.endswith(SUFFIX)]


def _whole(files: Sequence[Path], *, is_output: bool) -> list[Path]:
    """With each file what belongs to it: to weights the model's folder, to tokens the other two arrays.

    Of an input with two encoders only that of passages; a job that reads the other says so (`Job.reads`).
    """
    found: dict[Path, None] = {}
    for file in files:
        if file.name == "model.safetensors" and not is_output:
            found.update(dict.fromkeys(encoder_files(file.parent)))
        elif file.name == "model.safetensors":
            found[file.parent] = None
        elif file.name.endswith(".tokens.npy"):
            found.update(dict.fromkeys(shard_files(prefix_of(file))))
        else:
            found[file] = None
    return list(found)


def _remove_partial_work(folder: Path) -> None:
    """Remove partial work, but not the log of a training."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name not in KEPT_AFTER_JOB:
            path.unlink()
    if not any(folder.iterdir()):
        shutil.rmtree(folder)
