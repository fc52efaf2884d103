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
from pathlib import Path
from typing import Any

from condenser.files import atomic_write, canonical_json, json_bytes, sha256_text
from condenser.manifest import Record, read_manifest, sealed, sound_record

RECORD = "record.json"
METADATA = "ro-crate-metadata.json"

# Rules whose bytes differ each time. Lucene gives each segment of an index a random id (runs on the index do
# not differ); the others record times, or rates of the machine.
OTHER_EACH_TIME = {"bm25_index", "crate", "figure", "plan"}

_LARGEST_RECORD = 256 << 20  # bytes; a job takes less than 1,000 and each of its files 200
_LONGEST_NAME = 1000

_CRATE = "https://w3id.org/ro/crate/1.1"
_CONTEXTS = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"]
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/provenance/0.5": ("Provenance Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
_LICENSE = "https://spdx.org/licenses/Apache-2.0"

Entity = dict[str, Any]


def read_runs(manifests: Iterable[Path]) -> list[Record]:
    """The jobs that ran, from their manifests and in their order.

    Raises:
        ValueError: one is missing, or is not as its rule wrote it.
    """
    runs = []
    for path in manifests:
        try:
            runs.append(read_manifest(path))
        except ValueError as error:
            raise ValueError(
                f"{path}: expected a sound manifest, got one that {error}. Run verify."
            ) from error
    return runs


def digest_of(jobs: Iterable[tuple[str, Mapping[Any, str]]]) -> str:
    """One digest of the results of all jobs, each its rule and the digests of its outputs, by path.

    The SHA-256 of the canonical JSON of [path, SHA-256] of every file, by path. The order of the jobs does
    not count, nor do times and machines; nor do files whose bytes differ each time.
    """
    files = {
        str(path): digest
        for rule, outputs in jobs
        if rule not in OTHER_EACH_TIME
        for path, digest in outputs.items()
    }
    return sha256_text(canonical_json(sorted(files.items())))


def record_of_runs(runs: Sequence[Record]) -> dict[str, Any]:
    """What another machine compares with: the jobs in order, digests of their outputs, and one of all."""
    return {
        "digest": digest_of((run.spec["rule"], run.outputs) for run in runs),
        "jobs": [
            {
                "rule": run.spec["rule"],
                "wildcards": run.spec["wildcards"],
                "manifest": str(run.path),
                "outputs": _by_name(run.outputs),
            }
            for run in runs
        ],
    }


def read_record(file: Path) -> dict[str, Any]:
    """The record of a crate, or of a file that was taken from one.

    The record may be hostile: its texts can only be names, and name no file outside of `results/`.

    Raises:
        ValueError: the file is neither, or its digest is not that of its jobs.
    """
    what = f"{file}: expected a crate of this workflow or the {RECORD} in one"
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive, archive.open(RECORD) as member:
                content = member.read(_LARGEST_RECORD + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(_LARGEST_RECORD + 1)
        if len(content) > _LARGEST_RECORD:
            raise ValueError(f"more than {_LARGEST_RECORD:,} bytes")
        record = json.loads(content)
        digest = digest_of((job["rule"], job["outputs"]) for job in record["jobs"])
        said = record["digest"]
        for job in record["jobs"]:
            _refuse_odd_names([job["rule"], job["manifest"], *job["wildcards"].values(), *job["outputs"]])
            if Path(job["manifest"]).is_absolute() or ".." in Path(job["manifest"]).parts:
                raise ValueError(f"the manifest {job['manifest']!r:.200} of another folder")
    except OSError as error:
        raise ValueError(f"{what}, got a file that cannot be read ({error.strerror}).") from error
    except Exception as error:  # zipfile and zlib raise several kinds
        raise ValueError(f"{what}, got something else ({error!s:.300}).") from error
    if said != digest:
        raise ValueError(f"{what}, got one whose digest is not that of its jobs. Copy it again.")
    return record


def _refuse_odd_names(names: Iterable[Any]) -> None:
    """See that these are names that a terminal can show.

    Raises:
        ValueError: one is no text, is long, or has control characters.
    """
    for name in names:
        if not (isinstance(name, str) and name.isprintable() and len(name) <= _LONGEST_NAME):
            raise ValueError(f"the name {name!r:.200}")


def compare(record: Mapping[str, Any]) -> tuple[int, str | None]:
    """How many jobs of a record were compared, and the first whose results differ here; None if none does.

    The jobs are compared in the order of the pipeline, until one differs. Those are left out of which the
    manifest here says that their bytes differ each time. Digests are those of the manifests here; `verify`
    checks that the files still have them.
    """
    compared = 0
    for job in record["jobs"]:
        name = _name(job)
        here = sound_record(Path(job["manifest"]))
        if here is None:
            if job["rule"] in OTHER_EACH_TIME:
                continue
            return compared, f"{name}: has no sound manifest here ({job['manifest']})"
        if (rule := here.spec.get("rule")) != job["rule"]:
            return compared, f"{name}: {job['manifest']} is of the rule {rule} here"
        if rule in OTHER_EACH_TIME:
            continue
        compared += 1
        outputs, others = _by_name(here.outputs), job["outputs"]
        for path in sorted({*outputs, *others}):
            if outputs.get(path) != others.get(path):
                found = "has other bytes" if path in others else "is not in the record"
                return compared, f"{name}: {path} {found if path in outputs else 'is not here'}"
    return compared, None


def write_crate(output: Path, runs: Sequence[Record], *, table: Path, workflow: Path, title: str) -> str:
    """Write the crate of a table as a ZIP file; gives the digest of the run.

    It holds the table, its manifests, the record and the Snakefile. Other results are named by their digests
    (RFC 6920): models and embeddings are too large to be copied. Equal manifests give equal bytes. Of files
    outside of this folder nothing but their last name is published, so a manifest in the crate may differ
    from the one here.

    Args:
        runs: all jobs behind the table, in order; the last one made it.
        workflow: the Snakefile.
    """
    record = record_of_runs(runs)
    payload = {
        table.as_posix(): table.read_bytes(),
        "Snakefile": workflow.read_bytes(),
        RECORD: json_bytes(record),
        **{str(run.path): json_bytes(_published(run)) for run in runs},
    }
    metadata = _metadata(runs, table=table.as_posix(), title=title, digest=record["digest"], payload=payload)
    with atomic_write(output) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted({METADATA: json_bytes(metadata), **payload}.items()):
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)  # dated 1980
    return record["digest"]


def _metadata(
    runs: Sequence[Record], *, table: str, title: str, digest: str, payload: Mapping[str, bytes]
) -> dict[str, Any]:
    """The crate's metadata: a graph of entities that name each other."""
    times = {"startTime": min(map(_start, runs)).isoformat(), "endTime": max(map(_end, runs)).isoformat()}
    # of trainings of several kinds the code of the last
    code = {run.spec["rule"]: sha256_text(canonical_json(run.spec["code"]))[:16] for run in runs}
    of_last = _by_name(runs[-1].outputs)
    files = _Files(payload, {table: of_last[table]} if table in of_last else {})
    jobs = [entity for run in runs for entity in _job(run, files)]
    made = {path for run in runs for path in run.outputs}
    given = {path: sha for run in runs for path, sha in run.inputs.items() if path not in made}
    graph = [
        _entity(METADATA, "CreativeWork", about=_ref("./"), conformsTo=_refs([_CRATE, [*_PROFILES][-1]])),
        _entity(
            "./",
            "Dataset",
            name=title,
            description=f"{title}: the {len(runs)} jobs that made it, their settings, the versions of "
            "code and packages, and the SHA-256 of every file that they read and wrote.",
            datePublished=times["endTime"],
            license=_ref(_LICENSE),
            conformsTo=_refs(_PROFILES),
            mainEntity=_ref("Snakefile"),
            hasPart=_refs(["Snakefile", *files.entities]),
            mentions=_refs(["#run", "#engine-run", *(job["@id"] for job in jobs)]),
            identifier=_ref("#digest"),
        ),
        _entity("#digest", "PropertyValue", name="digest of the whole run", value=digest),
        *(
            _entity(profile, "CreativeWork", name=name, version=version)
            for profile, (name, version) in _PROFILES.items()
        ),
        _entity(_LICENSE, "CreativeWork", name="Apache License 2.0"),
        _entity(
            "Snakefile",
            ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            name="Condenser workflow",
            programmingLanguage=_ref("#snakemake"),
            license=_ref(_LICENSE),
            hasPart=_refs(f"#program/{rule}" for rule in code),
            step=_refs(f"#step/{rule}" for rule in code),
        ),
        _entity(
            "#snakemake",
            ["ComputerLanguage", "SoftwareApplication"],
            name="Snakemake",
            url="https://snakemake.github.io",
        ),
        *(entity for place, rule in enumerate(code, 1) for entity in _rule(rule, place, code[rule])),
        _entity(
            "#run",
            "CreateAction",
            name=title,
            instrument=_ref("Snakefile"),
            object=files.refs(given),
            result=_refs([files.id_of(table, of_last.get(table, ""))]),
            **times,
        ),
        _entity(
            "#engine-run",
            "OrganizeAction",
            name="Snakemake runs the jobs",
            instrument=_ref("#snakemake"),
            object=_refs(job["@id"] for job in jobs if job["@type"] == "ControlAction"),
            result=_ref("#run"),
            **times,
        ),
    ]
    return {"@context": _CONTEXTS, "@graph": [*graph, *jobs, *files.entities.values()]}


def _published(run: Record) -> dict[str, Any]:
    """A manifest as others may read it: what lies outside of this folder has its last name alone."""

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {shown(key): shown(item) for key, item in value.items()}
        if isinstance(value, list):
            return [shown(item) for item in value]
        return _public_name(value) if isinstance(value, str) and _is_outside(value) else value

    record = {
        key: shown(value) for key, value in run.whole.items() if key not in ("inputs", "outputs", "sha256")
    }
    inputs = {}
    for name, (path, digest) in zip(run.whole["inputs"], run.inputs.items(), strict=True):
        inputs[f"{digest[:8]}/{_public_name(str(path))}" if _is_outside(str(path)) else name] = digest
    return sealed({**record, "inputs": inputs, "outputs": run.whole["outputs"]})


def _is_outside(path: str) -> bool:
    """Whether a text is a path outside of this folder, which may tell whose machine this is."""
    return path.startswith(("/", "~", "../"))


def _public_name(path: str) -> str:
    return f"outside/{Path(path).name}" if _is_outside(path) else path


class _Files:
    """The entities of files: by path if the crate has them, else by digest."""

    def __init__(self, payload: Mapping[str, bytes], digests: Mapping[str, str]) -> None:
        self.entities: dict[str, Entity] = {}
        for path, content in payload.items():
            if path != "Snakefile":
                encoding = "application/json" if path.endswith(".json") else "text/plain"
                sizes = {"contentSize": str(len(content)), "encodingFormat": encoding}
                sha = {"sha256": digests[path]} if path in digests else {}
                self.entities[path] = _entity(path, "File", name=path, **sizes, **sha)

    def refs(self, digests: Mapping[Path, str]) -> list[Entity]:
        """References to files, by path."""
        files = sorted(_by_name(digests).items())
        return _refs(self.id_of(_public_name(path), digest) for path, digest in files)

    def id_of(self, path: str, digest: str) -> str:
        """The id of a file, which is described if it was not yet."""
        if path in self.entities:
            return path
        sha = base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")
        name, encoding = f"ni:///sha-256;{sha}", "application/octet-stream"
        described = _entity(name, "File", name=path, sha256=digest, encodingFormat=encoding)
        self.entities.setdefault(name, described)
        return name


def _rule(rule: str, place: int, code: str) -> list[Entity]:
    """A step of the workflow and its program."""
    example, position = _ref(f"#program/{rule}"), str(place)
    return [
        _entity(f"#step/{rule}", "HowToStep", name=rule, position=position, workExample=example),
        _entity(
            f"#program/{rule}",
            "SoftwareApplication",
            name=f"workflow_scripts/{rule}.py",
            softwareVersion=code,
            description=f"the program of the rule {rule}; the manifests have digests of its code",
        ),
    ]


def _job(run: Record, files: _Files) -> list[Entity]:
    """What a job did, and that the engine ran it."""
    rule, name = run.spec["rule"], _name(run.spec)
    id_of_job = f"{rule}-{sha256_text(name)[:16]}"
    return [
        _entity(
            f"#job/{id_of_job}",
            "CreateAction",
            name=name,
            description="; ".join(
                f"{package} {version}" for package, version in run.spec["versions"].items()
            ),
            instrument=_ref(f"#program/{rule}"),
            object=files.refs(run.inputs),
            result=files.refs(run.outputs),
            startTime=_start(run).isoformat(),
            endTime=_end(run).isoformat(),
            subjectOf=_ref(str(run.path)),
        ),
        _entity(
            f"#control/{id_of_job}",
            "ControlAction",
            name=f"run {name}",
            instrument=_ref(f"#step/{rule}"),
            object=_ref(f"#job/{id_of_job}"),
        ),
    ]


def _entity(identifier: str, kind: str | list[str], /, **properties: Any) -> Entity:
    return {"@id": identifier, "@type": kind, **properties}


def _ref(name: str) -> Entity:
    return {"@id": name}


def _refs(names: Iterable[str]) -> list[Entity]:
    return list(map(_ref, names))


def _name(job: Mapping[str, Any]) -> str:
    """The name of a job, by its spec or its part of a record."""
    return " ".join([job["rule"], *job["wildcards"].values()])


def _end(run: Record) -> datetime.datetime:
    return datetime.datetime.fromisoformat(run.whole["finished"])


def _start(run: Record) -> datetime.datetime:
    """To the second, as the end is."""
    return _end(run) - datetime.timedelta(seconds=round(run.whole["wall_time_s"]))


def _by_name(digests: Mapping[Path, str]) -> dict[str, str]:
    return {str(path): digest for path, digest in digests.items()}
