# Inputs of the rules in rules/systems/fusion.smk.


def weights_if_learnt(wildcards):
    """The weights of a fusion that learns them."""
    if not config.systems[wildcards.system].learns:
        return []
    return system_file(wildcards.dataset, wildcards.system, wildcards.variant, "weights.json")


def judged_to_mix_by(wildcards):
    """The train queries (`subset`) that weights of a fusion are learnt from, and the `runs` of its parts.

    If a part learnt from train queries, these are held-out ones, and the part's twin that never saw them ranks them.
    Where a variant has too few queries to hold any out, there is nothing to rank, and the weights are equal.
    """
    train = split_of(wildcards.dataset, "train_split")
    trained = [part for part in config.systems[wildcards.system].of if config.systems[part].has_sizes]
    if not trained:
        return {"subset": subset_file(wildcards), "runs": runs_of(wildcards, "of", train)}
    variant = config.datasets[wildcards.dataset].crossfit_variant(wildcards.variant)
    if file := held_out_file(wildcards.dataset, variant):
        is_ranked = config.datasets[wildcards.dataset].may_hold_out(variant)
        return {
            "subset": file,
            "runs": runs_of(wildcards, "of", f"{train}{variants.HELD_OUT}", variant) if is_ranked else [],
        }
    sys.exit(
        f"error: config: systems.{wildcards.system}: expected train queries that {trained[0]} does not learn from, to "
        f"learn weights. Set recipes.{config.datasets[wildcards.dataset].recipe_name}.held_out, or take weights: equal."
    )
