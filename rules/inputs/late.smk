# Inputs of the rules in rules/systems/late.smk.


def kept_states(part):
    """The files of token states that the bi-encoder with the same weights keeps; none where there is none."""

    def of(wildcards):
        other = config.systems[wildcards.system].states_from
        if other is None:
            return []
        variant = other.ranking_variant(wildcards.variant)
        return [
            system_file(wildcards.dataset, other.key, variant, f"embeddings/collection.{shard}.{part}.npy")
            for shard in SHARDS
        ]

    return of
