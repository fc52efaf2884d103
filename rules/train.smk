# Fine-tuning, one rule for all kinds of systems: from a pre-trained model and the examples of the systems
# whose negatives it learns from, or the run of its teacher. A second round is this rule for another system of
# the configuration: it starts from the pre-trained model again and reads one more file of examples.


from condenser.blocks import FineTuning


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
    return held_out_of_variant(wildcards) if experiment.learns(config, wildcards.system) else []


rule train:
    input:
        initial=initial_file,
        tokens=tokens_of_system,
        query_tokens=queries_to_learn_from("tokens"),
        doc_ids=data("doc_ids.txt"),
        queries=queries_to_learn_from("queries"),
        examples=examples_of,
        teacher_run=teacher_run,
        held_out=held_out_of_learner,
        lengths=lengths_if_auto("query", "passage"),
    output:
        model="results/{dataset}/systems/{system}/{variant}/model/model.safetensors",
        losses="results/{dataset}/systems/{system}/{variant}/model/losses.jsonl",
        validation="results/{dataset}/systems/{system}/{variant}/model/validation.json",
        manifest="results/{dataset}/systems/{system}/{variant}/model.manifest.json",
    log:
        "results/{dataset}/logs/train.{system}.{variant}.log",
    benchmark:
        "results/{dataset}/benchmarks/train.{system}.{variant}.tsv"
    wildcard_constraints:
        system=names(TRAINED),
    priority: 1  # others wait for what it makes
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(16000),
        runtime=growing(1440),
    params:
        job=SPECS.job(
            "train",
            settings=[
                "system",
                *(f"recipe.{key}" for key in FineTuning.model_fields),
                "recipe.validation",
                "compute",
                "seed",
            ],
            packages=TORCH,
            modules=lambda settings: [kinds.module_name(SYSTEMS, settings.system.kind)],
            options=vars(config.safety),
            processes=True,
        ),
    shell:
        RUN
