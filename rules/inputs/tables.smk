# Inputs of the rules in rules/tables.smk.

from condenser.evaluate import columns, measures, published
from condenser import shown


def texts_with_answers(wildcards):
    """The passages and the queries, where a measure looks for answers in texts."""
    asked = config.datasets[wildcards.dataset].metrics(wildcards.split).measures
    if not any(measures.parse(name).needs_answers for name in asked):
        return []
    files = ("collection.jsonl", f"queries.{wildcards.split}.jsonl")
    return [f"results/{wildcards.dataset}/data/{file}" for file in files]


def rows_that_fit(wildcards):
    """The rows of a table."""
    dataset, table = wildcards.dataset, wildcards.table
    entry = shown.table_entry(config, dataset, table)
    check_rows_fit(dataset, f"{table}.tsv", entry.rows)
    return shown.table_rows(config, dataset, table)


def places_of_table(wildcards):
    """Where the columns of a table are measured: data sets and evaluation sets, in order."""
    try:
        of_table, _ = shown.table_columns(config, wildcards.dataset, wildcards.table)
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
    noted = shown.table_notes(config, dataset, wildcards.table)
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
        for job in SPECS.jobs_behind_all(map(owner_of, rows), with_learnt_from=False)
        if shown.is_counted(*job, places) and not job[1].get("variant", "").startswith(variants.CROSSFIT)
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
    for other in config.systems[system].needs:
        theirs = config.systems[other].ranking_variant(variant)
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
    entry = shown.table_entry(config, dataset, table)
    is_tested = entry.compare_with and config.datasets[dataset].is_measured
    return [f"results/{dataset}/{table}.tests.tsv"] if is_tested else []


def published_figures(wildcards):
    """The files of published figures that a table names; none for most."""
    entry = shown.table_entry(config, wildcards.dataset, wildcards.table)
    return [str(published.file(name)) for name in entry.published]
