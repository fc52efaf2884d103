# Shared by all rules: the validated configuration.

import gc
import os
import re
import sys
from pathlib import Path

from condenser import kinds, variants
from condenser.config import validated
from condenser.data import sources
from condenser.evaluate import measures
from condenser.pipeline import environment, locks
from condenser.live.searchers import FOLDER as SEARCHERS
from condenser.systems import FOLDER as SYSTEMS

try:
    config = validated(config)
    sources.check_local_files(config.datasets)
except ValueError as error:
    own = Path("config.yaml").absolute()
    is_other = own.is_file() and own.read_bytes() != Path(workflow.basedir, own.name).read_bytes()
    is_elsewhere = "relative to where" in str(error) and not Path.cwd().samefile(workflow.basedir)
    sys.exit(
        f"error: config: {error}"
        + is_other * f" ({own} is read in place of the workflow's own.)"
        + is_elsewhere
        * f" (Snakemake runs in {Path.cwd()}: start it in {workflow.basedir}, or write absolute paths.)"
    )

# A DAG is a million small objects that all stay; the garbage collector takes a tenth of the time.
gc.set_threshold(200_000)

ROOT = Path(workflow.basedir)
WORK = "results/.work"
os.environ.update(environment.program_environment(root=ROOT, work=Path(WORK)))


# held open until Snakemake ends
try:
    FOLDER_LOCK = locks.join_folder(Path(".snakemake")) if workflow.is_main_process else None
except OSError as error:
    sys.exit(
        f"error: {error.filename}: {error.strerror}. Snakemake itself writes there, also in a dry run: "
        "work in a copy of this folder that you may write to, with results/ linked to the original."
    )

THREADS = config.compute.threads
# A job that computes on a GPU requests one. A profile may give a training several; it starts one process for each.
GPUS = 0 if config.compute.device == "cpu" else 1


def source_module(settings):
    """The module of a data set's source, for a job's spec."""
    return [kinds.module_name(sources.FOLDER, settings.dataset.source)]


def measure_modules(settings):
    """The modules of a job's measures, for its spec."""
    asked = settings.metrics.measures
    return sorted(measures.parse(name).module.__name__ for name in asked)


def names(chosen):
    """A regular expression of names for a wildcard; of none it matches nothing."""
    return "|".join(map(re.escape, chosen)) or "(?!)"


SHARDS = config.token_shards
CHECKPOINTS = config.checkpoints
RANKERS = [name for name in config.systems if config.systems[name].ranks]
TRAINED = [name for name in RANKERS if config.systems[name].is_trained]
TORCH = ("torch", "transformers", "numpy")  # packages that decide the bytes of a model
SENTENCE_PACKAGES = (*TORCH, "sentence-transformers")


wildcard_constraints:
    dataset=names(config.datasets),
    model=names(config.models),
    system=names(config.systems),
    table=names(config.tables),
    figure=names(config.figures),
    variant=variants.VARIANT,
    split=variants.SPLIT,
    shard=r"\d+-of-\d+",
