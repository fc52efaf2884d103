"""What a rule declares, the spec of each of its jobs, and the file that its program reads.

A spec is everything that a job's result depends on, and nothing else: the rule, its wildcards, the settings
it uses (nested as in the configuration), digests of its code, versions of the packages that matter, digests
of the user's own files among its inputs, and its lineage: the hashes of the specs of the jobs that make its
other inputs. So a result stays out of date until everything above it has really been made again.

The settings are those that one job sees of the configuration (`job_settings`).

The graph and its places are those of the rules: `inputs`, `owner`, `manifest` and `benchmark` ask them
(`rules/graph.smk`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from condenser import kinds, variants
from condenser.data import sources
from condenser.files import canonical_json, sha256_file, sha256_text
from condenser.job import write_job
from condenser.nouns import Config
from condenser.pipeline.code import code_digests
from condenser.pipeline.remembered import Remembered
from condenser.settings import UNTRAINED, BlockType, Settings, partly, plain
from condenser.shown import (
    figure_settings,
    table_columns,
    table_comparisons,
    table_entry,
    table_notes,
    table_rows,
)

Job = tuple[str, dict[str, str]]  # a rule and its wildcards
_Key = tuple[str, frozenset[tuple[str, str]]]  # of a job, in dicts


@dataclass(frozen=True)
class Rule:
    """What a rule declares: its name, and what its results depend on besides its inputs.

    Attributes:
        name: in specs, and of the program.
        wildcards: those that the rule's name in the Snakefile stands for, as `collect_msmarco` does.
        settings: dotted keys of `job_settings`: blocks or single values.
        packages: installed packages whose versions matter, or what gives them by the job's settings.
        modules: modules that the program loads by name, which no import statement shows.
    """

    name: str
    wildcards: Mapping[str, str]
    settings: Sequence[str] = ()
    packages: Sequence[str] | Callable[[Settings], Sequence[str]] = ()
    modules: Callable[[Settings], list[str]] = lambda settings: []


@dataclass
class Specs:
    """The specs of all jobs of one validated configuration.

    Attributes:
        config: from `condenser.config.validated`.
        root: the folder with `condenser/` and `workflow_scripts/`.
        work: the folder of partial work. `digests.json` in it remembers digests of the user's files and of
            our code.
        inputs: the input files of a job.
        owner: the job that makes a file; None for the user's own.
        manifest: where a job writes its manifest.
        benchmark: where Snakemake writes what a job took; None where the rule has no benchmark.
        rules: by their names in the Snakefile.
        kept: the spec with which a kept model was made (`condenser.pipeline.kept`); None of other jobs.
        keeping: options of the jobs that make such models.
    """

    config: Config
    root: Path
    work: Path
    inputs: Callable[[str, dict[str, str]], Sequence[str]]
    owner: Callable[[str], Job | None]
    manifest: Callable[[str, dict[str, str]], str]
    benchmark: Callable[[str, dict[str, str]], str | None]
    rules: dict[str, Rule] = field(default_factory=dict)
    kept: Callable[[str, dict[str, str]], dict[str, Any] | None] = lambda rule, wildcards: None
    keeping: Callable[[str, dict[str, str]], dict[str, Any]] = lambda rule, wildcards: {}
    _specs: dict[_Key, dict[str, Any]] = field(default_factory=dict)
    _hashes: dict[_Key, str] = field(default_factory=dict)
    _needs: dict[_Key, list[Job]] = field(default_factory=dict)
    _leaves_out_texts_of: Callable[[str], bool] = lambda dataset: False

    def __post_init__(self) -> None:
        self._remembered = Remembered(self.work / "digests.json")

    def apart_from_texts(
        self, inputs: Callable[[str, dict[str, str]], Sequence[str]], leaves_out: Callable[[str], bool]
    ) -> Specs:
        """Specs of the same rules that say nothing of the texts of some data sets.

        Of `collect` they have the settings, but not which queries are measured on; of `lengths` the settings.
        """
        made = copy(self)
        made.inputs, made._leaves_out_texts_of = inputs, leaves_out
        made._specs, made._hashes, made._needs = {}, {}, {}
        return made

    def job(
        self,
        rule: str,
        *,
        dataset: str | None = None,
        options: Mapping[str, Any] | Callable[..., Mapping[str, Any]] | None = None,
        processes: bool = False,
        **declared: Any,
    ) -> Callable[..., str]:
        """Declare a rule; gives its param, a function that Snakemake calls for the command of each job.

        Args:
            dataset: of the rule `<rule>_<dataset>`, which is for this data set alone.
            options: what changes no result, by name, or a function of wildcards, threads and resources.
            processes: start the program once on each GPU of the job.
            declared: what the results depend on, as in `Rule`.
        """
        fixed = {} if dataset is None else {"dataset": dataset}
        self.rules["_".join([rule, *fixed.values()])] = Rule(rule, fixed, **declared)

        def command_of(wildcards: Any, input: Any, output: Any, threads: int, resources: Any) -> str:
            names = {**fixed, **dict(wildcards.items())}
            try:
                spec = self.spec(rule, names, inputs=files_read(input))
            except (LookupError, ValueError) as error:
                raise SystemExit(f"error: {rule}: {error}") from None
            given = dict(options(wildcards, threads, resources) if callable(options) else options or {})
            given |= self.keeping(rule, names)
            if processes:
                given["processes"] = max(1, resources.gpu)
            return self.command(
                **{key: value for key, value in spec.items() if key != "config"},
                settings=spec["config"],
                input=_by_name(input),
                output=_by_name(output),
                work=f"{self.work}/{rule}-{self.hash(rule, names)[:16]}",
                options=given,
            )

        return command_of

    def command(self, rule: str, **written: Any) -> str:
        """A program and its job, which is written to a file: 500 shards would not fit into a command line."""
        file = write_job(Path(".snakemake", "jobs"), {"rule": rule, **written})
        return f"python {shlex.quote(str(self._program(rule)))} {file}"

    def job_of(self, name: str, wildcards: Mapping[str, str]) -> Job:
        """The job of a rule by its name in the Snakefile, which may be somebody else's rule."""
        rule = self.rules.get(name, Rule(name, {}))
        return rule.name, {**rule.wildcards, **wildcards}

    def name_of(self, rule: str, wildcards: Mapping[str, str]) -> str:
        """The name in the Snakefile of the rule that runs a job; LookupError where there is none."""
        for name, declared in self.rules.items():
            if declared.name == rule and declared.wildcards.items() <= wildcards.items():
                return name
        raise LookupError(f"expected a job of the workflow, got {rule} {wildcards}.")

    def spec(
        self, rule: str, wildcards: dict[str, str], *, inputs: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The spec of one job; `inputs` are its input files where the caller knows them.

        Raises:
            LookupError: the configuration has no such job.
        """
        key = _key(rule, wildcards)
        if key not in self._specs and (kept := self.kept(rule, wildcards)):
            self._specs[key] = kept
        if key not in self._specs:
            declared = self.rules[self.name_of(rule, wildcards)]
            settings = job_settings(self.config, wildcards)
            shards = self.config.token_shards
            if wildcards.get("shard", shards[0]) not in shards:
                raise LookupError(
                    f"expected a shard from {shards[0]} to {shards[-1]}, got {wildcards['shard']}. "
                    "Ask for one of these, or set shards."
                )
            no_texts = rule in ("collect", "lengths") and self._leaves_out_texts_of(wildcards["dataset"])
            inputs = [] if no_texts else inputs
            files = self.inputs(rule, wildcards) if inputs is None else inputs
            packages = declared.packages(settings) if callable(declared.packages) else declared.packages
            spec: dict[str, Any] = {
                "rule": rule,
                "wildcards": wildcards,
                "config": _picked(settings, declared.settings),
                "code": code_digests(
                    self._program(rule), self.root, tuple(declared.modules(settings)), self._remembered
                ),
                "versions": {name: _version(name) for name in packages},
                "lineage": self._lineage(wildcards, files),
            }
            if contents := self._contents_of([file for file in files if self.owner(file) is None]):
                spec["contents"] = contents
            if no_texts:
                spec["config"].get("dataset", {}).pop("eval_split", None)
            self._remembered.write()
            self._specs[key] = spec
        return self._specs[key]

    def hash(self, rule: str, wildcards: dict[str, str]) -> str:
        """SHA-256 of the spec's canonical JSON."""
        key = _key(rule, wildcards)
        if key not in self._hashes:
            self._hashes[key] = sha256_text(canonical_json(self.spec(rule, wildcards)))
        return self._hashes[key]

    def needs(self, rule: str, wildcards: dict[str, str]) -> list[Job]:
        """The jobs that make the inputs of a job, each once."""
        key = _key(rule, wildcards)
        if key not in self._needs:
            self._needs[key] = self._makers(self.inputs(rule, wildcards))
        return self._needs[key]

    def jobs_behind(self, rule: str, wildcards: dict[str, str]) -> list[Job]:
        """A job and all that it needs, each once, what is needed first."""
        return self.jobs_behind_all([(rule, wildcards)])

    def jobs_behind_all(self, jobs: Iterable[Job], *, with_learnt_from: bool = True) -> list[Job]:
        """Some jobs and all that they need, each once, what is needed first.

        Without `with_learnt_from`, not what only a model needs that stays when texts change: the same jobs
        before and after it is made.
        """
        found: dict[_Key, Job] = {}

        def visit(job: Job) -> None:
            stays = not with_learnt_from and self.keeping(*job)
            for parent in [] if stays else self.needs(*job):
                if _key(*parent) not in found:
                    visit(parent)
            found[_key(*job)] = job

        for job in jobs:
            if _key(*job) not in found:
                visit(job)
        return list(found.values())

    def _program(self, rule: str) -> Path:
        return self.root / "workflow_scripts" / f"{rule}.py"

    def _makers(self, files: Sequence[str]) -> list[Job]:
        owners = filter(None, map(self.owner, files))
        return list({_key(*job): job for job in owners}.values())

    def _lineage(self, wildcards: Mapping[str, str], files: Sequence[str]) -> dict[str, str]:
        """Spec hashes of the jobs that make the inputs, by their rule and the wildcards that differ.

        The shards of one rule share one entry.
        """
        groups: dict[str, list[str]] = {}
        for rule, of_maker in self._makers(files):
            told = [
                value for name, value in of_maker.items() if name != "shard" and wildcards.get(name) != value
            ]
            groups.setdefault(" ".join([rule, *told]), []).append(self.hash(rule, of_maker))
        return {
            name: hashes[0][:16] if len(hashes) == 1 else sha256_text(" ".join(hashes))[:16]
            for name, hashes in groups.items()
        }

    def _contents_of(self, files: Sequence[str]) -> dict[str, str]:
        """By the name alone, so that a folder may move; a second file of one name is numbered."""
        digests: dict[str, str] = {}
        for file in filter(Path.is_file, map(Path, files)):
            number = 1 + sum(name.partition(" ")[0] == file.name for name in digests)
            digests[file.name if number == 1 else f"{file.name} ({number})"] = self._remembered.of(
                file, sha256_file
            )
        return digests


def key_of(rule: str, wildcards: Mapping[str, str]) -> str:
    """The id of a job, in files and between processes."""
    return canonical_json([rule, wildcards])


def _key(rule: str, wildcards: Mapping[str, str]) -> _Key:
    return rule, frozenset(wildcards.items())


def _by_name(files: Any) -> dict[str, str | list[str]]:
    """The files of a job by name, one or a list, without those that it does not read."""
    return {
        name: given if isinstance(given, str) else list(given)
        for name, given in files.items()
        if name != "after"
    }


def files_read(inputs: Any) -> list[str]:
    """The input files of a job. Those that the rule names `after` are only made before it."""
    return [
        str(file)
        for given in _by_name(inputs).values()
        for file in ([given] if isinstance(given, str) else given)
    ]


def _picked(settings: Settings, keys: Sequence[str]) -> dict[str, Any]:
    """The values of dotted keys as JSON, nested as they are.

    >>> _picked(Settings(a=Settings(b=1, c=2), d=3), ["a.b", "d"])
    {'a': {'b': 1}, 'd': 3}
    """
    picked: dict[str, Any] = {}
    for key in keys:
        value: Any = settings
        place = picked
        *above, last = key.split(".")
        for part in above:
            value, place = vars(value)[part], place.setdefault(part, {})
        place[last] = plain(vars(value)[last])
    return picked


@cache  # reading a package's metadata takes a millisecond, and every job asks
def _version(name: str) -> str:
    try:
        return version(name).split("+")[0]  # 2.13.0+cpu is 2.13.0: the device decides on the build
    except PackageNotFoundError:
        raise ValueError(
            f"package {name}: not installed in this environment. Run `make setup`, or correct the config."
        ) from None


def job_settings(config: Config, wildcards: Mapping[str, str]) -> Settings:
    """The configuration as one job sees it.

    Besides the blocks of the configuration: `dataset` (with `split` None if it has no such key), `recipe`,
    `model`, `system`, `table` and `figure` of the job's wildcards, its `seed` and `train_queries` (None:
    all), `lengths` of its data set's recipe, also of texts that name none, `similarities` of a recipe for
    sentences, which no training reads, `depth`, the number of hits per query in runs of its split, and
    `query_set`, the entry of `extracted` for its split where that has one. Such queries, and official ones
    without judgement, have runs as deep as those of train queries. `expansion` is the entry of `expansions`
    for an index or for a system's queries, without what makes its files, which are inputs; else None.
    `states_gb` is the most that a system's token states may need; 0 where no other system reads them.
    `term_weights` is its key `trained`, and `generated` that of the name.

    Raises:
        LookupError: the configuration has no such data set, model, system, table or figure, or a system that
            is trained has no seed.
    """
    seen = Settings(**vars(config))
    dataset = system = None
    for noun in ("dataset", "system", "table", "figure"):
        if noun in wildcards:
            known = vars(config)[f"{noun}s"]
            if wildcards[noun] not in known:
                raise kinds.unknown(noun, wildcards[noun], known)
    if "model" in wildcards:
        seen.model, seed = config.model_of(wildcards["model"])
        if seed is None:
            seed = seen.model.seed
        seen.seed = config.seed if seed is None else seed
    seen.train_queries, seed = variants.parse_variant(wildcards.get("variant", ""))
    if seed is not None:
        seen.seed = seed
    if "system" in wildcards:
        system = config.systems[wildcards["system"]]
        if wildcards.get("variant") == UNTRAINED and system.has_seeds:
            raise LookupError(
                f"systems.{wildcards['system']}: expected a variant such as seed{config.seed}, "
                f"because it is trained, got {UNTRAINED}."
            )
        hidden = {"label", "recipe"}
        if "split" not in wildcards:
            hidden.update(system.OF_RUNS)
        seen.system = _without(system, hidden)
        seen.states_gb = config.encode.states_gb if system.keeps_states else 0.0
    name = system.expansions.get("expanded_queries") if system else None
    if "index" in wildcards:
        name = next(iter(wildcards["index"].split(".")[1:]), None)
    seen.expansion = _without(config.expansions[name], {"files", "trained", "generated"}) if name else None
    if "expansion" in wildcards:
        made = config.expansions[wildcards["expansion"]]
        seen.term_weights, seen.generated = made.trained, made.generated
    if extracted := config.extracted.get(wildcards.get("split", "")):
        own = config.seed if extracted.seed is None else extracted.seed
        seen.query_set = partly(type(extracted), {**vars(extracted), "seed": own})
    if "dataset" in wildcards:
        dataset = config.datasets[wildcards["dataset"]]
        seen.lengths = vars(dataset.recipe_of()).get("lengths")
        seen.metrics = dataset.metrics(wildcards.get("split"))
        seen.dataset = sources.settings_of_collect(dataset)
    if dataset is not None and (dataset.own_recipe or system is not None):
        ranked = dataset.TASK is None
        asked = dataset.recipe_of(system)
        if seen.train_queries in asked.epochs_by_size:
            asked.epochs, asked.updates = asked.epochs_by_size[seen.train_queries], None
        if ranked and system is not None and not system.is_trained:
            asked.negatives = copy(asked.negatives)
            asked.negatives.margin = None
        seen.recipe = _without(asked, {"epochs_by_size", "similarities"})
        seen.similarities = vars(asked).get("similarities")
        if ranked and "split" in wildcards:
            of_training = {dataset.learns_on, vars(dataset).get("unjudged"), *config.extracted}
            purpose = "train" if variants.whole_split(wildcards["split"]) in of_training else "eval"
            seen.depth = (
                vars(asked.depth)[purpose]
                if system is None
                else system.run_depth(wildcards["dataset"], purpose=purpose)
            )
    if "table" in wildcards:
        names = wildcards["dataset"], wildcards["table"]
        rows = table_rows(config, *names)
        starts, comparisons = table_comparisons(config, *names, rows)
        of_table, left_out = table_columns(config, *names)
        seen.table = Settings(
            columns=[asdict(column) for column in of_table],
            left_out=left_out,
            published=table_entry(config, *names).published,
            notes=table_notes(config, *names),
            rows=rows,
            starts=starts,
            comparisons=comparisons,
        )
    if "figure" in wildcards:
        seen.figure = figure_settings(config, wildcards["dataset"], wildcards["figure"])
    return seen


def _without(block: BlockType, names: set[str]) -> BlockType:
    """A block without some of its keys."""
    made = copy(block)
    for name in names:
        vars(made).pop(name, None)
    return made


_ASKED_FOR = (  # where names stand in the path of a result
    r"results/(?P<dataset>[^/]+)/systems/(?P<system>[^/]+)/(?P<variant>[^/]+)/.*",
    r"results/(?P<dataset>[^/]+)/models/(?P<model>[^/]+)/.*",
    r"results/(?P<dataset>[^/]+)/(?P<figure>[^/]+)\.svg",
    r"results/(?P<dataset>[^/]+)/(?P<table>[^/]+)\.(?:tsv|record\.json)",
    r"results/(?P<dataset>[^/]+)/.*",
)


def unknown_name(config: Config, result: str) -> str | None:
    """A sentence on a name in the path of a result that the configuration lacks; None if it has all."""
    names = next((match.groupdict() for place in _ASKED_FOR if (match := re.fullmatch(place, result))), {})
    try:
        job_settings(config, names)
    except (LookupError, ValueError) as error:
        return str(error)
    if "variant" in names and not re.fullmatch(variants.VARIANT, names["variant"]):
        return f"expected a variant such as seed42, n1000-seed42 or {UNTRAINED}, got {names['variant']}."
    return None
