# Inputs of the rules in rules/examples.smk.


def negatives_source(wildcards):
    """The official files that hold a system's negatives, else its run of the train queries."""
    entry = config.datasets[wildcards.dataset]
    given = entry.example_files(wildcards.system)
    if given:
        return {"raw": [f"results/downloads/{name}" for name in given], "run": []}
    return {
        "raw": [],
        "run": run_file(
            wildcards.dataset, wildcards.system, wildcards.variant, split_of(wildcards.dataset, "train_split")
        ),
    }


def queries_of_splits(wildcards):
    """The queries of all splits of a data set."""
    return [
        f"results/{wildcards.dataset}/data/queries.{split}.jsonl"
        for split in config.datasets[wildcards.dataset].splits
    ]


def compared_with_candidates(wildcards):
    """The runs of the held-out train queries of a teacher and of its candidates, to compare them by.

    Also the candidates' run of all train queries, for a teacher that is not better. Nothing where no query is held
    out, and of systems that are no teachers.
    """
    teacher = wildcards.system
    is_teacher = config.systems[teacher].denoising is not None
    is_compared = is_teacher and config.datasets[wildcards.dataset].may_hold_out(wildcards.variant)
    variant = config.datasets[wildcards.dataset].crossfit_variant(wildcards.variant)
    held_out = held_out_file(wildcards.dataset, variant) if is_compared else []
    if not held_out:
        return dict.fromkeys(("compared_runs", "candidates_run", "held_out"), [])
    split = split_of(wildcards.dataset, "train_split")
    candidates = config.systems[teacher].candidates
    compared = split if variant == wildcards.variant else f"{split}{variants.HELD_OUT}"
    return {
        "compared_runs": [
            run_file(wildcards.dataset, system, variant, compared) for system in (teacher, candidates)
        ],
        "candidates_run": run_file(wildcards.dataset, candidates, wildcards.variant, split),
        "held_out": held_out,
    }


def judgements_of_comparison(wildcards):
    """The judgements of the train queries, by which a teacher whose scores count is compared."""
    return data("qrels.{train}.tsv")(wildcards) if config.systems[wildcards.system].denoising else []


def texts_of_negatives(wildcards):
    """The passages, where those of a run that hold an answer are no negatives."""
    dataset = config.datasets[wildcards.dataset]
    recipe = config.datasets[wildcards.dataset].recipe_of(config.systems[wildcards.system])
    if not recipe.negatives.without_answers or dataset.example_files(wildcards.system):
        return []
    return f"results/{wildcards.dataset}/data/collection.jsonl"


def run_of_job(wildcards):
    """The run of a job's own system, variant and split."""
    return run_file(wildcards.dataset, wildcards.system, wildcards.variant, wildcards.split)
