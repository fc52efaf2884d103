"""The manifests behind a table as a Provenance Run Crate, and the comparison of a record with other results.

Source: RO-Crate 1.1, https://w3id.org/ro/crate/1.1, and the Provenance Run Crate profile 0.5 of Workflow Run
RO-Crate, https://w3id.org/ro/wfrun/provenance/0.5.
"""

from __future__ import annotations

import base64
import datetime
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condenser.files import atomic_write, canonical_json, json_bytes, read_json, sha256_text
from condenser.manifest import read_manifest, sound_record

RECORD = "record.json"
METADATA = "ro-crate-metadata.json"

# Stages whose bytes differ each time. Lucene gives each segment of an index a random id (runs on the index do
# not differ); the others record times, or rates of the machine.
OTHER_EACH_TIME = {"bm25_index", "crate", "figure", "plan"}

_CRATE = "https://w3id.org/ro/crate/1.1"
_CONTEXTS = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"]
_RUN_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/provenance/0.5": ("Provenance Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
_LICENSE = "https://spdx.org/licenses/Apache-2.0"

Entity = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    """A job that ran, as its manifest says; digests are SHA-256 by path from the working folder.

    `code` is a digest of the code digests of its spec.
    """

    manifest: Path
    stage: str
    wildcards: dict[str, str]
    inputs: dict[str, str]
    outputs: dict[str, str]
    wall_time_s: float
    finished: datetime.datetime
    versions: dict[str, str]
    code: str

    @property
    def name(self) -> str:
        return " ".join([self.stage, *self.wildcards.values()])


def read_runs(manifests: Iterable[Path]) -> list[Ran]:
    """What manifests say, in their order.

    Raises:
        ValueError: one is missing, or is not as its stage wrote it.
    """
    runs = []
    for path in manifests:
        try:
            record = read_manifest(path)
        except ValueError as error:
            raise ValueError(
                f"{path}: expected a sound manifest, got one that {error}. Run verify."
            ) from error
        raw = read_json(path)
        runs.append(
            Ran(
                path,
                record.spec["stage"],
                record.spec["wildcards"],
                _by_name(record.inputs),
                _by_name(record.outputs),
                raw["wall_time_s"],
                datetime.datetime.fromisoformat(raw["finished"]),
                record.spec["versions"],
                sha256_text(canonical_json(record.spec["code"]))[:16],
            )
        )
    return runs


def digest_of(jobs: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """One digest of the results of all jobs, each its stage and the digests of its outputs.

    The SHA-256 of the canonical JSON of [path, SHA-256] of every file, by path. The order of the jobs does
    not count, nor do times and machines; nor do files whose bytes differ each time.
    """
    files = {
        path: digest
        for stage, outputs in jobs
        if stage not in OTHER_EACH_TIME
        for path, digest in outputs.items()
    }
    return sha256_text(canonical_json(sorted(files.items())))


def record_of_runs(runs: Sequence[Ran]) -> dict[str, Any]:
    """What another machine compares with: the jobs in order, digests of their outputs, and one of all."""
    return {
        "digest": digest_of((run.stage, run.outputs) for run in runs),
        "jobs": [
            {
                "stage": run.stage,
                "wildcards": run.wildcards,
                "manifest": run.manifest.as_posix(),
                "outputs": run.outputs,
            }
            for run in runs
        ],
    }


def read_record(file: Path) -> dict[str, Any]:
    """The record of a crate, or of a file that was taken from one.

    Raises:
        ValueError: the file is neither, or its digest is not that of its jobs.
    """
    what = f"{file}: expected a crate of this workflow or the {RECORD} in one"
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                record = json.loads(archive.read(RECORD))
        else:
            record = read_json(file)
        digest = digest_of((job["stage"], job["outputs"]) for job in record["jobs"])
        said = record["digest"]
        _ = [(job["manifest"], job["wildcards"].values()) for job in record["jobs"]]
    except (ValueError, LookupError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{what}, got something else ({error}).") from error
    if said != digest:
        raise ValueError(f"{what}, got one whose digest is not that of its jobs. Copy it again.")
    return record


def first_difference(record: Mapping[str, Any]) -> str | None:
    """The first job of a record, in the order of the pipeline, whose results differ here; None if none does.

    Digests are those of the manifests here; `verify` checks that the files still have them.
    """
    for job in record["jobs"]:
        if job["stage"] in OTHER_EACH_TIME:
            continue
        name = " ".join([job["stage"], *job["wildcards"].values()])
        here = sound_record(Path(job["manifest"]))
        if here is None:
            return f"{name}: has no sound manifest here ({job['manifest']})"
        outputs = _by_name(here.outputs)
        for path in sorted({*outputs, *job["outputs"]}):
            if path not in outputs:
                return f"{name}: {path} is not here"
            if path not in job["outputs"]:
                return f"{name}: {path} is not in the record"
            if outputs[path] != job["outputs"][path]:
                return f"{name}: {path} has other bytes"
    return None


def write_crate(output: Path, runs: Sequence[Ran], *, table: Path, workflow: Path, title: str) -> str:
    """Write the crate of a table as a ZIP file; gives the digest of the run.

    It holds the table, its manifests, the record and the Snakefile. Other results are named by their digests
    (RFC 6920): models and embeddings are too large to be copied. Equal manifests give equal bytes.

    Args:
        runs: all jobs behind the table, in order; the last one made it.
        workflow: the Snakefile.
    """
    record = record_of_runs(runs)
    payload = {
        table.as_posix(): table.read_bytes(),
        "Snakefile": workflow.read_bytes(),
        RECORD: json_bytes(record),
        **{run.manifest.as_posix(): run.manifest.read_bytes() for run in runs},
    }
    metadata = _metadata(runs, table=table.as_posix(), title=title, digest=record["digest"], payload=payload)
    with atomic_write(output) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted({METADATA: json_bytes(metadata), **payload}.items()):
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)  # dated 1980
    return record["digest"]


def _metadata(
    runs: Sequence[Ran], *, table: str, title: str, digest: str, payload: Mapping[str, bytes]
) -> dict[str, Any]:
    """The crate's metadata: a graph of entities that name each other."""
    began, ended = min(map(_start, runs)), max(run.finished for run in runs)
    code = {run.stage: run.code for run in runs}  # of trainings of several kinds that of the last
    stages = list(code)
    files = _Files(payload, {table: runs[-1].outputs[table]} if table in runs[-1].outputs else {})
    jobs = [entity for run in runs for entity in _job(run, files)]
    made = {path for run in runs for path in run.outputs}
    given = {path: sha for run in runs for path, sha in run.inputs.items() if path not in made}
    everything = [*files.entities.values()]
    graph: list[Entity] = [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": [{"@id": _CRATE}, {"@id": "https://w3id.org/workflowhub/workflow-ro-crate/1.0"}],
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": title,
            "description": f"{title}: the {len(runs)} jobs that made it, their settings, the versions of "
            "code and packages, and the SHA-256 of every file that they read and wrote.",
            "datePublished": ended.isoformat(),
            "license": {"@id": _LICENSE},
            "conformsTo": [{"@id": profile} for profile in _RUN_PROFILES],
            "mainEntity": {"@id": "Snakefile"},
            "hasPart": [{"@id": "Snakefile"}, *({"@id": entity["@id"]} for entity in everything)],
            "mentions": [{"@id": "#run"}, {"@id": "#engine-run"}, *({"@id": job["@id"]} for job in jobs)],
            "identifier": {"@id": "#digest"},
        },
        {
            "@id": "#digest",
            "@type": "PropertyValue",
            "name": "digest of the whole run",
            "value": digest,
        },
        *(
            {"@id": profile, "@type": "CreativeWork", "name": name, "version": version}
            for profile, (name, version) in _RUN_PROFILES.items()
        ),
        {"@id": _LICENSE, "@type": "CreativeWork", "name": "Apache License 2.0"},
        {
            "@id": "Snakefile",
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            "name": "Condenser workflow",
            "programmingLanguage": {"@id": "#snakemake"},
            "license": {"@id": _LICENSE},
            "hasPart": [{"@id": f"#program/{stage}"} for stage in stages],
            "step": [{"@id": f"#step/{stage}"} for stage in stages],
        },
        {
            "@id": "#snakemake",
            "@type": ["ComputerLanguage", "SoftwareApplication"],
            "name": "Snakemake",
            "url": "https://snakemake.github.io",
        },
        *(entity for number, stage in enumerate(stages) for entity in _stage(stage, number, code[stage])),
        {
            "@id": "#run",
            "@type": "CreateAction",
            "name": title,
            "instrument": {"@id": "Snakefile"},
            "object": [{"@id": files.entity(*file)} for file in sorted(given.items())],
            "result": [{"@id": files.entity(table, runs[-1].outputs.get(table, ""))}],
            "startTime": began.isoformat(),
            "endTime": ended.isoformat(),
        },
        {
            "@id": "#engine-run",
            "@type": "OrganizeAction",
            "name": "Snakemake runs the jobs",
            "instrument": {"@id": "#snakemake"},
            "object": [{"@id": job["@id"]} for job in jobs if job["@type"] == "ControlAction"],
            "result": {"@id": "#run"},
            "startTime": began.isoformat(),
            "endTime": ended.isoformat(),
        },
        *jobs,
        *everything,
    ]
    return {"@context": _CONTEXTS, "@graph": graph}


class _Files:
    """The entities of files: by path if the crate has them, else by digest."""

    def __init__(self, payload: Mapping[str, bytes], digests: Mapping[str, str]) -> None:
        self.entities: dict[str, Entity] = {}
        for path, content in payload.items():
            if path != "Snakefile":
                entity = {"@id": path, "@type": "File", "name": path, "contentSize": str(len(content))}
                entity["encodingFormat"] = "application/json" if path.endswith(".json") else "text/plain"
                self.entities[path] = entity | ({"sha256": digests[path]} if path in digests else {})

    def entity(self, path: str, digest: str) -> str:
        """The id of a file, which is described if it was not yet."""
        if path in self.entities and (path == self.entities[path]["@id"]):
            return path
        sha = base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")
        name = f"ni:///sha-256;{sha}"
        self.entities.setdefault(
            name,
            {
                "@id": name,
                "@type": "File",
                "name": path,
                "sha256": digest,
                "encodingFormat": "application/octet-stream",
            },
        )
        return name


def _stage(stage: str, number: int, code: str) -> list[Entity]:
    """A step of the workflow and its program."""
    return [
        {
            "@id": f"#step/{stage}",
            "@type": "HowToStep",
            "name": stage,
            "position": str(number + 1),
            "workExample": {"@id": f"#program/{stage}"},
        },
        {
            "@id": f"#program/{stage}",
            "@type": "SoftwareApplication",
            "name": f"workflow_scripts/{stage}.py",
            "softwareVersion": code,
            "description": f"the program of the stage {stage}; the manifests have digests of its code",
        },
    ]


def _job(run: Ran, files: _Files) -> list[Entity]:
    """What a job did, and that the engine ran it."""
    name = f"{run.stage}-{sha256_text(run.name)[:16]}"
    return [
        {
            "@id": f"#job/{name}",
            "@type": "CreateAction",
            "name": run.name,
            "description": "; ".join(f"{package} {version}" for package, version in run.versions.items()),
            "instrument": {"@id": f"#program/{run.stage}"},
            "object": [{"@id": files.entity(*file)} for file in sorted(run.inputs.items())],
            "result": [{"@id": files.entity(*file)} for file in sorted(run.outputs.items())],
            "startTime": _start(run).isoformat(),
            "endTime": run.finished.isoformat(),
            "subjectOf": {"@id": run.manifest.as_posix()},
        },
        {
            "@id": f"#control/{name}",
            "@type": "ControlAction",
            "name": f"run {run.name}",
            "instrument": {"@id": f"#step/{run.stage}"},
            "object": {"@id": f"#job/{name}"},
        },
    ]


def _start(run: Ran) -> datetime.datetime:
    """To the second, as the end is."""
    return run.finished - datetime.timedelta(seconds=round(run.wall_time_s))


def _by_name(digests: Mapping[Path, str]) -> dict[str, str]:
    return {path.as_posix(): digest for path, digest in digests.items()}
