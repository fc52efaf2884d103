"""A table over train sizes and seeds: every cell is its own variant, and a row is the mean over the seeds."""

from __future__ import annotations

from graphs import Load, rules

SYSTEMS, SIZES, SEEDS = ("backbone-round1", "condenser-round1"), (250, 1000), (1, 2)


def test_it_asks_for_each_size_and_seed_once_and_tokenises_nothing_twice(load: Load) -> None:
    graph = load()
    jobs = graph.jobs("results/msmarco/low_data.tsv")
    variants = {f"n{size}-seed{seed}" for size in SIZES for seed in SEEDS}
    trained = {tuple(job.split()[2:]) for job in jobs if job.startswith("train ")}
    assert trained == {(system, variant) for system in SYSTEMS for variant in variants}
    assert {job.split()[2] for job in jobs if job.startswith("subset ")} == variants
    assert sum(job.startswith("tokens ") for job in jobs) == 1
    assert sum(job.startswith("query_tokens ") for job in jobs) == 2  # train, dev
    assert sum(job.startswith("bm25_run ") for job in jobs) == 1
    assert {job.split()[3] for job in jobs if job.startswith("examples ")} == variants
    assert "table" in rules(set(jobs))
