"""The program that chooses: which runs, queries and votes belong together."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from job_files import do

from condenser.data.records import Query, ScoredDoc, write_queries, write_run
from condenser.files import read_json

RANKINGS = {  # by set of queries and system; x and y are passages, the made queries have x to find
    "made": {"start": "yx", "other": "xy"},
    "log": {"start": "xy", "other": "xy", "bm25": "xy", "third": "xy"},
    "topics": {"start": "yx", "other": "xy", "bm25": "yx", "third": "yx"},
}


def test_each_set_is_judged_by_its_own_queries_runs_and_votes(tmp_path: Path) -> None:
    places: dict[tuple[str, str], Path] = {}
    for name, rankings in RANKINGS.items():
        ids = ["x"] if name == "made" else [f"{name}{number}" for number in range(40)]
        places[name, "queries"] = tmp_path / f"queries.{name}.jsonl"
        write_queries(places[name, "queries"], [Query(query_id, "words") for query_id in ids])
        for system, order in rankings.items():
            places[name, system] = tmp_path / f"{system}.{name}.trec"
            hits = [
                ScoredDoc(query_id, doc_id, -rank) for query_id in ids for rank, doc_id in enumerate(order)
            ]
            write_run(places[name, system], hits, system=system)
    for system in ("start", "other"):
        (tmp_path / system).mkdir()
        (tmp_path / system / "model.safetensors").write_text(system)
        (tmp_path / system / "tokenizer.json").write_text(system)
    model = {
        **{"of": ["start", "other"], "queries": ["made"], "unjudged": ["log", "topics"]},
        **{"voters": ["bm25", "third"], "measure": "MRR@10", "least_queries": 1, "least_gain": 0.01},
    }
    significance = {"confidence": 0.95, "power": 0.8, "permutations": 400, "seed": 1}
    do(
        "best_of",
        settings={"model": model, "significance": significance, "dataset": {"split": None}},
        input={
            "queries": [places[name, "queries"] for name in RANKINGS],
            "runs": [places[name, system] for name in RANKINGS for system in model["of"]],
            "votes": [places[name, system] for name in ("log", "topics") for system in model["voters"]],
            "models": [tmp_path / system / "model.safetensors" for system in model["of"]],
        },
        output={
            "model": tmp_path / "chosen/model.safetensors",
            "tokenizer": tmp_path / "chosen/tokenizer.json",
            "table": tmp_path / "chosen.tsv",
            "picture": tmp_path / "chosen.svg",
            "manifest": tmp_path / "chosen.manifest.json",
        },
        wildcards={"dataset": "mine", "model": "chosen"},
    )
    gains = pd.read_csv(tmp_path / "chosen.tsv", sep="\t").set_index("queries")["gain"].to_dict()
    assert gains == {"all queries": round((0.5 - 40 * 0.5) / 81, 4), "made": 0.5, "log": 0.0, "topics": -0.5}
    assert read_json(tmp_path / "chosen.manifest.json")["counts"]["chosen"] == "start"
    assert (tmp_path / "chosen/model.safetensors").read_text() == "start"
