# Where Snakemake's own ways (9.27, pinned) do not do, each with its why; tests/workflow holds them to it.

import _thread
import json
from pathlib import Path

from snakemake.exceptions import MissingRuleException
from snakemake.executors.touch import Executor as TouchExecutor
from snakemake.io import _IOFile
from snakemake.persistence import ParamsChange, PersistenceBase
from snakemake.scheduling.job_scheduler import JobScheduler

from condenser import experiment
from condenser.pipeline import freshness, reasons


# Whatever the rerun-triggers, Snakemake compares times of change of inputs above 1 MB and of folders:
# a touch or a copy would run days of work again. Specs decide here, so no file counts as newer. (Inputs
# marked ancient do not do: then a job above that runs hides a changed param of the job itself.)
async def never_newer(file, time):
    return False


_IOFile.is_newer = never_newer


# Snakemake knows what params a result was made with from .snakemake/ alone: where that is lost, or is of
# another result that stood in the same place, no edit would run anything. The manifests decide.
class Changes(ParamsChange):
    def __str__(self):
        return ", ".join(sorted(self.only_new))


def manifest_of(job):
    return (
        getattr(job.output, "manifest", None) if hasattr(job.params, "spec") else None
    )


def params_changed(
    persistence, job, file=None, snakemakes=PersistenceBase.params_changed
):
    manifest = manifest_of(job)
    if manifest is None:
        return snakemakes(persistence, job, file=file)
    outputs = [output for output in job.output if output != manifest]
    changes = FRESHNESS.changes(Path(manifest), outputs, json.loads(job.params.spec))
    # what a plan may count today is no matter of its spec: it would be stale once the stages have run
    if not changes and hasattr(job.params, "counted"):
        return snakemakes(persistence, job, file=file)
    return Changes(only_new=set(changes), files={manifest} if changes else set())


# The spec tells what the inputs are made by. Their paths, which Snakemake compares, change where the
# checkout or the user's files move.
def input_changed(
    persistence, job, file=None, snakemakes=PersistenceBase.input_changed
):
    if manifest_of(job) is None:
        return snakemakes(persistence, job, file=file)
    return [] if file is None else False


FRESHNESS = freshness.Freshness()
PersistenceBase.has_metadata = lambda persistence, job: True
PersistenceBase.params_changed = params_changed
PersistenceBase.input_changed = input_changed
reasons.explain(logger)


# `snakemake --touch` accepts a result as it is. Its manifest must say so, too.
def touch_and_accept(executor, job, snakemakes=TouchExecutor.run_job):
    manifest = manifest_of(job)
    if manifest is not None and Path(manifest).exists():
        for change in freshness.accept(Path(manifest), json.loads(job.params.spec)):
            logger.info(f"{manifest}: accepted: {change}")
    snakemakes(executor, job)


TouchExecutor.run_job = touch_and_accept


# Snakemake says of a name that the configuration lacks only that no rule makes the file.
def name_what_is_unknown(error, file, snakemakes=MissingRuleException.__init__):
    snakemakes(error, file)
    unknown = experiment.unknown_name(config, str(file))
    if unknown is not None:
        error.args = (f"error: {file}: {unknown}",)


MissingRuleException.__init__ = name_what_is_unknown


# Snakemake's handler of SIGTERM takes a lock that the interrupted code may hold: it would hang for ever.
def exit_gracefully(scheduler, *_, snakemakes=JobScheduler.exit_gracefully):
    _thread.start_new_thread(snakemakes, (scheduler,))


JobScheduler.exit_gracefully = exit_gracefully

# A scheduler sends SIGTERM to every process of a job. The shell and tee must outlive the program,
# which saves a checkpoint and says so. (The rest is Snakemake's own prefix, which this replaces.)
shell.prefix("set -euo pipefail; trap '' TERM; ")
