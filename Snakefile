# From a collection of texts to the tables of Condenser and coCondenser.
# README.md says how to use it, docs/architecture.md how it is built.

from pathlib import Path

from snakemake.utils import min_version

min_version("9.20")  # rules/snakemake.smk


report: "docs/captions/workflow.rst"


include: "rules/progress.smk"


# (the folder that the workflow runs in may have its own)
configfile: "config.yaml" if Path("config.yaml").is_file() else str(Path(workflow.basedir, "config.yaml"))


for table in sorted(Path(workflow.basedir, "configs", "tables").glob("*.yaml")):

    configfile: str(table)


# (collections that `make index` took from a user's texts)
for overlay in sorted(Path("results").glob("*/index.yaml")):

    configfile: str(overlay)


include: "rules/snakemake.smk"
include: "rules/configfiles.smk"
include: "rules/common.smk"
include: "rules/places.smk"
include: "rules/inputs.smk"


for file in sorted(Path(workflow.basedir, "rules", "inputs").glob("*.smk")):

    include: str(file)


include: "rules/graph.smk"
include: "rules/data.smk"
include: "rules/models.smk"
include: "rules/examples.smk"
include: "rules/train.smk"


for kind in kinds.names(SYSTEMS):

    include: f"rules/systems/{kind}.smk"


include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/audit.smk"
include: "rules/export.smk"
include: "rules/plan.smk"
include: "rules/report.smk"
include: "rules/record.smk"
include: "rules/verify.smk"
include: "rules/ask.smk"


rule all:
    default_target: True
    input:
        default_tables(workflow.config_settings.overwrite_config, "msmarco", "table2"),
