# Inputs of the rules in rules/train.smk.


def examples_of(wildcards):
    """The examples of the systems whose negatives a system learns from, in order, then those of pseudo-labels."""
    entry = config.systems[wildcards.system]
    files = [(name, "examples.jsonl") for name in entry.negatives]
    if labels := entry.pseudo_labelled:
        files.append((labels.teacher, f"pseudo_labels.{labels.queries}.jsonl"))
    return [system_file(wildcards.dataset, system, wildcards.variant, file) for system, file in files]


def queries_to_learn_from(name):
    """The files (`queries`, `tokens`) of what a system learns from: train queries, and others without judgements."""

    def of(wildcards):
        dataset, entry = wildcards.dataset, config.systems[wildcards.system]
        splits = [split_of(dataset, "train_split")] if entry.negatives else []
        splits += [taught.queries for taught in entry.taught_by.values()]
        if name == "tokens":
            return [token_file(dataset, initial_of(wildcards), f"queries.{split}") for split in splits]
        return [queries_of_split(dataset, split) for split in splits]

    return of


def teacher_run(wildcards):
    """The run of a distillation's teacher, of the taught queries; none of other systems."""
    if taught := config.systems[wildcards.system].taught_by.get("distillation"):
        return run_file(wildcards.dataset, taught.teacher, wildcards.variant, taught.queries)
    return []


def held_out_of_learner(wildcards):
    """The queries that no training of a variant sees, for a system that learns from queries."""
    return held_out_of_variant(wildcards) if config.systems[wildcards.system].learns else []
