# From a collection of texts to the tables of Condenser and coCondenser.
# README.md says how to use it, docs/architecture.md how it is built.

from snakemake.utils import min_version

min_version("9.0")


configfile: "config.yaml"


include: "rules/snakemake.smk"
include: "rules/common.smk"
include: "rules/download.smk"
include: "rules/collect.smk"
include: "rules/backbone.smk"
include: "rules/tokens.smk"
include: "rules/pretrain.smk"
include: "rules/bm25.smk"
include: "rules/examples.smk"
include: "rules/retriever.smk"
include: "rules/search.smk"
include: "rules/tables.smk"
include: "rules/plan.smk"
include: "rules/verify.smk"
include: "rules/prefetch.smk"


rule all:
    default_target: True
    input:
        "results/msmarco/table2.tsv",
