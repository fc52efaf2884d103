# Inputs of the rules in rules/systems/biencoder.smk.


def shard_to_encode(wildcards):
    """The tokens of a job's shard, by the tokenizer of its system's model."""
    return token_file(wildcards.dataset, initial_of(wildcards), f"collection.{wildcards.shard}")
