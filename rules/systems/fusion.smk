# Fusions. Needs: runs of other systems; to learn weights, those of train queries. Makes: a run of the hits of
# all, and the weights.


def weights_if_learnt(wildcards):
    """The weights of a fusion that learns them."""
    if not experiment.learns(config, wildcards.system):
        return []
    return system_file(wildcards.dataset, wildcards.system, wildcards.variant, "weights.json")


def judged_to_mix_by(wildcards):
    """The train queries (`subset`) that weights of a fusion are learnt from, and the `runs` of its parts.

    If a part learnt from train queries, these are held-out ones, and the part's twin that never saw them ranks them.
    Where a variant has too few queries to hold any out, there is nothing to rank, and the weights are equal.
    """
    train = split_of(wildcards.dataset, "train_split")
    trained = [part for part in config.systems[wildcards.system].of if experiment.has_sizes(config, part)]
    if not trained:
        return {"subset": subset_file(wildcards), "runs": runs_of(wildcards, "of", train)}
    variant = experiment.crossfit_variant(config, wildcards.dataset, wildcards.variant)
    if file := held_out_file(wildcards.dataset, variant):
        is_ranked = experiment.may_hold_out(config, wildcards.dataset, variant)
        return {
            "subset": file,
            "runs": runs_of(wildcards, "of", f"{train}{experiment.HELD_OUT}", variant) if is_ranked else [],
        }
    sys.exit(
        f"error: config: systems.{wildcards.system}: expected train queries that {trained[0]} does not learn from, to "
        f"learn weights. Set recipes.{experiment.recipe_name(config, wildcards.dataset)}.held_out, or take weights: equal."
    )


rule fusion_weights:
    input:
        unpack(judged_to_mix_by),
        queries=data("queries.{train}.jsonl"),
        qrels=data("qrels.{train}.tsv"),
    output:
        weights="results/{dataset}/systems/{system}/{variant}/weights.json",
        manifest="results/{dataset}/systems/{system}/{variant}/weights.json.manifest.json",
    log:
        "results/{dataset}/logs/fusion_weights.{system}.{variant}.log",
    wildcard_constraints:
        system=names(experiment.systems_of_kind(config, "fusion")),
    conda:
        "../../envs/data.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        job=SPECS.job(
            "fusion_weights", settings=["system", "metrics.relevant_grade"], packages=["numpy", "scipy"]
        ),
    shell:
        RUN


rule fusion:
    input:
        runs=runs_of_parts("of"),
        weights=weights_if_learnt,
        queries=data("queries.{split}.jsonl"),
        subset=subset_of_split,
    output:
        run="results/{dataset}/systems/{system}/{variant}/run.{split}.trec",
        manifest="results/{dataset}/systems/{system}/{variant}/run.{split}.trec.manifest.json",
    log:
        "results/{dataset}/logs/fusion.{system}.{variant}.{split}.log",
    wildcard_constraints:
        system=names(experiment.systems_of_kind(config, "fusion")),
    conda:
        "../../envs/data.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(240),
    params:
        job=SPECS.job("fusion", settings=["system", "depth"]),
    shell:
        RUN
