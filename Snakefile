# From a collection of texts to the tables of Condenser and coCondenser.
# README.md says how to use it, docs/architecture.md how it is built.

import sys
from pathlib import Path

from snakemake import __version__

if not __version__.startswith("9.27."):
    sys.exit(
        "error: expected Snakemake 9.27, whose private methods rules/snakemake.smk replaces, "
        f"got {__version__}. Run make setup."
    )


include: "rules/progress.smk"


configfile: "config.yaml"


for table in sorted(Path(workflow.basedir, "configs", "tables").glob("*.yaml")):

    configfile: str(table)


include: "rules/snakemake.smk"
include: "rules/configfiles.smk"
include: "rules/common.smk"
include: "rules/places.smk"
include: "rules/inputs.smk"
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
include: "rules/crate.smk"
include: "rules/verify.smk"
include: "rules/ask.smk"


rule all:
    default_target: True
    input:
        default_tables(workflow.config_settings.overwrite_config, "msmarco", "table2"),
