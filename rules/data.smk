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
        job=SPECS.job("download", options=vars(config.downloads)),
    shell:
        RUN


# Needs: installed packages, a folder of the user's, or official files.
# Makes: the canonical collection, queries and judgements, checked and counted.
# One rule a data set, because the configuration chooses the splits that it makes.
for name, entry in config.datasets.items():

    rule:
        name:
            f"collect_{name}"
        input:
            downloads=[f"results/downloads/{file}" for file in entry.raw_files()],
            files=list(map(str, entry.local_files())),
        output:
            files=[
                f"results/{name}/data/{file}"
                for file in (
                    *("collection.jsonl", "doc_ids.txt", "rejected.jsonl", "counts.json"),
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
            job=SPECS.job(
                "collect",
                dataset=name,
                settings=["dataset"],
                packages=lambda settings: ["datasets", *settings.dataset.installed()],
                modules=source_module,
            ),
        shell:
            RUN


# Needs: a file of queries without judgements, or official files that hold some. Makes: the same as the queries of a
# split, checked and counted. One rule a data set, as only some have such files; apart from collect_<dataset>, so
# that nothing else runs again.
for name, entry in config.datasets.items():
    if sources.unjudged_names(entry):

        rule:
            name:
                f"queries_{name}"
            input:
                files=lambda wildcards, entry=entry: [
                    str(file) for split, file in sources.unjudged(entry).items() if split == wildcards.split
                ],
                downloads=lambda wildcards, entry=entry: [
                    f"results/downloads/{file}"
                    for file in entry.unjudged_files()
                    if entry.unjudged == wildcards.split
                ],
                texts=lambda wildcards, name=name, entry=entry: [
                    f"results/{name}/data/{file}"
                    for file in ("collection.jsonl", "doc_ids.txt")
                    if wildcards.split in sources.unjudged(entry)
                ],
            output:
                queries=f"results/{name}/queries/{{split}}/queries.{{split}}.jsonl",
                rejected=f"results/{name}/queries/{{split}}/rejected.jsonl",
                counts=f"results/{name}/queries/{{split}}/counts.json",
                manifest=f"results/{name}/queries/{{split}}.manifest.json",
            log:
                f"results/{name}/logs/queries.{{split}}.log",
            wildcard_constraints:
                split=names(sources.unjudged_names(entry)),
            conda:
                "../envs/data.yaml"
            resources:
                mem_mb=growing(4000),
                runtime=growing(60),
            params:
                job=SPECS.job(
                    "queries",
                    dataset=name,
                    settings=["dataset.source", "dataset.bad_rows", "dataset.split"],
                    modules=source_module,
                ),
            shell:
                RUN


# Needs: the collection. Makes: queries from it, as files of the same form as those of a split.
rule extracted:
    input:
        collection=data("collection.jsonl"),
    output:
        queries="results/{dataset}/queries/{split}/queries.{split}.jsonl",
        counts="results/{dataset}/queries/{split}/counts.json",
        manifest="results/{dataset}/queries/{split}.manifest.json",
    log:
        "results/{dataset}/logs/extracted.{split}.log",
    wildcard_constraints:
        split=names(config.extracted),
    conda:
        "../envs/torch.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        job=SPECS.job(
            "extracted", settings=["query_set", "extraction", "dataset.split"], packages=["sentencex"]
        ),
    shell:
        RUN


# Needs: the collection and a tokenizer. Makes: memory-mapped 16-bit token shards, cut as embeddings are.
rule tokens:
    input:
        collection=data("collection.jsonl"),
        doc_ids=data("doc_ids.txt"),
        tokenizer=file_of_model("tokenizer.json"),
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
        job=SPECS.job(
            "tokens",
            settings=["encode.block_rows", "encode.separator"],
            packages=["tokenizers", "sentencex"],
        ),
    shell:
        RUN


rule query_tokens:
    input:
        queries=data("queries.{split}.jsonl"),
        tokenizer=file_of_model("tokenizer.json"),
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
        job=SPECS.job("query_tokens", packages=["tokenizers"]),
    shell:
        RUN


# Needs: the counts of all token shards, and the backbone. Makes: how long the texts of a data set are, which
# notes under tables and `lengths: auto` read.
rule lengths:
    input:
        model=file_of_model("model.safetensors"),
        passages=[f"results/{{dataset}}/tokens/{{model}}/collection.{shard}.counts.json" for shard in SHARDS],
        queries=lambda wildcards: [
            f"results/{wildcards.dataset}/tokens/{wildcards.model}/queries.{split}.counts.json"
            for split in config.datasets[wildcards.dataset].splits
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
        job=SPECS.job("lengths", settings=["auto_lengths"], packages=["numpy", "tokenizers"]),
    shell:
        RUN


# Needs: the train queries or sentences, and the examples that official files give for them. Makes: the ids of a
# subset; of one seed, smaller ones lie inside larger ones.
rule subset:
    input:
        queries=train_items,
        examples=given_examples,
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
        job=SPECS.job("subset", settings=["train_queries", "seed"], packages=["numpy"]),
    shell:
        RUN


# Needs: the train queries. Makes: the ids of those that no training sees, to compare and to mix what was trained.
rule held_out:
    input:
        queries=data("queries.{train}.jsonl"),
        subset=subset_file,
    output:
        ids="results/{dataset}/held_out/{variant}.txt",
        manifest="results/{dataset}/held_out/{variant}.txt.manifest.json",
    log:
        "results/{dataset}/logs/held_out.{variant}.log",
    conda:
        "../envs/data.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        job=SPECS.job("held_out", settings=["recipe.held_out", "seed"], packages=["numpy"]),
    shell:
        RUN


# Makes: all that comes from outside, so that the rest can run on nodes without a network.
rule prefetch:
    input:
        prefetch_inputs,
    localrule: True
