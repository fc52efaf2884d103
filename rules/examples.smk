# Training examples: train queries with positives, and negatives sampled from a system's run of them, or
# from official files that hold that system's negatives.


rule examples:
    input:
        unpack(negatives_source),
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
        job=job(
            "examples",
            settings=["dataset.source", "dataset.split", "recipe.negatives", "seed"],
            packages=["numpy"],
            modules=source_module,
        ),
    shell:
        RUN
