# Texts: official files, the canonical files of each data set, token shards, subsets of the train queries.


# Needs: the network, or a mirror folder. Makes: official files, checked.
rule download:
    output:
        file="results/downloads/{file}",
        manifest="results/downloads/{file}.manifest.json",
    log:
        "results/downloads/logs/{file}.log",
    wildcard_constraints:
        file=r".+(?<!\.manifest\.json)",
    retries: 1
    localrule: True
    conda:
        "../envs/data.yaml"
    params:
        program=program("download"),
        options=DOWNLOADS,
        spec=spec("download"),
    shell:
        "{params.program} --spec {params.spec:q} --output {output.file:q}"
        " {params.options} --manifest {output.manifest:q} 2>&1 | tee {log:q}"


# Needs: installed packages, a folder of the user's, or official files.
# Makes: the canonical collection, queries and judgements, checked and counted.
# One rule a data set, because the configuration chooses the splits that it makes.
for name, entry in config["datasets"].items():

    rule:
        name:
            f"collect_{name}"
        input:
            [f"results/downloads/{file}" for file in sources.raw_files(entry)],
            list(map(str, sources.local_files(entry))),
        output:
            [
                f"results/{name}/data/{file}"
                for file in (
                    *(
                        "collection.jsonl",
                        "doc_ids.txt",
                        "rejected.jsonl",
                        "counts.json",
                    ),
                    *sources.split_files(entry),
                )
            ],
            manifest=f"results/{name}/data.manifest.json",
        log:
            f"results/{name}/logs/collect.log",
        benchmark:
            f"results/{name}/benchmarks/collect.tsv"
        conda:
            "../envs/data.yaml"
        resources:
            mem_mb=growing(8000),
            runtime=growing(480),
        params:
            program=program("collect"),
            spec=spec(
                "collect",
                named=f"collect_{name}",
                fixed={"dataset": name},
                settings=["dataset"],
                packages=lambda settings: [
                    "datasets",
                    *sources.packages(settings["dataset"]),
                ],
                modules=source_module,
            ),
            folder=lambda wildcards, output: os.path.dirname(output[0]),
        shell:
            "{params.program} --spec {params.spec:q} --raw {input:q}"
            " --output {params.folder:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"


# Needs: a file of queries without judgements. Makes: the same as the queries of a split, checked and counted.
# One rule a data set, as only some have such files; apart from collect_<dataset>, so that nothing else runs again.
for name, entry in config["datasets"].items():
    if sources.unjudged(entry):

        rule:
            name:
                f"queries_{name}"
            input:
                file=lambda wildcards, entry=entry: str(
                    sources.unjudged(entry)[wildcards.split]
                ),
            output:
                queries=f"results/{name}/queries/{{split}}/queries.{{split}}.jsonl",
                rejected=f"results/{name}/queries/{{split}}/rejected.jsonl",
                counts=f"results/{name}/queries/{{split}}/counts.json",
                manifest=f"results/{name}/queries/{{split}}.manifest.json",
            log:
                f"results/{name}/logs/queries.{{split}}.log",
            wildcard_constraints:
                split=names(sources.unjudged(entry)),
            conda:
                "../envs/data.yaml"
            resources:
                mem_mb=growing(4000),
                runtime=growing(60),
            params:
                program=program("queries"),
                spec=spec(
                    "queries",
                    named=f"queries_{name}",
                    fixed={"dataset": name},
                    settings=["dataset.bad_rows"],
                ),
                folder=lambda wildcards, output: os.path.dirname(output.queries),
            shell:
                "{params.program} --spec {params.spec:q} --file {input.file:q}"
                " --output {params.folder:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"


# Needs: the collection and a tokenizer. Makes: memory-mapped 16-bit token shards, cut as embeddings are.
rule tokens:
    input:
        collection=data("collection.jsonl"),
        doc_ids=data("doc_ids.txt"),
        tokenizer=lambda wildcards: model_file(
            wildcards.dataset, wildcards.model, "tokenizer.json"
        ),
    output:
        tokens="results/{dataset}/tokens/{model}/collection.{shard}.tokens.npy",
        counts="results/{dataset}/tokens/{model}/collection.{shard}.counts.json",
        manifest="results/{dataset}/tokens/{model}/collection.{shard}.manifest.json",
    log:
        "results/{dataset}/logs/tokens.{model}.{shard}.log",
    benchmark:
        "results/{dataset}/benchmarks/tokens.{model}.{shard}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        program=program("tokens"),
        spec=spec(
            "tokens",
            settings=["encode.block_rows", "encode.separator"],
            packages=["tokenizers", "sentencex"],
        ),
        prefix=lambda wildcards, output: output.tokens.removesuffix(".tokens.npy"),
    shell:
        "{params.program} --spec {params.spec:q} --collection {input.collection:q}"
        " --doc-ids {input.doc_ids:q} --tokenizer $(dirname {input.tokenizer:q})"
        " --shard {wildcards.shard} --output-prefix {params.prefix:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule query_tokens:
    input:
        queries=data("queries.{split}.jsonl"),
        tokenizer=lambda wildcards: model_file(
            wildcards.dataset, wildcards.model, "tokenizer.json"
        ),
    output:
        tokens="results/{dataset}/tokens/{model}/queries.{split}.tokens.npy",
        counts="results/{dataset}/tokens/{model}/queries.{split}.counts.json",
        manifest="results/{dataset}/tokens/{model}/queries.{split}.manifest.json",
    log:
        "results/{dataset}/logs/query_tokens.{model}.{split}.log",
    conda:
        "../envs/torch.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        program=program("query_tokens"),
        spec=spec("query_tokens", packages=["tokenizers"]),
        prefix=lambda wildcards, output: output.tokens.removesuffix(".tokens.npy"),
    shell:
        "{params.program} --spec {params.spec:q} --queries {input.queries:q}"
        " --tokenizer $(dirname {input.tokenizer:q}) --output-prefix {params.prefix:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


# Needs: the counts of all token shards, and the backbone. Makes: how long the texts of a data set are, which
# notes under tables and `lengths: auto` read.
rule lengths:
    input:
        model=lambda wildcards: model_file(wildcards.dataset, wildcards.model),
        passages=[
            f"results/{{dataset}}/tokens/{{model}}/collection.{shard}.counts.json"
            for shard in SHARDS
        ],
        queries=lambda wildcards: [
            f"results/{wildcards.dataset}/tokens/{wildcards.model}/queries.{split}.counts.json"
            for split in sources.splits(config["datasets"][wildcards.dataset])
        ],
    output:
        lengths="results/{dataset}/tokens/{model}/lengths.json",
        manifest="results/{dataset}/tokens/{model}/lengths.json.manifest.json",
    log:
        "results/{dataset}/logs/lengths.{model}.log",
    wildcard_constraints:
        model=names(CHECKPOINTS),
    conda:
        "../envs/torch.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        program=program("lengths"),
        spec=spec("lengths", packages=["numpy", "tokenizers"]),
        queries=given("queries"),
    shell:
        "{params.program} --spec {params.spec:q} --model $(dirname {input.model:q})"
        " --passages {input.passages:q} {params.queries} --output {output.lengths:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


# Needs: the train queries or sentences. Makes: the ids of a subset; of one seed, smaller ones lie inside larger
# ones.
rule subset:
    input:
        queries=train_items,
    output:
        ids="results/{dataset}/subsets/{variant}.txt",
        manifest="results/{dataset}/subsets/{variant}.txt.manifest.json",
    log:
        "results/{dataset}/logs/subset.{variant}.log",
    conda:
        "../envs/data.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        program=program("subset"),
        spec=spec("subset", settings=["train_queries", "seed"], packages=["numpy"]),
    shell:
        "{params.program} --spec {params.spec:q} --queries {input.queries:q}"
        " --output {output.ids:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"


# Makes: all that comes from outside, so that the rest can run on nodes without a network.
rule prefetch:
    input:
        prefetch_inputs,
    localrule: True
