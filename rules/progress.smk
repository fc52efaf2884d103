# What a run says of itself: a line for each start and end of a job, with the share done and the time left; on a
# terminal also the last line of what runs. The whole text of Snakemake is in .snakemake/log, that of each job in its
# log. With --verbose, --printshellcmds, --quiet, --debug-dag or --logger, and in a dry run, Snakemake speaks for
# itself.

import logging
import os
import re
import sys
import time
from graphlib import TopologicalSorter
from pathlib import Path

from snakemake_interface_logger_plugins.common import LogEvent
from tqdm import tqdm

from condenser.commands import TRAIN_AGAIN
from condenser.pipeline import costs, specs

# What Snakemake tells of every run, and of every job. An error has an event too, and is shown.
HIDDEN_EVENTS = {
    LogEvent.JOB_INFO,
    LogEvent.JOB_STARTED,
    LogEvent.JOB_FINISHED,
    LogEvent.GROUP_INFO,
    LogEvent.PROGRESS,
    LogEvent.RESOURCES_INFO,
    LogEvent.RUN_INFO,
    LogEvent.SHELLCMD,
    LogEvent.WORKFLOW_STARTED,
}
HIDDEN = re.compile(
    "host: |Assuming unrestricted shared|Building DAG|Using shell|Conda environments: "
    "ignored|Singularity containers: ignored|Select jobs to execute|Execute [0-9]+ jobs|Group jobs: inactive|"
    "Elapsed time"
)
CLEARED = "\r\x1b[K"  # a terminal's line


class Progress(logging.Handler):
    """Stands before Snakemake's handler of the terminal, which gets what is not hidden."""

    def __init__(self, snakemakes):
        super().__init__()
        self.snakemakes = snakemakes
        self.needed, self.shares = None, {}  # by key, in the order of the pipeline
        self.forecast = costs.Forecast()
        self.began, self.ended = {}, {}  # by key
        self.running, self.shown = {}, {}  # by Snakemake's id of a job; by key
        self.began_all = time.monotonic()

    def emit(self, record):
        event = getattr(record, "event", None)
        try:
            if event == LogEvent.RUN_INFO and self.needed is None and not workflow.touch:
                self.begin()
            if self.needed is not None:
                self.follow(event, record)
        except Exception:
            # a fault of what is shown must not end a run of days
            self.handleError(record)
        if record.levelno < logging.WARNING and (event in HIDDEN_EVENTS or HIDDEN.match(str(record.msg))):
            return
        if self.snakemakes.filter(record):
            self.say("", end="")
            self.snakemakes.handle(record)

    def begin(self):
        """Learn what will run, how long that takes, and which part of the machine each job has."""
        dag = workflow.dag
        after = {job: dag.dependencies[job] for job in dag.jobs}
        jobs = [job for job in TopologicalSorter(after).static_order() if dag.needrun(job)]
        self.needed = {key_of(job): job for job in jobs}
        self.shares = {key: share_of(job) for key, job in self.needed.items()}
        # the log of a requested job is shown, unless it has a benchmark: then the log is long
        self.shown = {
            key_of(job): Path(job.log[0]) for job in asked_jobs() if job.log and job.benchmark is None
        }
        self.forecast, num_bytes, _ = costs.forecast_of(planned_jobs(jobs), MACHINE)
        if len(jobs) > 1 and (text := hours_of(jobs, self.forecast, num_bytes)).startswith("By the plan"):
            self.say(text.partition(" For each")[0])
        for line in kept_models(jobs):
            self.say(line)

    def follow(self, event, record):
        """Note the start or the end of a job."""
        now = time.monotonic()
        if event == LogEvent.JOB_INFO:
            key = key_of_names(record.rule_name, record.wildcards)
            self.running[record.jobid], self.began[key] = key, now
            self.line(f"started {name_of_job(self.needed[key])}")
        elif event == LogEvent.JOB_FINISHED and record.job_id in self.running:
            key = self.running.pop(record.job_id)
            self.ended[key] = now
            self.forecast.took(key, now - self.began[key])
            took = tqdm.format_interval(now - self.began[key])
            self.line(f"finished {name_of_job(self.needed[key])} in {took}: {self.summary()}")
            self.show(key)
        elif event == LogEvent.JOB_ERROR and record.jobid in self.running:
            key = self.running.pop(record.jobid)
            del self.began[key]
            # its error comes last (rules/snakemake.smk)
            self.show(key, but=last_error(self.shown.get(key)))
        elif str(record.msg).startswith("Elapsed time"):
            self.say(self.last_line(now))

    def summary(self):
        """How many jobs are done, and the time left, as far as it is known."""
        done, of = len(self.ended), len(self.needed)
        left = self.left() if done < of else None
        text = f"{done} of {of} jobs done"
        return text if left is None else f"{text}, about {tqdm.format_interval(left)} left"

    def left(self):
        """Seconds left of the run: all jobs fill the machine by their shares; None if unknown."""
        lefts = {}
        for key in self.needed.keys() - self.ended.keys():
            if (seconds := self.forecast.seconds(key)) is not None:
                spent = time.monotonic() - self.began[key] if key in self.began else 0.0
                lefts[key] = max(seconds - spent, 0.0)
        together = sum(seconds * self.shares[key] for key, seconds in lefts.items())
        return max(together, *lefts.values()) if lefts else None

    def last_line(self, now):
        """What was done, how long it took, and which rules took most of that."""
        of_rules = {}
        for key, ended in self.ended.items():
            name = self.needed[key].rule.name
            of_rules[name] = of_rules.get(name, 0.0) + ended - self.began[key]
        longest = sorted(of_rules.items(), key=lambda pair: -pair[1])[:3]
        most = [f"{name} {tqdm.format_interval(took)}" for name, took in longest if took >= 1]
        done = f"{len(self.ended)} of {len(self.needed)} jobs done"
        text = f"{done} in {tqdm.format_interval(now - self.began_all)}"
        return f"{text}; {', '.join(most)}" if len(most) > 1 else text

    def show(self, key, but=None):
        """Print what a job said that was asked for, but for one line, on standard output."""
        if key in self.shown and self.shown[key].exists():
            lines = self.shown[key].read_text(errors="replace").splitlines(keepends=True)
            self.say("", end="")
            print("".join(line for line in lines if line.rstrip("\n") != but), end="", flush=True)

    def line(self, text):
        self.say(f"{time.strftime('%H:%M:%S')} {text}")

    def say(self, text, end="\n"):
        """Print a text in place of the last line of what runs."""
        print(CLEARED * ON_TERMINAL + text, file=self.snakemakes.stream, end=end, flush=True)

    def close(self):
        self.snakemakes.close()
        super().close()


def asked_jobs():
    """The jobs that were asked for; of a rule that makes nothing itself, those that it needs."""
    dag = workflow.dag
    asked = [
        job for target in dag.targetjobs for job in ([target] if target.output else dag.dependencies[target])
    ]
    return asked or list(dag.targetjobs)


def name_of_job(job):
    return " ".join([job.rule.name, *job.wildcards_dict.values()])


def key_of(job):
    return key_of_names(job.rule.name, job.wildcards_dict)


def key_of_names(rule, wildcards):
    """The id of a job, for the forecast."""
    return specs.key_of(*SPECS.job_of(rule, wildcards))


def share_of(job):
    """The part of the machine, or of the nodes of a cluster, that a job takes."""
    machine = workflow.global_resources
    limits = {name: machine[name].value for name in ("_cores", "gpu") if name in machine}
    if not workflow.local_exec:
        limits = {"_nodes": machine["_nodes"].value}
    parts = [job.resources.get(name, 0) / limit for name, limit in limits.items() if limit]
    return min(1.0, max(parts, default=1.0))


def planned_jobs(needed):
    """Those that must run and all behind them, as the plan sees them."""
    ours = (job for job in needed if job.rule.name in SPECS.rules)
    names = SPECS.jobs_behind_all(SPECS.job_of(job.rule.name, job.wildcards_dict) for job in ours)
    return costs.jobs_of(names, SPECS)


def hours_of(needed, forecast, num_bytes):
    """How long jobs take and what they leave on the disk, for the end of a dry run and the start of another."""
    seconds = {job: forecast.seconds(key_of(job)) for job in needed}
    known = {job: one for job, one in seconds.items() if one is not None}
    if not known:
        return "The plan does not know how long these jobs take."
    unknown = f", {len(seconds) - len(known)} of unknown time" if len(known) < len(seconds) else ""
    together = max(sum(one * share_of(job) for job, one in known.items()), *known.values())
    size = sum(num_bytes.get(key_of(job), 0.0) for job in needed)
    encodings = [job.wildcards_dict for job in needed if job.rule.name == "encode"]
    may_copy = any(os.path.isdir(last_rows_of(**names)) for names in encodings)
    return (
        f"By the plan about {costs.in_words(together)} and {costs.size_in_words(size)} on the disk ({len(needed)} "
        f"job{'s'[: len(needed) > 1]}{unknown}; {costs.in_words(sum(known.values()))} one after the other), "
        f"{forecast.rests_on(MACHINE)}. "
        f"{'Passages that were encoded before are copied, so it may take less. ' * may_copy}"
        "For each job, make results/<dataset>/<table>.plan.tsv, for a GPU .plan.H200.tsv."
    )


def collected_again(needed):
    """The data sets that keep their models, of those whose texts are read again."""
    read = (job.rule.name.removeprefix("collect_") for job in needed if job.rule.name.startswith("collect_"))
    return [name for name in read if KEPT.keeps(name)]


def new_passages(needed):
    """A line for each of these that are the user's own files: how many passages are new, and so to be encoded."""
    lines = []
    for dataset in collected_again(needed):
        before, entry = Path(f"results/{dataset}/data/collection.jsonl"), config.datasets[dataset]
        if before.is_file() and entry.local_files() and not entry.raw_files():
            try:
                new, total = sources.count_new(entry, before)
            except ValueError as unfit:  # which the job will say, too
                lines.append(f"{dataset}: {unfit}")
            else:
                lines.append(f"{dataset}: {new:,} of {total:,} passages are new or changed.")
    return lines


def kept_models(needed):
    """A line for each data set on its models that are not trained again, although the texts have changed."""
    again, names = collected_again(needed), {}
    for rule_name, wildcards in KEPT.trained():
        dataset, *others = wildcards.values()
        if dataset in again or KEPT.has_other_texts(rule_name, wildcards):
            names.setdefault(dataset, []).append(" ".join([rule_name, *others]))
    return [
        f"{dataset}: not trained again for the texts that changed: {', '.join(sorted(of_dataset))}. "
        f"To train: the same command with {TRAIN_AGAIN}."
        for dataset, of_dataset in names.items()
    ]


def speaks_for_itself(settings):
    """Whether Snakemake was asked for its own words, by an option or by a dry run."""
    asked = (
        settings.dryrun,
        settings.verbose,
        settings.printshellcmds,
        settings.quiet,
        settings.debug_dag,
        settings.log_handler_settings,
    )
    return any(asked) or not workflow.is_main_process


# The first words of each job's shell: what its program says is in its log. A terminal shows the last line of it.
# (Snakemake formats them, so braces stand twice. awk may wait for more lines before it reads one.)
SILENCE, ON_TERMINAL = "", False
LAST_LINE = (
    "exec > >(trap '' INT; while IFS= read -r line; do "
    r"""printf '\r\033[K%.WIDTHs' "${{line//[^[:print:]]/ }}"; done >&2); """
)

for handler in list(logger.handlers):
    if handler.name == "DefaultStreamHandler":
        # a line for each configuration file, also in a dry run
        handler.addFilter(lambda record: not str(record.msg).startswith("Config file "))
        if not speaks_for_itself(workflow.output_settings):
            ON_TERMINAL = handler.stream.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
            SILENCE = "exec >/dev/null; "
            if ON_TERMINAL and workflow.local_exec:
                width = os.get_terminal_size(handler.stream.fileno()).columns or 80
                SILENCE = LAST_LINE.replace("WIDTH", str(width - 1))
            logger.removeHandler(handler)
            logger.addHandler(Progress(handler))
