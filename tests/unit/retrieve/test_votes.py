"""What voters say is to be found, against a slow version, and for two systems whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.stats import zscore

from condenser.data.records import Query, ScoredDoc, write_queries, write_run
from condenser.evaluate.choice import values_of_runs
from condenser.retrieve.votes import voted_items

Scores = Mapping[str, Mapping[str, float]]
"""By query, the score of each document."""


def written(folder: Path, runs: Mapping[str, Scores]) -> dict[str, Path]:
    """The files of some runs."""
    for name, scores in runs.items():
        hits = (
            ScoredDoc(query_id, doc_id, of_query[doc_id])
            for query_id, of_query in scores.items()
            for doc_id in sorted(of_query, key=lambda doc_id: -of_query[doc_id])
        )
        write_run(folder / name, hits, system=name)
    return {name: folder / name for name in runs}


def test_the_item_is_the_hit_with_the_largest_mean_of_z_scores(tmp_path: Path) -> None:
    """Of 150 documents each voter has a part, the first 100 of which count; the second lacks a query."""
    generator = np.random.default_rng(5)
    names = [f"q{number}" for number in range(20)]
    write_queries(tmp_path / "queries", [Query(name, "words") for name in [*names, "nobody"]])
    runs: dict[str, dict[str, dict[str, float]]] = {"a": {}, "b": {}, "c": {}}
    expected = {}
    for name in names:
        found = {
            voter: dict(
                zip(map(str, generator.permutation(150)[:num]), generator.normal(size=num), strict=True)
            )
            for voter, num in (("a", 120), ("b", 0 if name == "q3" else 30), ("c", 101))
        }
        for voter, scores in found.items():
            runs[voter] |= {name: scores} if scores else {}
        first = [dict(sorted(scores.items(), key=lambda hit: hit[1])[-100:]) for scores in found.values()]
        pool = sorted(set().union(*first))
        of_pool = [[s.get(doc, min(s.values(), default=0)) for doc in pool] for s in first if s]
        expected[name] = pool[int(zscore(of_pool, axis=1).sum(axis=0).argmax())]
    files = written(tmp_path, runs)
    items = voted_items(list(files.values()), tmp_path / "queries")
    assert items == {name: {doc_id: 1} for name, doc_id in expected.items()}


def test_a_voter_of_another_family_keeps_the_sign_of_a_gain_and_the_starts_kin_turns_it(
    tmp_path: Path,
) -> None:
    """Scores are relevance and noise; the start and its kin share most of it, the voter has its own."""
    generator = np.random.default_rng(7)
    names, docs = [f"q{number}" for number in range(500)], [f"d{number}" for number in range(8)]
    write_queries(tmp_path / "queries", [Query(name, "words") for name in names])
    relevant = np.zeros((len(names), len(docs)))
    relevant[:, 0] = 1.0
    shared, *own = generator.normal(size=(5, *relevant.shape))
    scores = {
        "start": 1.0 * relevant + shared + 0.3 * own[0],
        "kin": 1.0 * relevant + shared + 0.3 * own[1],
        "candidate": 1.8 * relevant + 0.3 * shared + own[2],
        "voter": 1.5 * relevant + own[3],
    }
    files = written(
        tmp_path,
        {
            system: {name: dict(zip(docs, row, strict=True)) for name, row in zip(names, rows, strict=True)}
            for system, rows in scores.items()
        },
    )

    def gain(items: dict[str, dict[str, int]]) -> float:
        start, candidate = values_of_runs([files["start"], files["candidate"]], items, measure="MRR@10")
        return float((candidate - start).mean())

    truth = gain({name: {"d0": 1} for name in names})
    voted = {name: gain(voted_items([files[name]], tmp_path / "queries")) for name in ("voter", "kin")}
    assert truth > 0.1 and 0.1 * truth < voted["voter"] < truth and voted["kin"] < -0.1
