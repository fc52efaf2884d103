# What Snakemake 9.27 does otherwise than this workflow needs, each with the reason; tests/workflow tests it.

import _thread
import functools
import os
import signal
import threading
from pathlib import Path

import snakemake.common
import snakemake.rules
from snakemake.dag import DAG
from snakemake.exceptions import MissingRuleException
from snakemake.executors.touch import Executor as TouchExecutor
from snakemake.io import _IOFile
from snakemake.jobs import Job
from snakemake.persistence import ParamsChange, PersistenceBase
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.workflow import Workflow
from snakemake_interface_logger_plugins.common import LogEvent

from condenser.experiment import jobs
from condenser.pipeline import freshness


# Whatever the rerun-triggers are, Snakemake compares modification times of inputs above 1 MB and of folders:
# a touch or a copy would repeat days of work. Specs decide here, so no file counts as newer. (Marking inputs
# as ancient does not work: a job above that runs would then hide a changed param of the job itself.)
async def never_newer(file, time):
    return False


_IOFile.is_newer = never_newer


# Snakemake knows the params of a result from .snakemake/ alone. Where that folder is lost, or speaks of
# another result that lay in the same place, no edit would rerun anything. So the manifests decide.
class Changes(ParamsChange):
    def __str__(self):
        return ", ".join(sorted(self.only_new))


def manifest_of_job(job):
    """The manifest of a job; None of a job of somebody else's rules."""
    is_ours = job.rule.name in globals().get("RULES", {})
    return getattr(job.output, "manifest", None) if is_ours else None


def spec_of_job(job):
    rule_name, fixed = RULES[job.rule.name]
    return SPECS.spec(
        rule_name, {**fixed, **dict(job.wildcards.items())}, inputs=list(job.input)
    )


def changes_of(job, manifest):
    """The rule of a job, and why its result is out of date."""
    outputs = [output for output in job.output if output != manifest]
    spec = spec_of_job(job)
    return spec["rule"], FRESHNESS.changes(Path(manifest), outputs, spec)


def params_changed(
    persistence, job, file=None, snakemakes=PersistenceBase.params_changed
):
    manifest = manifest_of_job(job)
    if manifest is None:
        return snakemakes(persistence, job, file=file)
    _, changes = changes_of(job, manifest)
    # what a plan can count today is no part of its spec: it would be stale once the rules have run
    if not changes and hasattr(job.params, "counted"):
        return snakemakes(persistence, job, file=file)
    return Changes(only_new=set(changes), files={manifest} if changes else set())


# The spec tells what the inputs are made by. Their paths, which Snakemake compares, change where the
# checkout or the user's files move.
def input_changed(
    persistence, job, file=None, snakemakes=PersistenceBase.input_changed
):
    if manifest_of_job(job) is None:
        return snakemakes(persistence, job, file=file)
    return [] if file is None else False


FRESHNESS = freshness.Freshness()
PersistenceBase.has_metadata = lambda persistence, job: True
PersistenceBase.params_changed = params_changed
PersistenceBase.input_changed = input_changed


# At the end of a dry run Snakemake advises options that do nothing here, and names no key that was edited.
def say_what_changed(workflow):
    needed = workflow.dag.needrun_jobs(exclude_finished=False)
    changes = [
        changes_of(job, manifest)
        for job in needed
        if (manifest := manifest_of_job(job))
    ]
    if edits := freshness.edits(changes, most=5):
        logger.info("\n    ".join(["What changed since the last run:", *edits]))


Workflow.log_provenance_info = say_what_changed


# Snakemake calls changed params whatever the manifests say. Of a failed job it prints the command and the spec,
# longer than a screen, and ends with a line that says nothing. So the job's own error comes last instead.
def in_plain_words(record):
    if isinstance(reason := getattr(record, "reason", None), str):
        said = "Params have changed since last execution: "
        record.reason = reason.replace(said, "changed: ")
    if getattr(record, "event", None) == LogEvent.JOB_ERROR:
        ERRORS.extend(filter(None, map(last_error, record.log)))
        record.input = record.output = record.shellcmd = None
    if getattr(record, "exception", None) == "RuleException":
        return "CalledProcessError" not in record.msg
    if str(record.msg).endswith("At least one job did not complete successfully."):
        record.msg = "\n".join(dict.fromkeys(ERRORS)) or record.msg
    return True


ERRORS = []  # of the failed jobs


def last_error(log):
    """The error with which a program ended, from its log; None where it was killed, or there is no log."""
    if log is None:
        return None
    try:
        lines = Path(log).read_text(errors="replace").splitlines()
    except OSError:
        return None
    errors = ("error: ", "internal error ")
    return next((line for line in reversed(lines) if line.startswith(errors)), None)


logger.addFilter(in_plain_words)


# For each job Snakemake looks up the signature of each function of its rule: a tenth of a dry run.
snakemake.common.get_function_params = functools.cache(
    snakemake.common.get_function_params
)
snakemake.rules.get_function_params = snakemake.common.get_function_params


# A priority of a rule is that of all its jobs. But an encoding that a training waits for should come before
# one that is only measured: so a job's priority is the number of jobs in the longest chain from it to a target.
def longest_chain_first(dag, snakemakes=DAG.update_priority):
    snakemakes(dag)

    @functools.cache
    def chain(job):
        return 1 + max(map(chain, filter(dag.needrun, dag.depending[job])), default=0)

    for job in dag.needrun_jobs():
        if dag.priority(job) != Job.HIGHEST_PRIORITY:  # --prioritize
            dag._priority[job] = chain(job)


DAG.update_priority = longest_chain_first


# `snakemake --touch` accepts a result as it is. Its manifest must say so.
def touch_and_accept(executor, job, snakemakes=TouchExecutor.run_job):
    manifest = manifest_of_job(job)
    if manifest is not None and Path(manifest).exists():
        for change in freshness.accept(Path(manifest), spec_of_job(job)):
            logger.info(f"{manifest}: accepted: {change}")
    snakemakes(executor, job)


TouchExecutor.run_job = touch_and_accept


# Snakemake says of a name that the configuration lacks only that no rule makes the file.
def name_what_is_unknown(error, file, snakemakes=MissingRuleException.__init__):
    snakemakes(error, file)
    unknown = jobs.unknown_name(config, str(file)) or (
        "expected a file that a rule makes, got another. docs/architecture.md lists them under Places."
    )
    error.args = (f"error: {file}: {unknown}",)


MissingRuleException.__init__ = name_what_is_unknown


# Snakemake's handler of SIGTERM takes a lock that the interrupted code may hold: it could hang forever.
def exit_gracefully(scheduler, *_, snakemakes=JobScheduler.exit_gracefully):
    _thread.start_new_thread(snakemakes, (scheduler,))


JobScheduler.exit_gracefully = exit_gracefully


# At Ctrl-C Snakemake waits for the running jobs to end; a second one interrupts that with a traceback, and then
# Python waits all the same. It means: do not wait. The programs see that Snakemake has ended, and stop.
def schedule(scheduler, snakemakes=JobScheduler.schedule):
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    return snakemakes(scheduler)


def interrupt(*_):
    signal.signal(signal.SIGINT, end_at_once)
    raise KeyboardInterrupt


def end_at_once(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # the interrupted code may hold a lock of the screen: another thread ends it, if it can
    last_words = threading.Thread(target=say_last_words, daemon=True)
    last_words.start()
    last_words.join(timeout=5)
    os._exit(130)


def say_last_words():
    logger.warning(
        "Interrupted again: not waiting for the running jobs. Start the same command again to resume."
    )
    for handler in list(logger.handlers):
        handler.close()


JobScheduler.schedule = schedule

# A scheduler sends SIGTERM to every process of a job. The shell and tee must outlive the program,
# which saves a checkpoint and says so. (The rest is Snakemake's own prefix, which this replaces.)
# `Progress` reads what the program says from its log (rules/progress.smk).
shell.prefix(f"set -euo pipefail; trap '' TERM; {globals().get('SILENCE', '')}")
