# Inputs of the rules in rules/audit.smk.


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
        "lengths": [lengths_file(dataset, model) for model in config.datasets[dataset].checkpoints],
    }
