"""A bi-encoder that is not fine-tuned is its pre-trained model: no queries are needed to make it."""

from __future__ import annotations

from graphs import Load, rules


def test_it_encodes_with_the_pre_trained_model_and_needs_no_train_query(load: Load) -> None:
    graph = load()
    run = "results/msmarco/systems/condenser-zeroshot/untrained/run.dev.trec"
    jobs = graph.jobs(run)
    of_texts = {"collect", "tokens", "query_tokens"}
    of_models = {"checkpoint", "pretrain", "encode", "encode_queries"}
    assert rules(set(jobs)) == {*of_texts, *of_models, "search", "merge"}
    assert not any("train" in job.split()[1:] for job in jobs), "no job of the train split"
    (encode,) = (job for job in jobs if job.startswith("encode "))
    assert "results/msmarco/models/condenser/model.safetensors" in graph.inputs(encode)


def test_the_table_of_models_without_fine_tuning_trains_no_system(load: Load) -> None:
    graph = load()
    jobs = graph.jobs("results/msmarco/adapt.tsv")
    assert not {"examples", "subset"} & rules(set(jobs))
    rows = graph.spec(jobs[-1])["config"]["table"]["rows"]
    shown = {row["system"]: (row["variants"], row["batch_size"]) for row in rows}
    assert shown.pop("distilled") == (["seed42"], 48)  # learns from a ranking: 12 queries with 4 passages
    assert list(shown.values()) == [(["untrained"], None)] * 10


def test_another_seed_of_fine_tuning_leaves_it_as_it_is(load: Load) -> None:
    run = "results/msmarco/systems/backbone-zeroshot/untrained/run.dev.trec"
    before = load().hashes(run)
    after = load({"recipes": {"marco": {"learning_rate": 1.0e-3, "epochs": 7}}}).hashes(run)
    assert before == after
