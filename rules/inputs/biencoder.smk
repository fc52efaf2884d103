# Inputs of the rules in rules/systems/biencoder.smk.


def shard_to_encode(wildcards):
    """The tokens of a job's shard, by the tokenizer of its system's model."""
    return token_file(wildcards.dataset, initial_of(wildcards), f"collection.{wildcards.shard}")


def learnt_by(wildcards):
    """The file that says from which of these passages the encoder has learnt, if it stays when texts change."""
    rule_name, names = owner_of(encoder_of(wildcards))
    is_own = names.get("dataset") == wildcards.dataset
    return KEPT.options(rule_name, names).get("learnt") if is_own else None
