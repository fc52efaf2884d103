# Inputs of the rules in rules/systems/bm25.smk.

from condenser.papers.generator_files import generator_files
from condenser.retrieve.bm25 import expansion_of, index_name, variant_of


def index_of(system, variant):
    """The index of a variant of a BM25 system."""
    entry = config.systems[system]
    return index_name(entry.language, entry.expanded_passages, variant)


def index_pattern(system):
    """The indexes of a BM25 system, one or one for each variant, as a regular expression."""
    index = re.escape(index_of(system, variants.UNTRAINED))
    return rf"{index}\.{variants.FITTED}" if config.systems[system].learns else index


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
    _, seed = variants.parse_variant(wildcards.variant)
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
