"""A small folder of results with manifests, as the workflow writes them, whose texts a test chooses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    ScoredDoc,
    write_passages,
    write_qrels,
    write_queries,
    write_run,
)
from condenser.evaluate.metrics import evaluate
from condenser.files import read_json, save_npy, write_json
from condenser.manifest import Manifest, read_manifest
from condenser.report.collect import Report
from condenser.report.state import read_state, write_state

MEASURES = ["MRR@10", "R@10"]
OF_TABLE = [{"name": name, "measure": name, "dataset": "small", "split": "dev"} for name in MEASURES]
COLUMNS = ["method", "batch_size", *MEASURES, "origin", "collection", "passages", "queries"]
COLUMNS += ["backbone", "seeds"]
COLUMNS += [f"{name}_{limit}" for name in MEASURES for limit in ("low", "high")]
COLUMNS += ["compared_with_start", "compared_with_start_p"]

OTHER = "results/small/other.tsv"
MISSING = {"target": OTHER, "command": f"snakemake {OTHER}", "reason": None}

Rankings = Mapping[str, Sequence[tuple[str, float]]]  # query_id -> passages and scores, best first


def record(
    manifest: Path, rule: str, *, outputs: Sequence[Path], inputs: Sequence[Path] = (), **said: Any
) -> None:
    """Write the manifest of a result."""
    spec = {
        "rule": rule,
        "wildcards": {"dataset": "small", **said.get("wildcards", {})},
        "config": said.get("config", {}),
        "code": {},
        "versions": {"numpy": "2"},
        "lineage": {},
    }
    Manifest(manifest, spec, inputs=inputs).write(outputs=outputs, counts=said.get("counts", {}))


def record_beside(output: Path, rule: str, **said: Any) -> None:
    """Write the manifest of a result of one file, as `record` does."""
    record(Path(f"{output}.manifest.json"), rule, outputs=[output], **said)


def write_results(
    results: Path,
    *,
    queries: Sequence[tuple[str, str]],
    passages: Sequence[tuple[str, str, str]],
    judged: Mapping[str, Mapping[str, int]],
    systems: Mapping[str, Rankings],
) -> Path:
    """A data set `small` under `results`, with a table of systems; gives its folder.

    A system `A` has the label `System A`; the first one is not fine-tuned, the others are trained.
    """
    folder = results / "small"
    data = folder / "data"
    write_passages(data / "collection.jsonl", [Passage(*one) for one in passages])
    write_queries(data / "queries.dev.jsonl", [Query(*one) for one in queries])
    grades = [Qrel(query, doc, grade) for query, of in judged.items() for doc, grade in of.items()]
    write_qrels(data / "qrels.dev.tsv", grades)
    counts = {"passages": len(passages), "queries": {"dev": len(queries)}}
    write_json(data / "counts.json", counts)
    record(
        folder / "data.manifest.json",
        "collect",
        outputs=sorted(data.iterdir()),
        config={"dataset": {"source": "beir"}},
        counts=counts,
    )
    rows, lines = [], ["\t".join(COLUMNS)]
    for number, (name, rankings) in enumerate(systems.items()):
        variant = "seed1" if number else "untrained"
        place = folder / "systems" / name / variant
        named = {"system": name, "variant": variant}
        if number:
            write_losses(place / "model" / "losses.jsonl", [2.0, 1.5, float("nan"), 1.0])
            record(
                place / "model.manifest.json",
                "train",
                outputs=[place / "model" / "losses.jsonl"],
                inputs=[data / "collection.jsonl"],
                wildcards=named,
                config={"seed": 1},
            )
        run, metrics = place / "run.dev.trec", place / "metrics.dev.json"
        hits = [ScoredDoc(query, *hit) for query, ranking in rankings.items() for hit in ranking]
        write_run(run, hits, system=name)
        vectors = place / "embeddings" / "collection.npy"
        save_npy(vectors, np.zeros((len(passages), 2), np.float32))
        read = place / "model" / "losses.jsonl" if number else data / "collection.jsonl"
        qrels = data / "qrels.dev.tsv"
        evaluate(run, qrels, metrics, system=name, measures=MEASURES, relevant_grade=1)
        record_beside(vectors, "encode", inputs=[read], wildcards=named)
        record_beside(run, "merge", inputs=[vectors], wildcards={**named, "split": "dev"})
        record_beside(metrics, "metrics", inputs=[run, qrels], wildcards={**named, "split": "dev"})
        rows.append(
            {"system": name, "variants": [variant], "method": f"System {name}", "train_queries": "all"}
        )
        means = [f"{read_json(metrics)['measures'][measure]:.4f}" for measure in MEASURES]
        lines.append(
            "\t".join(
                [f"System {name}", "8" if number else "", *means, "measured", "small", str(len(passages))]
                + [str(len(queries)), "a BERT", "1" if number else "", *(["0.1", "0.9"] * len(MEASURES))]
                + (["better", "0.01"] if number else ["", ""])
            )
        )
    table = folder / "table2.tsv"
    table.write_text("\n".join(lines) + "\n")
    all_metrics = [
        folder / "systems" / row["system"] / row["variants"][0] / "metrics.dev.json" for row in rows
    ]
    notes = folder / "table2.tsv.notes.txt"
    notes.write_text("A note below the table.\n")
    record(
        Path(f"{table}.manifest.json"),
        "table",
        outputs=[table, notes],
        inputs=[*all_metrics, data / "counts.json"],
        wildcards={"table": "table2"},
        config={"table": {"rows": rows, "columns": OF_TABLE, "published": None}},
    )
    return folder


def write_losses(file: Path, losses: Sequence[float]) -> None:
    """The losses of a training; NaN becomes null, as the loop writes it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"step": step, "loss": None if loss != loss else loss} for step, loss in enumerate(losses)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def report_of(results: Path, *, could_be_made: Sequence[Any] = (MISSING,)) -> Report:
    """The report of `small`, whose manifests have the specs of today."""
    specs = {}
    for file in results.rglob("*.manifest.json"):
        try:
            found = read_manifest(file)
        except ValueError:
            continue
        specs[json.dumps([found.spec["rule"], found.spec["wildcards"]])] = str(file), found.spec
    state = write_state(
        results.parent / "state",
        results,
        "small",
        spec_of=lambda rule, wildcards: specs[json.dumps([rule, wildcards])][1],
        manifest_of=lambda rule, wildcards: specs[json.dumps([rule, wildcards])][0],
        could_be_made=could_be_made,
    )
    return Report("small", *read_state(Path(state)), {"searchable": ["A"], "overlays": ["mine.yaml"]})
