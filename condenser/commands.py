"""Commands of make, as messages, tables and pages show them.

It imports no library, because the report's environment has few of them.
"""

from __future__ import annotations

import shlex

TRAIN_AGAIN = 'SNAKEMAKE_ARGS="-R pretrain train"'
"""What trains a model again that is kept when the texts change."""


def age_of_model(rows: int, newer: int) -> str:
    """On how many of the passages a model is trained, of which some are newer.

    >>> age_of_model(100_000, 1_100).partition(";")[0]
    'trained on 98,900 of 100,000 passages'
    """
    return f"trained on {rows - newer:,} of {rows:,} passages; to train it again, make it with {TRAIN_AGAIN}."


def make_command(targets: str, *, overlays: str = "", arguments: str = "") -> str:
    """The command that makes targets, or asks.

    Args:
        targets: words of a shell, already quoted.
        overlays: the value of CONFIG.
        arguments: the value of SNAKEMAKE_ARGS.

    >>> print(make_command("results/mine/best.tsv", overlays="a.yaml b.yaml"))
    make results/mine/best.tsv CONFIG='a.yaml b.yaml'
    """
    variables = {"CONFIG": overlays, "SNAKEMAKE_ARGS": arguments}.items()
    assignments = [f"{name}={shlex.quote(value)}" for name, value in variables if value.strip()]
    return " ".join(["make", targets, *assignments])


def search_command(
    dataset: str, system: str, variant: str = "", *, overlays: str = "", arguments: str = ""
) -> str:
    """The command that asks a system a query; without a variant, its usual one.

    >>> print(search_command("mine", "hybrid", overlays="mine.yaml"))
    make search DATASET=mine SYSTEM=hybrid QUERY="..." CONFIG=mine.yaml
    """
    named = f"search DATASET={dataset} SYSTEM={system}{f' VARIANT={variant}' if variant else ''}"
    return make_command(f'{named} QUERY="..."', overlays=overlays, arguments=arguments)
