# Inputs of the rules in rules/figures.smk.

import os

from condenser.evaluate import figures
from condenser import shown


def files_of_figure(wildcards):
    """What a figure is drawn from, by what its kind reads, in the order of its rows."""
    dataset = wildcards.dataset
    settings = shown.figure_settings(config, dataset, wildcards.figure)
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
        *behind, _ = SPECS.jobs_behind_all([("table", names)], with_learnt_from=False)
        files = [manifest_of(*job) for job in behind]
    return files


def published_beside_figure(wildcards):
    """The file of published numbers of a kind of figure; none for most."""
    published = config.figures[wildcards.figure].PUBLISHED
    # relative, so that a moved checkout has the same inputs
    return [os.path.relpath(published)] if published else []
