"""What a report says, as plain values, from the results that exist."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from condenser.evaluate.conclusion import conclusion
from condenser.files import canonical_json, read_json
from condenser.report.charts import Quality, loss_chart, quality_chart
from condenser.report.queries import Limits, Ranking, by_query
from condenser.report.state import Result

_LEARNERS = ("system", "model", "expansion")
_LONGEST_CURVE = 40  # points
_SHOWN_CHANGES = 12


class Report:
    """The results of one data set, and what a page says of them.

    Args:
        could_be_made: from `condenser.report.state`.
        damaged: manifests that cannot be read, in words.
        search: `searchable` and `overlays` of `condenser.evaluate.conclusion`.
    """

    def __init__(
        self,
        dataset: str,
        results: Sequence[Result],
        damaged: Sequence[str],
        could_be_made: Sequence[Mapping[str, Any]],
        search: Mapping[str, Sequence[str]],
    ) -> None:
        self.dataset, self.results, self._search = dataset, results, search
        self._damaged, self._could_be_made = damaged, could_be_made
        self._maker = {file: result for result in results for file in result.outputs}
        whole = [result for result in results if all(file.exists() for file in result.outputs)]
        own = [result for result in whole if result.wildcards.get("dataset") == dataset]
        self._tables = [result for result in own if result.rule == "table"]
        self._tests = {result.wildcards["table"]: result for result in own if result.rule == "compare"}
        self._figures = [result for result in own if result.rule == "figure"]
        self._audit = next((result for result in own if result.rule == "audit"), None)
        self._data = next((result for result in own if result.rule == "collect"), None)
        self._curves = [
            (result, file) for result in whole for file in result.outputs if file.name == "losses.jsonl"
        ]
        self._rankings = self._ranked()
        self._rule = {result.manifest: result.rule for result in results}
        makers = {file: result.manifest for result in results for file in result.outputs}
        self._needs = {
            result.manifest: {makers[file] for file in result.inputs if file in makers} for result in results
        }

    # ---- which files are read --------------------------------------------------------------------

    def files(self) -> list[Path]:
        """The results that the page shows, without manifests and benchmarks."""
        shown = [_output(result, ".tsv") for result in [*self._tables, *self._tests.values()]]
        shown += [_output(result, ".txt") for result in self._tables]
        shown += [file for result in self._figures for file in result.outputs]
        shown += [file for _, file in self._curves]
        shown += [file for ranking in self._rankings for file in (ranking.metrics, ranking.run)]
        shown += self._texts().values()
        shown += [_output(self._audit, ".json")] if self._audit else []
        if self._data:
            shown += [file for file in self._data.outputs if file.name == "counts.json"]
        return sorted(set(shown))

    def _texts(self) -> dict[str, Path]:
        """Judgements, queries and passages of the evaluation; none where nothing was measured."""
        if not self._rankings:
            return {}
        of_metrics = self._maker[self._rankings[0].metrics]
        qrels = next(file for file in of_metrics.inputs if file.name.startswith("qrels."))
        split = of_metrics.wildcards["split"]
        folder = qrels.parent
        return {
            "qrels": qrels,
            "queries": folder / f"queries.{split}.jsonl",
            "collection": folder / "collection.jsonl",
        }

    def _ranked(self) -> list[Ranking]:
        """The rows of all tables whose run is there, each once, by the first variant that is.

        Those that are out of date are left out where others are not: they may be of other texts.
        """
        found: dict[tuple[str, str], Ranking] = {}
        for table in self._tables:
            columns = table.config["table"]["columns"]
            place = next((one["dataset"], one["split"]) for one in columns if "/" not in one["name"])
            for row in table.config["table"]["rows"]:
                metrics = {
                    result.wildcards["variant"]: file
                    for file in table.inputs
                    if (result := self._maker.get(file))
                    and result.wildcards.get("system") == row["system"]
                    and (result.wildcards.get("dataset"), result.wildcards.get("split")) == place
                }
                label = row["method"]
                if row["train_queries"] != "all":
                    label += f", {row['train_queries']} train queries"
                for variant in row["variants"]:
                    file = metrics.get(variant)
                    run = file and file.with_name(file.name.replace("metrics.", "run.")[:-5] + ".trec")
                    if file and run and file.exists() and run.exists():
                        name = row["system"], variant
                        seeds = ", ".join(re.sub("^.*seed", "", one) for one in row["variants"])
                        seeds = "" if row["variants"] == ["untrained"] else seeds
                        found.setdefault(name, Ranking(label, *name, file, run, seeds))
                        break
        fresh = [ranking for ranking in found.values() if not self._changes_of(ranking)]
        self._num_old_rankings = len(found) - len(fresh)
        return fresh or list(found.values())

    def _changes_of(self, ranking: Ranking) -> list[str]:
        """Why the run of a ranking or its measures are out of date."""
        makers = (self._maker.get(file) for file in (ranking.run, ranking.metrics))
        return [change for maker in makers if maker for change in maker.changes]

    # ---- what is shown ---------------------------------------------------------------------------

    def tables(self) -> list[dict[str, Any]]:
        """The tables that have been made, the one with most rows first: their cells, and their tests."""
        shown = [self._table(result) for result in self._tables]
        return sorted(shown, key=lambda table: (-len(table["rows"]), table["name"]))

    def _table(self, result: Result) -> dict[str, Any]:
        rows = _read_tsv(_output(result, ".tsv"))
        settings = result.config["table"]
        name, measures = result.wildcards["table"], [column["name"] for column in settings["columns"]]
        of_tests = self._tests.get(name)
        tests = _read_tsv(_output(of_tests, ".tsv")) if of_tests else []
        measured = [row for row in rows if row["origin"] == "measured"]
        best = {measure: _best(measured, measure) for measure in measures}
        return {
            "name": name,
            "file": str(_output(result, ".tsv")),
            "measures": measures,
            "rows": rows,
            "best": {measure: row[measure] if row else "" for measure, row in best.items()},
            "first": best[measures[0]],
            "has_sizes": any(row.get("train_queries", "all") not in ("", "all") for row in rows),
            "collection": rows[0]["collection"] if rows else "",
            "published": settings["published"],
            "has_published": any(row["origin"] == "published" for row in rows),
            "notes": _output(result, ".txt").read_text(encoding="utf-8").splitlines(),
            "tests": tests,
            "changes_of_tests": of_tests.changes if of_tests else [],
            "conclusion": conclusion(tests, settings["rows"], dataset=self.dataset, **self._search),
            "num_held": sum(test["verdict"] in ("better", "worse") for test in tests),
            "changes": result.changes,
            "charts": [self._quality(settings, measured, measure) for measure in measures],
        }

    def _quality(
        self, settings: Mapping[str, Any], rows: Sequence[Mapping[str, str]], measure: str
    ) -> bytes | None:
        """Quality by step: a line for each model, from the start they share; None for one step."""
        families: dict[str, list[Quality]] = {}
        levels: dict[str, float] = {}
        for row, shown in zip(settings["rows"], rows, strict=False):
            if row["train_queries"] != "all" or not shown[measure] or shown["method"] != row["method"]:
                continue
            placed = self._rule_of(row["system"], row["variants"][0])
            if placed is None:
                continue
            rule, family = placed
            if rule is None:
                levels[f"{row['method']} (no model)"] = float(shown[measure])
                continue
            low, high = (float(shown.get(f"{measure}_{end}") or "nan") for end in ("low", "high"))
            families.setdefault(family, []).append(Quality(rule, float(shown[measure]), low, high))
        points = [point for family in families.values() for point in family]
        if len({point.rule for point in points}) < 2:
            return None
        start = [point for point in points if point.rule == 0][:1]
        lines = {name: sorted({*start, *family}) for name, family in families.items()}
        return quality_chart(lines, levels, measure=measure)

    def _rule_of(self, system: str, variant: str) -> tuple[int | None, str] | None:
        """How far a system has come, as a number of `STAGES_OF_QUALITY`, and the model it starts from.

        The number is None for a system without a model, such as BM25. Both are None for a system that only
        combines others.
        """
        of_system = [
            result
            for result in self.results
            if (result.wildcards.get("system"), result.wildcards.get("variant")) == (system, variant)
        ]
        makers = [result for result in of_system if result.rule == "train"] or [
            result for result in of_system if result.rule == "encode"
        ]
        if not makers:
            rules = self._rules_behind(of_system)
            return None if rules & {"checkpoint", "train"} else (None, system)
        own = [
            result
            for file in makers[0].inputs
            if (result := self._maker.get(file)) and "model" in result.wildcards
        ]
        family = re.sub(r"-seed\d+$", "", own[0].wildcards["model"]) if own else "start"
        is_pretrained = any(result.rule in ("pretrain", "best_of") for result in own)
        if makers[0].rule != "train":
            return int(is_pretrained), family if is_pretrained else "start"
        is_mined = "train" in self._rules_behind(makers[:1])
        return 3 if is_mined else 2, family if is_pretrained else "start"

    def _rules_behind(self, results: Sequence[Result]) -> set[str]:
        """The rules of all results from which the given ones are made."""
        found, waiting = set[Path](), [result.manifest for result in results]
        while waiting:
            new = self._needs[waiting.pop()] - found
            found |= new
            waiting += new
        return {self._rule[one] for one in found}

    def curves(self) -> list[dict[str, Any]]:
        """The training loss of every training, the variants of one system or model in one chart."""
        groups: dict[str, list[tuple[str, Path]]] = {}
        changes: dict[str, list[str]] = {}
        for result, file in self._curves:
            learner = next(result.wildcards[key] for key in _LEARNERS if key in result.wildcards)
            name = learner if "variant" in result.wildcards else re.sub(r"-seed\d+$", "", learner)
            variant = result.wildcards.get("variant") or learner[len(name) + 1 :] or "loss"
            groups.setdefault(f"{result.rule} {name}", []).append((variant, file))
            changes.setdefault(f"{result.rule} {name}", []).extend(result.changes)
        shown = []
        for name, members in sorted(groups.items()):
            curves = {variant: _curve(file) for variant, file in members}
            lines = {variant: points for variant, (points, _) in curves.items() if points}
            if lines:
                left_out = sum(missing for _, missing in curves.values())
                picture = loss_chart(lines, name=name)
                shown.append(
                    {"name": name, "picture": picture, "left_out": left_out, "changes": changes[name]}
                )
        return shown

    def figures(self) -> list[dict[str, Any]]:
        """The figures that have been made: picture and numbers."""
        return [
            {
                "name": result.wildcards["figure"],
                "svg": _output(result, ".svg").read_bytes(),
                "rows": _read_tsv(_output(result, ".tsv")),
                "changes": result.changes,
            }
            for result in self._figures
        ]

    def audit(self) -> dict[str, Any] | None:
        """The counts of the audit, by kind of finding, and where its findings are; None if there is none."""
        if self._audit is None:
            return None
        file = str(_output(self._audit, ".tsv"))
        return {**read_json(_output(self._audit, ".json")), "file": file, "changes": self._audit.changes}

    def costs(self) -> dict[str, Any]:
        """Time, memory and bytes by rule; each rule with what it was done for."""
        rules: dict[str, list[Result]] = {}
        for result in self.results:
            rules.setdefault(result.rule, []).append(result)
        lines = []
        for rule in self._in_order(rules):
            names: dict[str, list[Result]] = {}
            for result in rules[rule]:
                keys = ("system", "model", "table", "figure", "file", "dataset")
                name = next(result.wildcards[key] for key in keys if key in result.wildcards)
                names.setdefault(re.sub(r"-seed\d+$", "", name), []).append(result)
            lines.append(_cost(rule, rules[rule]) | {"parts": [_cost(*one) for one in names.items()]})
        return {"rules": lines, "total": _cost("all", self.results)}

    def _in_order(self, rules: Iterable[str]) -> list[str]:
        """Rules in the order in which they are needed; one of several rounds stands at its last."""
        depths: dict[Path, int] = {}

        def depth(manifest: Path) -> int:
            if manifest not in depths:
                depths[manifest] = 1 + max(map(depth, self._needs[manifest]), default=-1)
            return depths[manifest]

        last: dict[str, int] = {}
        for manifest, rule in self._rule.items():
            last[rule] = max(last.get(rule, 0), depth(manifest))
        return sorted(rules, key=lambda rule: (last[rule], rule))

    def provenance(self) -> dict[str, Any]:
        """Data, versions, machines, seeds and settings of all results, and each result's digest."""
        records = [result.record for result in self.results]
        versions: dict[str, set[str]] = {}
        for record in records:
            for package, version in record["spec"]["versions"].items():
                versions.setdefault(package, set()).add(version)
        settings: dict[str, list[str]] = {}
        for result in self.results:
            text = canonical_json(result.config, indent=1)
            if text not in settings.setdefault(result.rule, []):
                settings[result.rule].append(text)
        seeds = {result.config["seed"] for result in self.results if "seed" in result.config}
        data = self._data
        return {
            "counts": _leaves(data.record["counts"]) if data else [],
            "changes": data.changes if data else [],
            "source": data.config["dataset"] if data else {},
            "versions": {name: ", ".join(sorted(found)) for name, found in sorted(versions.items())},
            "pythons": sorted({record["python"] for record in records}),
            "machines": sorted({f"{record['machine']}, {record['device']}" for record in records}),
            "seeds": sorted(seeds),
            "first": min((record["finished"] for record in records), default=""),
            "last": max((record["finished"] for record in records), default=""),
            "settings": {rule: settings[rule] for rule in self._in_order(settings)},
            "results": [
                {
                    "name": result.name(self.dataset),
                    "finished": result.record["finished"],
                    "files": len(result.outputs),
                    "digest": result.record["sha256"],
                    "state": "out of date" if result.changes else "up to date",
                }
                for result in self.results
            ],
        }

    def trust(self) -> dict[str, Any]:
        """Reasons to doubt the results: damage, settings other than today's, results accepted by --touch."""
        old = [result for result in self.results if result.changes]
        reasons = Counter(result.changes[0] for result in old).most_common()
        return {
            "num_results": len(self.results),
            "num_old": len(old),
            "reasons": reasons[:_SHOWN_CHANGES],
            "num_more": max(0, len(reasons) - _SHOWN_CHANGES),
            "damaged": list(self._damaged),
            "num_accepted": sum("accepted" in result.record for result in self.results),
        }

    def missing(self) -> list[dict[str, Any]]:
        """The tables and figures of the configuration that have not been made."""
        made = {str(file) for result in self.results for file in result.outputs if file.exists()}
        return [dict(one) for one in self._could_be_made if one["target"] not in made]

    def queries(self, limits: Limits) -> dict[str, Any] | None:
        """What the page's script shows of single queries; None where nothing was measured."""
        if not self._rankings:
            return None
        columns = [column for table in self._tables for column in table.config["table"]["columns"]]
        of_main_set = [column["measure"] for column in columns if "/" not in column["name"]]
        measures = list(dict.fromkeys(of_main_set))
        is_split = bool(self._data and self._data.config["dataset"].get("split"))
        shown = by_query(self._rankings, is_split=is_split, measures=measures, limits=limits, **self._texts())
        changes = [change for ranking in self._rankings for change in self._changes_of(ranking)]
        left_out = 0 if changes else self._num_old_rankings
        return {**shown, "changes": changes[:1], "systems_left_out": left_out}


def _output(result: Result, suffix: str) -> Path:
    return next(file for file in result.outputs if file.suffix == suffix)


def _read_tsv(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def _best(rows: Sequence[Mapping[str, str]], measure: str) -> Mapping[str, str] | None:
    """The first row with the largest value of a measure; None where no row has one."""
    return max((row for row in rows if row[measure]), key=lambda row: float(row[measure]), default=None)


def _curve(file: Path) -> tuple[list[tuple[float, float]], int]:
    """The loss by update, each point the mean of as many updates; and the updates without a finite loss."""
    losses, left_out = [], 0
    for line in file.read_text().splitlines():
        step = json.loads(line)
        loss = step.get("loss")
        if isinstance(loss, int | float) and math.isfinite(loss):
            losses.append((step["step"] + 1, loss))
        else:
            left_out += 1
    size = -(-len(losses) // _LONGEST_CURVE) or 1
    groups = [losses[start : start + size] for start in range(0, len(losses), size)]
    return [(fmean(x for x, _ in group), fmean(y for _, y in group)) for group in groups], left_out


def _cost(name: str, results: Sequence[Result]) -> dict[str, Any]:
    """Sums over jobs, and the most memory of one."""
    records = [result.record for result in results]
    sizes = [file.stat().st_size for result in results for file in result.outputs if file.exists()]
    return {
        "name": name,
        "jobs": len(results),
        "seconds": sum(record["wall_time_s"] for record in records),
        "processor_s": sum(record["processor_s"] for record in records),
        "memory_mb": max((record["peak_memory_mb"] for record in records), default=0),
        "bytes": sum(sizes),
        "last": max((record["finished"] for record in records), default=""),
    }


def _leaves(value: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """All leaves of nested counts, by dotted key."""
    found: list[tuple[str, Any]] = []
    for key, inner in value.items():
        name = f"{above}{key}"
        found += _leaves(inner, f"{name}.") if isinstance(inner, Mapping) else [(name, inner)]
    return found
