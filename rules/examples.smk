# Training examples: train queries with positives, and negatives sampled from a system's run of them, or
# from official files that hold that system's negatives. A teacher that denoises them is first compared with its
# candidates.


rule examples:
    input:
        unpack(negatives_source),
        unpack(compared_with_candidates),
        queries=data("queries.{train}.jsonl"),
        qrels=data("qrels.{train}.tsv"),
        collection=texts_of_negatives,
        subset=subset_file,
    output:
        examples="results/{dataset}/systems/{system}/{variant}/examples.jsonl",
        manifest="results/{dataset}/systems/{system}/{variant}/examples.jsonl.manifest.json",
    log:
        "results/{dataset}/logs/examples.{system}.{variant}.log",
    conda:
        "../envs/data.yaml"
    resources:
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        job=SPECS.job(
            "examples",
            settings=[
                "dataset.source",
                "dataset.split",
                "recipe.negatives",
                "metrics.relevant_grade",
                "seed",
            ],
            packages=["numpy"],
            modules=source_module,
        ),
    shell:
        RUN


# Needs: a teacher's run of queries without judgements. Makes: training examples of these queries, by its scores or,
# of queries that are made from passages, with these passages as positives.
rule pseudo_labels:
    input:
        unpack(compared_with_candidates),
        run=run_of_job,
        queries=data("queries.{split}.jsonl"),
        known=queries_of_splits,
        collection=texts_of_negatives,
        qrels=judgements_of_comparison,
    output:
        examples="results/{dataset}/systems/{system}/{variant}/pseudo_labels.{split}.jsonl",
        manifest="results/{dataset}/systems/{system}/{variant}/pseudo_labels.{split}.jsonl.manifest.json",
    log:
        "results/{dataset}/logs/pseudo_labels.{system}.{variant}.{split}.log",
    wildcard_constraints:
        system=names(RANKERS),
    conda:
        "../envs/data.yaml"
    resources:
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        job=SPECS.job(
            "pseudo_labels",
            settings=["dataset.split", "recipe.negatives", "metrics.relevant_grade", "seed"],
            packages=["numpy"],
        ),
    shell:
        RUN
