# The mean of words' vectors. Needs: the user's file of vectors, and pairs or triplets. Makes: similarities.


rule word_similarities:
    input:
        vectors=lambda wildcards: config.systems[wildcards.system].path,
        sentences=data("items.{split}.jsonl"),
    output:
        similarities="results/{dataset}/systems/{system}/{variant}/similarities.{split}.tsv",
        manifest="results/{dataset}/systems/{system}/{variant}/similarities.{split}.tsv.manifest.json",
    log:
        "results/{dataset}/logs/word_similarities.{system}.{variant}.{split}.log",
    wildcard_constraints:
        system=names(config.systems_of_kind("word_vectors")),
        variant="untrained",
    conda:
        "../../envs/torch.yaml"
    resources:
        mem_mb=growing(8000),
        runtime=growing(60),
    params:
        job=SPECS.job(
            "word_similarities",
            settings=["dataset.source"],
            packages=SENTENCE_PACKAGES,
            modules=source_module,
        ),
    shell:
        RUN
