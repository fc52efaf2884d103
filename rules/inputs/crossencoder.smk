# Inputs of the rules in rules/systems/crossencoder.smk.


def hits_to_rerank(wildcards):
    """The run of a system's candidates."""
    candidates = config.systems[wildcards.system].candidates
    return run_file(wildcards.dataset, candidates, wildcards.variant, wildcards.split)
