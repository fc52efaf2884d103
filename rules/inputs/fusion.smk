# Inputs of the rules in rules/systems/fusion.smk.


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
