# Needs: the collection, queries and judgements; how long the texts are. Makes: a list of faults in the data, and their
# counts.


def audited_files(wildcards):
    """The queries and judgements of a data set, and how long its texts are."""
    dataset, entry = wildcards.dataset, config.datasets[wildcards.dataset]
    if entry.TASK:
        sys.exit(
            f"error: results/{dataset}/audit.tsv: expected a data set of passages, got sentences. "
            "There is no audit of these."
        )
    folder, train = f"results/{dataset}/data", entry.learns_on
    return {
        "train_queries": f"{folder}/queries.{train}.jsonl" if train else [],
        "eval_queries": [f"{folder}/queries.{split}.jsonl" for split in entry.eval_splits],
        "qrels": [f"{folder}/qrels.{split}.tsv" for split in entry.splits],
        "lengths": [lengths_file(dataset, model) for model in experiment.checkpoints_of(config, dataset)],
    }


rule audit:
    input:
        unpack(audited_files),
        collection=data("collection.jsonl"),
    output:
        findings="results/{dataset}/audit.tsv",
        counts="results/{dataset}/audit.json",
        manifest="results/{dataset}/audit.manifest.json",
    log:
        "results/{dataset}/logs/audit.log",
    benchmark:
        "results/{dataset}/benchmarks/audit.tsv"
    conda:
        "../envs/data.yaml"
    resources:
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        job=SPECS.job(
            "audit",
            settings=["audit", "lengths", "metrics.relevant_grade", "dataset.split"],
            packages=["numpy"],
        ),
    shell:
        RUN
