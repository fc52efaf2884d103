# Inputs of the rules in rules/systems/sentence_encoder.smk.


def start_of_sentences(wildcards):
    """The weights that the training of a sentence encoder starts from; those of another data set's training."""
    refuse_few_positions(wildcards)
    entry = config.systems[wildcards.system]
    if entry.first_on in (None, wildcards.dataset):
        return initial_file(wildcards)
    return encoder_file(entry.first_on, wildcards.system, f"seed{config.seed}")
