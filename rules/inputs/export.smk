# Inputs of the rules in rules/export.smk.


def evaluation_files(wildcards):
    """Queries and metrics of the evaluation split; none where no query is judged."""
    if not config.datasets[wildcards.dataset].is_measured:
        return {"queries": [], "metrics": []}
    split = split_of(wildcards.dataset, "eval_split")
    names = (wildcards.dataset, wildcards.system, wildcards.variant)
    return {
        "queries": f"results/{wildcards.dataset}/data/queries.{split}.jsonl",
        "metrics": system_file(*names, f"metrics.{split}.json"),
    }
