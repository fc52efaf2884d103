# What a run says of itself: one screen on a terminal, a line for each start and end of a job elsewhere. The
# whole text of Snakemake is in .snakemake/log, that of each job in its log. With --verbose, --printshellcmds,
# --quiet, --debug-dag or --logger, and in a dry run, Snakemake speaks for itself.

import logging
import re
import sys
import threading
import time
from graphlib import TopologicalSorter
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text
from snakemake_interface_logger_plugins.common import LogEvent

from condenser.pipeline import board as boards
from condenser.pipeline import specs
from condenser.pipeline.costs import forecast as forecasts
from condenser.pipeline.costs import jobs as planned_jobs
from condenser.pipeline.costs.plan import in_words
from condenser.pipeline.costs.tables import Tables

LINE_EVERY_S = 300  # of jobs that run, where there is no terminal
STYLES = {"head": "bold", "bar": "cyan", "running": "green", "done": "dim"}

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


class Progress(logging.Handler):
    """Stands before Snakemake's handler of the terminal, which gets what is not hidden."""

    def __init__(self, snakemakes):
        super().__init__()
        self.snakemakes = snakemakes
        self.board = self.console = self.live = None
        self.forecast = forecasts.Forecast()
        self.running, self.shown = {}, {}  # by Snakemake's id of a job; by key
        self.ended = threading.Event()
        # of the board, which the screen's own thread reads; nothing is printed while it is held
        self.state = threading.Lock()

    def emit(self, record):
        event = getattr(record, "event", None)
        try:
            if event == LogEvent.RUN_INFO:
                self.begin()
            if self.board is not None:
                self.follow(event, record)
        except Exception:
            # a fault of what is shown must not end a run of days
            self.handleError(record)
        if record.levelno < logging.WARNING and (event in HIDDEN_EVENTS or HIDDEN.match(str(record.msg))):
            return
        if self.snakemakes.filter(record):
            if self.live is None:
                self.snakemakes.handle(record)
            else:
                self.say(self.snakemakes.format(record))

    def begin(self):
        """Learn what will run, and show it."""
        if workflow.touch or self.board is not None:
            return
        dag, machine = workflow.dag, workflow.global_resources
        after = {job: dag.dependencies[job] for job in dag.jobs}
        needed = [job for job in TopologicalSorter(after).static_order() if dag.needrun(job)]
        limits = {name: machine[name].value for name in ("_cores", "gpu") if name in machine}
        if not workflow.local_exec:
            limits = {"_nodes": machine["_nodes"].value}
        jobs = {}
        for job in needed:
            parts = [job.resources.get(name, 0) / limit for name, limit in limits.items() if limit]
            jobs[key_of(job.rule.name, job.wildcards_dict)] = boards.Job(
                " ".join([job.rule.name, *job.wildcards_dict.values()]),
                job.rule.name,
                share=min(1.0, max(parts, default=1.0)),
                log=Path(job.log[0]) if job.log else None,
            )
        # what they say is what was asked for; a long one says too much
        self.shown = {
            key_of(job.rule.name, job.wildcards_dict): Path(job.log[0])
            for job in asked_jobs()
            if job.log and job.benchmark is None
        }
        targets = ", ".join(asked_results())
        self.board = boards.Board(targets, jobs, forecast=self.forecast, clock=time.time)
        self.look_ahead(needed)
        if (text := hours_of(needed)).startswith("By the plan"):
            self.say(text.partition(" For this machine")[0])
        self.console = Console(file=self.snakemakes.stream, highlight=False)
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self.live = Live(
                get_renderable=self.screen,
                console=self.console,
                transient=True,
                refresh_per_second=2,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self.live.start()
        else:
            threading.Thread(target=self.tell, daemon=True).start()

    def look_ahead(self, needed):
        """Learn how long the jobs will take: by the benchmarks of an earlier run, else by the plan."""
        for key, rule, seconds, _ in planned_seconds(needed):
            self.forecast.plan(key, rule, seconds)
        for name in names_behind(needed):
            took = forecasts.measured_before(manifest_of(*name), benchmark_of(*name), spec=SPECS.spec(*name))
            if took is not None:
                self.forecast.took(specs.key_of(*name), took)

    def follow(self, event, record):
        """Note the start or the end of a job."""
        if event == LogEvent.JOB_INFO:
            key = key_of(record.rule_name, record.wildcards)
            self.running[record.jobid] = key
            with self.state:
                text = self.board.start(key)
            self.line(text)
        elif event == LogEvent.JOB_FINISHED and record.job_id in self.running:
            key = self.running.pop(record.job_id)
            with self.state:
                text = self.board.finish(key)
            self.line(text)
            self.show(key)
        elif event == LogEvent.JOB_ERROR and record.jobid in self.running:
            key = self.running.pop(record.jobid)
            with self.state:
                self.board.fail(key)
            # its error comes last (rules/snakemake.smk)
            self.show(key, but=last_error(self.shown.get(key)))
        elif str(record.msg).startswith("Elapsed time"):
            with self.state:
                text = self.board.end()
            self.say(text)

    def show(self, key, but=None):
        """Print what a job said that was asked for, but for one line, on standard output."""
        if key in self.shown and self.shown[key].exists():
            lines = self.shown[key].read_text(errors="replace").splitlines(keepends=True)
            text = "".join(line for line in lines if line.rstrip("\n") != but)
            if not text:
                return
            if self.live is None or not sys.stdout.isatty():
                print(text, end="", flush=True)
            else:
                self.say(text.rstrip("\n"))

    def line(self, text):
        if self.live is None:
            self.say(f"{time.strftime('%H:%M:%S')} {text}")

    def say(self, text):
        """Print a text, above the screen if there is one."""
        if self.live is None:
            print(text, file=self.snakemakes.stream, flush=True)
        else:
            self.console.print(Text(text), soft_wrap=True)

    def screen(self):
        with self.state:
            lines = self.board.lines(max(self.console.height - 1, 3))
        return Group(
            *(Text(text, STYLES.get(kind, ""), no_wrap=True, overflow="ellipsis") for kind, text in lines)
        )

    def tell(self):
        """From time to time say what runs, for whoever follows a log."""
        while not self.ended.wait(LINE_EVERY_S):
            with self.state:
                texts = self.board.running()
            for text in texts:
                self.line(text)

    def close(self):
        self.ended.set()
        if self.live is not None:
            self.live.stop()
            self.live = None
        self.snakemakes.close()
        super().close()


def asked_jobs():
    """The jobs that were asked for; of a rule that makes nothing itself, those that it needs."""
    dag = workflow.dag
    asked = [
        job for target in dag.targetjobs for job in ([target] if target.output else dag.dependencies[target])
    ]
    return asked or list(dag.targetjobs)


def asked_results():
    """The first file of each job that was asked for, or its name where it makes none."""
    return sorted(str(job.output[0]) if job.output else job.rule.name for job in asked_jobs())


def key_of(rule, wildcards):
    """The id of a job, for the board and the forecast."""
    return specs.key_of(*SPECS.job_of(rule, wildcards))


def names_behind(needed):
    """All jobs behind those that must run, as the specs name them."""
    ours = (job for job in needed if job.rule.name in SPECS.rules)
    return SPECS.jobs_behind_all(SPECS.job_of(job.rule.name, job.wildcards_dict) for job in ours)


def planned_seconds(needed):
    """What the plan says of these jobs and those behind them: key, rule, seconds, and what they lack."""
    described = planned_jobs.describe_jobs(names_behind(needed), specs=SPECS, is_counted=True, is_timed=False)
    return forecasts.planned_seconds(
        planned_jobs.jobs_of(described),
        Tables(COSTS),
        device=config.compute.device,
        threads=config.compute.threads,
    )


def hours_of(needed):
    """How long the jobs take by the plan, and which lack texts, for the end of a dry run."""
    plans = list(planned_seconds(needed))
    planned = {key: seconds for key, _, seconds, _ in plans}
    keys = [key_of(job.rule.name, job.wildcards_dict) for job in needed]
    known = [planned[key] for key in keys if key in planned]
    if not known:
        return "The plan does not know how long these jobs take."
    num_unknown = len(keys) - len(known)
    lacks = f", {num_unknown} of unknown cost" if num_unknown else ""
    machine = forecasts.nominal_machine(config.compute.device)
    lacking = "".join(f"{lacks}\n" for key, *_, lacks in plans if lacks and key in keys)
    return lacking + (
        f"By the plan about {in_words(sum(known))} on a machine such as {machine} ({len(keys)} job{'s'[: len(keys) > 1]}{lacks}, "
        "one after the other). For this machine, make results/<dataset>/<table>.plan.tsv."
    )


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


# The first word of each job's shell: what its program says is in its log, from which `Progress` reads it.
SILENCE = ""

for handler in list(logger.handlers):
    if handler.name == "DefaultStreamHandler":
        # a line for each configuration file, also in a dry run
        handler.addFilter(lambda record: not str(record.msg).startswith("Config file "))
        if not speaks_for_itself(workflow.output_settings):
            logger.removeHandler(handler)
            logger.addHandler(Progress(handler))
            SILENCE = "exec >/dev/null; "
