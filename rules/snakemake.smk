# What Snakemake does otherwise than this workflow needs, each with the reason; tests/workflow tests it. Five of its
# methods are replaced (four decide what is out of date: its settings are not there yet when it reads this file); the
# rest is done by its log, its hooks and signals.

import _thread
import asyncio
import os
import re
import signal
import threading
from pathlib import Path

from snakemake.io import _IOFile
from snakemake.persistence import ParamsChange, PersistenceBase
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake_interface_logger_plugins.common import LogEvent

from condenser.data.official import OFFICIAL_FILES
from condenser.objectives import checkpoint as checkpoints
from condenser.pipeline import freshness


# Whatever the rerun-triggers are, Snakemake compares modification times of inputs above 1 MB and of folders:
# a touch or a copy would repeat days of work. Specs decide here, so no file counts as newer. (Marking inputs
# as ancient does not work: a job above that runs would then hide a changed param of the job itself.) Needed until
# snakemake/snakemake#2328 is closed.
async def never_newer(file, time):
    return False


_IOFile.is_newer = never_newer


# Snakemake knows the params of a result from .snakemake/ alone. Where that folder is lost, or speaks of
# another result that lay in the same place, no edit would rerun anything. So the manifests decide. Needed until
# snakemake/snakemake#2210 is closed, and its records can be written by a workflow.
class Changes(ParamsChange):
    def __str__(self):
        return ", ".join(sorted(self.only_new))


def is_ours(rule_name):
    """Whether a rule gives its jobs specs; rules of somebody else's Snakefile do not."""
    return "SPECS" in globals() and rule_name in SPECS.rules


def manifest_of_job(job):
    """The manifest of a job; None of a job of somebody else's rules."""
    return getattr(job.output, "manifest", None) if is_ours(job.rule.name) else None


def spec_of_job(job):
    return SPECS.spec(
        *SPECS.job_of(job.rule.name, dict(job.wildcards.items())), inputs=specs.files_read(job.input)
    )


def changes_of(job, manifest):
    """The rule of a job, and why its result is out of date."""
    outputs = [output for output in job.output if output != manifest]
    spec = spec_of_job(job)
    return spec["rule"], FRESHNESS.changes(Path(manifest), outputs, spec)


def params_changed(persistence, job, file=None, snakemakes=PersistenceBase.params_changed):
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
def input_changed(persistence, job, file=None, snakemakes=PersistenceBase.input_changed):
    if manifest_of_job(job) is None:
        return snakemakes(persistence, job, file=file)
    return [] if file is None else False


FRESHNESS = freshness.Freshness()
PersistenceBase.has_metadata = lambda persistence, job: True
PersistenceBase.params_changed = params_changed
PersistenceBase.input_changed = input_changed


# After each look at the ready jobs Snakemake plans another one, in case its limit of jobs a second held some back. Each
# job that ends adds a look a second in this way, until the run is over: after 81 jobs the looks took 17 % of a core.
# One that waits is enough.
def look_again(scheduler, delay):
    def look():
        LOOKS.discard(delay)
        scheduler._open_jobs.release()

    if delay not in LOOKS:
        LOOKS.add(delay)
        threading.Timer(delay, look).start()


LOOKS = set()  # the delays of those that wait
JobScheduler._schedule_reevalutation = look_again


# What Snakemake logs, in this workflow's words. Of a failed job it prints the command and the spec, longer than a
# screen, and ends with a line that says nothing: the job's own error comes last instead. At the end of a dry run it
# advises options that do nothing here, and names no key that was edited. Of a name that the configuration lacks it
# says only that no rule makes the file.
def in_plain_words(record):
    event, error = (getattr(record, name, None) for name in ("event", "exception"))
    text = str(record.msg)
    if isinstance(reason := getattr(record, "reason", None), str):
        # it calls params changed whatever the manifests say
        params_changed = "Params have changed since last execution: "
        record.reason = reason.replace(params_changed, "changed: ")
    if event == LogEvent.JOB_INFO and workflow.touch:
        accept(record.rule_name, record.wildcards)
    if event == LogEvent.JOB_ERROR:
        ERRORS.extend(filter(None, map(last_error, record.log)))
        record.input = record.output = record.shellcmd = None
    if error == "MissingRuleException" and (file := NO_RULE.search(text)):
        record.msg = f"error: {file[1]}: {why_no_rule(file[1])}"
    if place := NOT_WRITTEN.search(text):
        record.msg = f"error: {place[2]}: {place[1]}. A job writes there: correct that, or run in a copy."
    if text.endswith("At least one job did not complete successfully."):
        record.msg = "\n".join(dict.fromkeys([*ERRORS, *STOPPED])) or text
    if text.startswith("This was a dry-run"):
        say_what_changed()
    is_advice = text.startswith(ADVICE)
    return not (is_advice or error == "RuleException" and "CalledProcessError" in text)


ERRORS = []  # of the failed jobs
STOPPED = []  # the last line after Ctrl-C
NO_RULE = re.compile(r"No rule to produce (.+?) \(if you use")
NOT_WRITTEN = re.compile(
    r"\n(?:PermissionError|OSError): \[Errno \d+\] (.+?): '(.+)'\s*\Z"
)  # by Snakemake itself
ADVICE = "Some jobs were triggered by provenance", "Rules with provenance triggered"


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


def why_no_rule(file):
    """Which name of a file the configuration lacks."""
    folder, results, rest = file.partition("/results/")
    if results and folder != ".":
        place = "" if Path(folder).resolve() == Path.cwd() else f" and --directory {folder}"
        return f"expected a path that begins with results/. Ask for results/{rest}{place}."
    return specs.unknown_name(config, file) or (
        "expected a file that a rule makes, got another. docs/architecture.md lists them under Places."
    )


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


def say_what_changed():
    needed = list(workflow.dag.needrun_jobs(exclude_finished=False))
    changes = [changes_of(job, manifest) for job in needed if (manifest := manifest_of_job(job))]
    if edits := freshness.edits(changes, most=5):
        logger.info("\n    ".join(["What changed since the last run:", *edits]))
    if needed and "SPECS" in globals():
        if lines := to_bring(needed):
            logger.info(
                "\n    ".join(["Fetched from the network (address: where to put it instead):", *lines])
            )
        for line in [*new_passages(needed), *kept_models(needed)]:
            logger.info(line)
        logger.info(hours_of(needed, *costs.forecast_of(planned_jobs(needed), MACHINE)[:2]))


def accept(rule_name, wildcards):
    """`snakemake --touch` accepts a result as it is: its manifest must say so."""
    if not is_ours(rule_name):
        return
    name = SPECS.job_of(rule_name, wildcards)
    manifest = Path(manifest_of(*name))
    if manifest.exists():
        for change in freshness.accept(manifest, SPECS.spec(*name)):
            logger.info(f"{manifest}: accepted: {change}")


logger.addFilter(in_plain_words)


# Snakemake's handler of SIGTERM takes a lock that the interrupted code may hold: it could hang forever.
#
# At Ctrl-C Snakemake waits for the running jobs to end; a second one interrupts that with a traceback, and then
# Python waits all the same. It means: do not wait. The programs see that Snakemake has ended, and stop.
def take_signals():
    if threading.current_thread() is threading.main_thread():
        if getattr(signal.getsignal(signal.SIGINT), "came", False):  # condenser/pipeline/command_line.py
            raise KeyboardInterrupt
        exit_gracefully = signal.getsignal(signal.SIGTERM)
        in_thread = lambda *_: _thread.start_new_thread(exit_gracefully, ())
        signal.signal(signal.SIGTERM, in_thread)
        signal.signal(signal.SIGINT, interrupt)


def interrupt(*_):
    if asyncio._get_running_loop() is not None:  # whose end, in its midst, would be a traceback
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
        return
    signal.signal(signal.SIGINT, end_at_once)
    shown = (handler for handler in logger.handlers if hasattr(handler, "needed"))
    done = [handler.summary().partition(",")[0] for handler in shown if handler.needed is not None]
    STOPPED.append(f"{': '.join(['Stopped', *done])}. The same command resumes.")
    raise KeyboardInterrupt


def end_at_once(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.write(2, f"\n{LAST_WORDS}\n".encode())
    os._exit(130)


LAST_WORDS = "Interrupted again: not waiting for the running jobs. Start the same command again to resume."


# Where there is something to do, once Snakemake's own handlers of signals are set; in no dry run.
onstart:
    take_signals()


# A scheduler sends SIGTERM to every process of a job. The shell and tee must outlive the program,
# which saves a checkpoint and says so. (The rest is Snakemake's own prefix, which this replaces.)
# `Progress` reads what the program says from its log (rules/progress.smk).
shell.prefix(f"set -euo pipefail; trap '' TERM; {globals().get('SILENCE', '')}")
