# Inputs of the rules that depend on the configuration.

import os
import sys
from pathlib import Path

from condenser import experiment
from condenser.config.positions import check_longest_row, layers_and_positions
from condenser.data import sources
from condenser.data.generators import generator_files
from condenser.data.official import OFFICIAL_FILES
from condenser.evaluate import columns, figures, measures, notes, published
from condenser.experiment import tables
from condenser.objectives import checkpoint as checkpoints
from condenser.retrieve.bm25 import expansion_of, index_name, variant_of
from condenser.settings import AUTO


def default_tables(overlay, dataset, table):
    """The tables that are made without a target: those of the data sets and tables that an overlay speaks of."""
    spoken_of = overlay.get("datasets") or [dataset]
    measured = [name for name in spoken_of if config.datasets[name].is_measured]
    return [
        f"results/{of}/{name}.tsv"
        for of in measured or spoken_of
        for name in overlay.get("tables") or tables_of_sentences(of) or [table]
    ]


def tables_of_sentences(dataset):
    """The tables that have rows for a data set of sentences; none of one with queries."""
    entry = config.datasets.get(dataset)
    if entry is None or entry.TASK is None:
        return []
    return [name for name, one in config.tables.items() if dataset in one.by_dataset]


def prefetch_inputs(wildcards):
    """Official files, texts that are read from a network, and checkpoints of the hub.

    Of the data sets of sentences only those that an overlay speaks of.
    """
    files = set()
    spoken_of = workflow.config_settings.overwrite_config.get("datasets") or {}
    for dataset, entry in config.datasets.items():
        if entry.TASK and dataset not in spoken_of:
            continue
        raw = [*entry.raw_files(), *entry.unjudged_files()]
        for system in config.systems:
            raw += entry.example_files(system)
        files.update(f"results/downloads/{name}" for name in raw)
        if entry.NEEDS_NETWORK:
            files.add(f"results/{dataset}/data/collection.jsonl")
        for model in CHECKPOINTS:
            if checkpoints.needs_network(config.models[model]):
                files.add(model_file(dataset, model))
    return sorted(files)


def to_bring(needed):
    """What jobs fetch from the network, a line each: address, bytes, and its place in the mirror, which lacks it."""
    from condenser.data.download import mirror_places  # imports a client of HTTP

    mirror, lines = Path(config.downloads.mirror or os.environ.get("CONDENSER_MIRROR", "MIRROR")), []
    for job in needed:
        name = job.rule.name.removeprefix("collect_")
        model = config.models.get(job.wildcards_dict.get("model")) if name == "checkpoint" else None
        if name == "download" and (file := OFFICIAL_FILES.get(job.wildcards.file)):
            places = mirror_places(file.url, mirror)
            size = "unknown size" if file.num_bytes is None else f"{file.num_bytes:,} bytes"
            if not any(map(Path.is_file, places)):
                lines.append(f"{file.url}, {size}: {places[0]}")
        elif model and checkpoints.needs_network(model) and not (mirror / model.id).is_dir():
            lines.append(f"https://huggingface.co/{model.id}: {mirror / model.id}/")
        elif name != job.rule.name:
            for part in vars(config.datasets[name]).get("parts", []):
                if not Path(part.id).is_dir():
                    place = f"any folder, as id in datasets.{name}.parts"
                    lines.append(f"https://huggingface.co/datasets/{part.id}: {place}")
    return list(dict.fromkeys(lines))


def folder_files(wildcards):
    """The user's own files of a checkpoint; a folder that cannot be used ends what needs it with a line."""
    name = wildcards.model
    try:
        layers_and_positions(config.models[name], f"models.{name}")
        return list(map(str, checkpoints.local_files(config.models[name])))
    except ValueError as error:
        sys.exit(f"error: config: {error}")
    except OSError as error:
        sys.exit(
            f"error: config: models.{name}.path: expected to list {error.filename}, got: {error.strerror}. "
            "Correct the rights."
        )


def vocabulary_texts(wildcards):
    """The collection, where a new vocabulary is learnt from it."""
    if checkpoints.learns_vocabulary(config.models[wildcards.model]):
        return f"results/{wildcards.dataset}/data/collection.jsonl"
    return []


def weights_of_system(wildcards):
    """The weights of a system of any data set, where a checkpoint is its model."""
    entry = config.models[wildcards.model]
    if not config.models[wildcards.model].is_of_system:
        return []
    return encoder_file(entry.dataset, entry.system, entry.variant or f"seed{config.seed}")


def negatives_source(wildcards):
    """The official files that hold a system's negatives, else its run of the train queries."""
    entry = config.datasets[wildcards.dataset]
    given = entry.example_files(wildcards.system)
    if given:
        return {"raw": [f"results/downloads/{name}" for name in given], "run": []}
    return {
        "raw": [],
        "run": run_file(
            wildcards.dataset, wildcards.system, wildcards.variant, split_of(wildcards.dataset, "train_split")
        ),
    }


def given_examples(wildcards):
    """The examples of all train queries by the first system whose negatives official files give; else none."""
    entry = config.datasets[wildcards.dataset]
    _, seed = experiment.parse_variant(wildcards.variant)
    return next(
        (
            system_file(wildcards.dataset, name, f"seed{seed}", "examples.jsonl")
            for name in config.systems
            if entry.example_files(name)
        ),
        [],
    )


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


def weigher_of(wildcards):
    """How the model of an expansion's term weights is trained."""
    return config.expansions[wildcards.expansion].trained


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


def runs_of(wildcards, key, split=None, variant=None):
    """The runs of the systems that a key of a system names, in order; of the job's split and variant by default."""
    return [
        run_file(wildcards.dataset, system, variant or wildcards.variant, split or wildcards.split)
        for system in vars(config.systems[wildcards.system])[key]
    ]


def weights_if_learnt(wildcards):
    """The weights of a fusion that learns them."""
    if not experiment.learns(config, wildcards.system):
        return []
    return system_file(wildcards.dataset, wildcards.system, wildcards.variant, "weights.json")


def candidates_of(wildcards):
    """The weights of the candidates that a model is chosen from, in order."""
    dataset, asked = wildcards.dataset, f"seed{config.seed}"
    return [
        encoder_file(dataset, system, experiment.ranking_variant(config, system, asked))
        for system in config.models[wildcards.model].of
    ]


def rankings_to_choose_by(wildcards):
    """For one set of queries after another: its queries, the candidates' runs, and the voters' where they judge."""
    entry, dataset = config.models[wildcards.model], wildcards.dataset
    sets, asked = [*entry.queries, *entry.unjudged], f"seed{config.seed}"

    def runs(splits, systems):
        return [run_file(dataset, system, asked, split) for split in splits for system in systems]

    return {
        "queries": [queries_of_split(dataset, split) for split in sets],
        "runs": runs(sets, entry.of),
        "votes": runs(entry.unjudged, entry.voters),
    }


def initial_of(wildcards):
    """The model that a system starts from, itself or through other systems."""
    return experiment.initial_model(config, wildcards.system)


def initial_file(wildcards):
    """The weights that a pre-training or the fine-tuning of a system starts from."""
    if wildcards.get("model") is not None:
        model, seed = experiment.model_of(config, wildcards.model)
        return model_file(wildcards.dataset, config.models[model].initial, seed=seed)
    return start_of(wildcards.dataset, wildcards.system, wildcards.variant)


def start_of(dataset, system, variant):
    """The weights that a variant of a system starts from: of a model, or of the same variant of a system."""
    if other := experiment.starts_from(config, system):
        return encoder_file(dataset, other, experiment.ranking_variant(config, other, variant))
    _, seed = experiment.parse_variant(variant)
    return model_file(dataset, config.systems[system].initial, seed=seed)


def examples_of(wildcards):
    """The examples of the systems whose negatives a system learns from, in order, then those of pseudo-labels."""
    entry = config.systems[wildcards.system]
    files = [(name, "examples.jsonl") for name in entry.negatives]
    if labels := entry.pseudo_labelled:
        files.append((labels.teacher, f"pseudo_labels.{labels.queries}.jsonl"))
    return [system_file(wildcards.dataset, system, wildcards.variant, file) for system, file in files]


def queries_to_learn_from(name):
    """The files (`queries`, `tokens`) of what a system learns from: train queries, and others without judgements."""

    def of(wildcards):
        dataset, entry = wildcards.dataset, config.systems[wildcards.system]
        splits = [split_of(dataset, "train_split")] if entry.negatives else []
        splits += [taught.queries for taught in entry.taught_by.values()]
        if name == "tokens":
            return [token_file(dataset, initial_of(wildcards), f"queries.{split}") for split in splits]
        return [queries_of_split(dataset, split) for split in splits]

    return of


def held_out_file(dataset, variant):
    """The train queries that no training of a variant sees; none where all are trained on."""
    if not experiment.leaves_out(config, dataset, variant):
        return []
    return f"results/{dataset}/held_out/{variant.removeprefix(experiment.CROSSFIT)}.txt"


def judged_to_mix_by(wildcards):
    """The train queries (`subset`) that weights of a fusion are learnt from, and the `runs` of its parts.

    If a part learnt from train queries, these are held-out ones, and the part's twin that never saw them ranks them.
    Where a variant has too few queries to hold any out, there is nothing to rank, and the weights are equal.
    """
    train = split_of(wildcards.dataset, "train_split")
    trained = [part for part in config.systems[wildcards.system].of if experiment.has_sizes(config, part)]
    if not trained:
        return {"subset": subset_file(wildcards), "runs": runs_of(wildcards, "of", train)}
    variant = experiment.crossfit_variant(config, wildcards.dataset, wildcards.variant)
    if file := held_out_file(wildcards.dataset, variant):
        is_ranked = experiment.may_hold_out(config, wildcards.dataset, variant)
        return {
            "subset": file,
            "runs": runs_of(wildcards, "of", f"{train}{experiment.HELD_OUT}", variant) if is_ranked else [],
        }
    sys.exit(
        f"error: config: systems.{wildcards.system}: expected train queries that {trained[0]} does not learn from, to "
        f"learn weights. Set recipes.{experiment.recipe_name(config, wildcards.dataset)}.held_out, or take weights: equal."
    )


def queries_of_splits(wildcards):
    """The queries of all splits of a data set."""
    return [
        f"results/{wildcards.dataset}/data/queries.{split}.jsonl"
        for split in config.datasets[wildcards.dataset].splits
    ]


def compared_with_candidates(wildcards):
    """The runs of the held-out train queries of a teacher and of its candidates, to compare them by.

    Also the candidates' run of all train queries, for a teacher that is not better. Nothing where no query is held
    out, and of systems that are no teachers.
    """
    teacher = wildcards.system
    is_teacher = experiment.denoising(config, teacher) is not None
    is_compared = is_teacher and experiment.may_hold_out(config, wildcards.dataset, wildcards.variant)
    variant = experiment.crossfit_variant(config, wildcards.dataset, wildcards.variant)
    held_out = held_out_file(wildcards.dataset, variant) if is_compared else []
    if not held_out:
        return dict.fromkeys(("compared_runs", "candidates_run", "held_out"), [])
    split = split_of(wildcards.dataset, "train_split")
    candidates = config.systems[teacher].candidates
    compared = split if variant == wildcards.variant else f"{split}{experiment.HELD_OUT}"
    return {
        "compared_runs": [
            run_file(wildcards.dataset, system, variant, compared) for system in (teacher, candidates)
        ],
        "candidates_run": run_file(wildcards.dataset, candidates, wildcards.variant, split),
        "held_out": held_out,
    }


def judgements_of_comparison(wildcards):
    """The judgements of the train queries, by which a teacher whose scores count is compared."""
    return data("qrels.{train}.tsv")(wildcards) if experiment.denoising(config, wildcards.system) else []


def teacher_run(wildcards):
    """The run of a distillation's teacher, of the taught queries; none of other systems."""
    if taught := config.systems[wildcards.system].taught_by.get("distillation"):
        return run_file(wildcards.dataset, taught.teacher, wildcards.variant, taught.queries)
    return []


def encoder_of(wildcards):
    """The weights of a bi-encoder: its own, or those of the model that it is without fine-tuning."""
    return encoder_file(wildcards.dataset, wildcards.system, wildcards.variant)


def encoder_file(dataset, system, variant):
    """The weights of one variant of a bi-encoder."""
    if config.systems[system].is_trained:
        return system_file(dataset, system, variant, "model/model.safetensors")
    return start_of(dataset, system, variant)


def lengths_if_auto(*texts):
    """An input: how long the texts are, where the recipe says `auto` for these; else none."""

    def of(wildcards):
        system = config.systems[wildcards.system]
        lengths = experiment.recipe(config, wildcards.dataset, system).lengths
        if AUTO in [vars(lengths)[text] for text in texts]:
            return lengths_file(wildcards.dataset, initial_of(wildcards))
        return []

    return of


def long_encoder_of(wildcards):
    """The weights of an encoder whose rows may be longer than a passage, if it has positions for them."""
    refuse_few_positions(wildcards)
    return encoder_of(wildcards)


def refuse_few_positions(wildcards):
    """End with a line where a system has too few positions for its longest row."""
    try:
        check_longest_row(config, wildcards.dataset, wildcards.system)
    except ValueError as error:
        sys.exit(f"error: config: {error}")


def start_of_sentences(wildcards):
    """The weights that the training of a sentence encoder starts from; those of another data set's training."""
    refuse_few_positions(wildcards)
    entry = config.systems[wildcards.system]
    if entry.first_on in (None, wildcards.dataset):
        return initial_file(wildcards)
    return encoder_file(entry.first_on, wildcards.system, f"seed{config.seed}")


def evaluation_files(wildcards):
    """Queries, their vectors, judgements and metrics of the evaluation split; none where no query is judged."""
    if not config.datasets[wildcards.dataset].is_measured:
        return dict.fromkeys(("queries", "qrels", "query_embeddings", "metrics"), [])
    split = split_of(wildcards.dataset, "eval_split")
    return {
        "queries": f"results/{wildcards.dataset}/data/queries.{split}.jsonl",
        "qrels": f"results/{wildcards.dataset}/data/qrels.{split}.tsv",
        "query_embeddings": system_file(
            wildcards.dataset, wildcards.system, wildcards.variant, f"embeddings/queries.{split}.npy"
        ),
        "metrics": system_file(
            wildcards.dataset, wildcards.system, wildcards.variant, f"metrics.{split}.json"
        ),
    }


def texts_with_answers(wildcards):
    """The passages and the queries, where a measure looks for answers in texts."""
    asked = experiment.metrics(config, wildcards.dataset, wildcards.split).measures
    if not any(measures.parse(name).needs_answers for name in asked):
        return []
    files = ("collection.jsonl", f"queries.{wildcards.split}.jsonl")
    return [f"results/{wildcards.dataset}/data/{file}" for file in files]


def check_rows_fit(dataset, name, systems):
    """See that what a table or figure shows are systems for what its data set has: queries, or sentences."""
    for row in systems:
        if not config.systems[row].fits(config.datasets[dataset]):
            has = config.datasets[dataset].TASK
            sys.exit(
                f"error: results/{dataset}/{name}: expected rows of systems for "
                f"{'sentences' if has else 'queries'}, got {row}. Ask for another table or figure."
            )


def rows_that_fit(wildcards):
    """The rows of a table."""
    dataset, table = wildcards.dataset, wildcards.table
    entry = tables.table_entry(config, dataset, table)
    check_rows_fit(dataset, f"{table}.tsv", entry.rows)
    return tables.table_rows(config, dataset, table)


def texts_of_negatives(wildcards):
    """The passages, where those of a run that hold an answer are no negatives."""
    dataset = config.datasets[wildcards.dataset]
    recipe = experiment.recipe(config, wildcards.dataset, config.systems[wildcards.system])
    if not recipe.negatives.without_answers or dataset.example_files(wildcards.system):
        return []
    return f"results/{wildcards.dataset}/data/collection.jsonl"


def places_of_table(wildcards):
    """Where the columns of a table are measured: data sets and evaluation sets, in order."""
    try:
        of_table, _ = tables.table_columns(config, wildcards.dataset, wildcards.table)
    except ValueError as error:
        sys.exit(f"error: results/{wildcards.dataset}/{wildcards.table}.tsv: {error}")
    return columns.places(of_table)


def metrics_of_table(wildcards):
    """The metrics of each row of a table and each of its variants, for one place after another."""
    rows = rows_that_fit(wildcards)
    return [
        system_file(dataset, row["system"], variant, f"metrics.{split}.json")
        for dataset, split in places_of_table(wildcards)
        for row in rows
        for variant in row["variants"]
    ]


def noted_of_table(wildcards):
    """What the notes under a table are made from: lengths of texts, losses of trainings, what was kept of them, and counts.

    The counts are in the manifests of the jobs behind the rows.
    """
    dataset = wildcards.dataset
    noted = tables.table_notes(config, dataset, wildcards.table)
    of_texts = [lengths_file(one["dataset"], one["model"]) for one in noted["texts"]]
    losses = [
        (
            model_file(dataset, one["model"], "losses.jsonl", seed=one["seed"])
            if "model" in one
            else system_file(dataset, one["system"], one["variant"], "model/losses.jsonl")
        )
        for one in noted["trainings"]
    ]
    validations = [
        system_file(dataset, one["system"], one["variant"], "model/validation.json")
        for one in noted["compared"]
    ]
    rows = [file for files in rows_of_table(wildcards).values() for file in files]
    places = places_of_table(wildcards)
    counted = [
        manifest_of(*job)
        for job in SPECS.jobs_behind_all(map(owner_of, rows))
        if notes.is_counted(*job, places) and not job[1].get("variant", "").startswith(experiment.CROSSFIT)
    ]
    return {
        **{"lengths": list(dict.fromkeys(of_texts)), "losses": losses, "validations": validations},
        "counted": counted,
    }


def counts_of_table(wildcards):
    """The counts of a table's own data set, then of the others that its columns are measured on."""
    others = [dataset for dataset, _ in places_of_table(wildcards)]
    return [f"results/{dataset}/data/counts.json" for dataset in dict.fromkeys([wildcards.dataset, *others])]


def rows_of_table(wildcards):
    """The metrics of a table's rows; without judged queries, what the rows make of the collection."""
    dataset = wildcards.dataset
    if config.datasets[dataset].is_measured:
        return {"metrics": metrics_of_table(wildcards), "models": []}
    models = [
        file
        for row in rows_that_fit(wildcards)
        for variant in row["variants"]
        for file in made_from_texts(dataset, row["system"], variant)
    ]
    return {"metrics": [], "models": list(dict.fromkeys(models))}


def made_from_texts(dataset, system, variant):
    """What a variant of a system makes before any query comes, and the systems that it reads from."""
    made = config.systems[system].made_from_texts(variant)
    files = [f"results/{dataset}/{name}" for name in made]
    if config.systems[system].start is not None:
        files.append(encoder_file(dataset, system, variant))
    for other in experiment.systems_of(config, system):
        theirs = experiment.ranking_variant(config, other, variant)
        files += made_from_texts(dataset, other, theirs)
    return files


def metrics_to_compare(wildcards):
    """The metrics of a table's rows, which its tests need."""
    if not config.datasets[wildcards.dataset].is_measured:
        sys.exit(
            f"error: results/{wildcards.dataset}/{wildcards.table}.tests.tsv: expected a data set with "
            "judged queries, got none. There is nothing to test."
        )
    return metrics_of_table(wildcards)


def tests_of_table(wildcards):
    """The tests of a table with `compare_with`, which are made before it; none where nothing is judged."""
    dataset, table = wildcards.dataset, wildcards.table
    entry = tables.table_entry(config, dataset, table)
    is_tested = entry.compare_with and config.datasets[dataset].is_measured
    return [f"results/{dataset}/{table}.tests.tsv"] if is_tested else []


def audited_files(wildcards):
    """The queries and judgements of a data set, and how long its texts are."""
    dataset, entry = wildcards.dataset, config.datasets[wildcards.dataset]
    if entry.TASK:
        sys.exit(
            f"error: results/{dataset}/audit.tsv: expected a data set of passages, got sentences. "
            "There is no audit of these."
        )
    folder, train = f"results/{dataset}/data", entry.learns_on
    return {
        "train_queries": f"{folder}/queries.{train}.jsonl" if train else [],
        "eval_queries": [f"{folder}/queries.{split}.jsonl" for split in entry.eval_splits],
        "qrels": [f"{folder}/qrels.{split}.tsv" for split in entry.splits],
        "lengths": [lengths_file(dataset, model) for model in experiment.checkpoints_of(config, dataset)],
    }


def subset_of_split(wildcards):
    """Of the train queries, only those of the variant, or the held-out ones of these, are encoded and searched."""
    if experiment.is_held_out(wildcards.split):
        return held_out_file(wildcards.dataset, wildcards.variant)
    train_split = config.datasets[wildcards.dataset].learns_on
    return subset_file(wildcards) if wildcards.split == train_split else []


def query_tokens_of(wildcards):
    """The tokens of the queries of a job's split, by the tokenizer of its system's model."""
    split = experiment.whole_split(wildcards.split)
    return token_file(wildcards.dataset, initial_of(wildcards), f"queries.{split}")


def published_figures(wildcards):
    """The files of published figures that a table names; none for most."""
    entry = tables.table_entry(config, wildcards.dataset, wildcards.table)
    return [str(published.file(name)) for name in entry.published]


def files_of_figure(wildcards):
    """What a figure is drawn from, by what its kind reads, in the order of its rows."""
    dataset = wildcards.dataset
    settings = tables.figure_settings(config, dataset, wildcards.figure)
    kind = figures.load(settings)
    if kind.READS == "variants":
        systems = [row["system"] for row in settings.rows]
        check_rows_fit(dataset, f"{wildcards.figure}.svg", systems)
        files = [
            system_file(dataset, row["system"], variant, name)
            for row, variant, name in figures.variant_files(settings)
        ]
    elif kind.READS == "table":
        folder = f"results/{dataset}"
        files = [f"{folder}/{settings.table}.tsv", f"{folder}/data/counts.json"]
    elif kind.READS == "tests":
        files = [f"results/{dataset}/{settings.table}.tests.tsv"]
    else:
        names = {"dataset": dataset, "table": settings.table}
        *behind, _ = SPECS.jobs_behind("table", names)
        files = [manifest_of(*job) for job in behind]
    return files


def published_beside_figure(wildcards):
    """The file of published numbers of a kind of figure; none for most."""
    published = config.figures[wildcards.figure].PUBLISHED
    return (
        [os.path.relpath(published)] if published else []
    )  # relative, so that a moved checkout has the same


def read_for_known():
    """Files of configuration and code, and folders, where another file is a change too."""
    folders = {"condenser": "py", "workflow_scripts": "py", "rules": "smk", "configs/tables": "yaml"}
    code = [file for folder, kind in folders.items() for file in ROOT.glob(f"{folder}/**/*.{kind}")]
    settings = ["config.yaml", "results", *Path("results").glob("*/index.yaml"), *workflow.configfiles]
    files = [*settings, ROOT / "Snakefile", ROOT / "requirements.lock", *code]
    return map(str, [*files, *(file.parent for file in code)])
