"""Notes that a reader of a table needs: the lines below it, also in its `.notes.txt`.

Each function gives the lines of one kind of note from files that the table declares as inputs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from condenser.commands import age_of_model
from condenser.data.canonical import describe_left_out
from condenser.data.languages import NAMES, is_written_in, language_of
from condenser.data.lengths import TextLengths
from condenser.evaluate.columns import Column
from condenser.evaluate.comparisons import Measured, interval_notes
from condenser.evaluate.measures import parse
from condenser.files import atomic_write, read_json
from condenser.manifest import Record

_LARGE_SHARE = 1 / 3  # of the ranked texts: a random ranking then has a third of the best recall
_REASONS = {  # why a train query has no example, by the counts of `condenser.data.negatives`
    "without_positives": "without a relevant passage",
    "without_hits": "without a hit of {system}",
    "without_positive_in_run": "without their positive in {run}",
    "without_negatives": "without a negative",
    "without_negatives_by_answer": "whose hits all hold an answer",
    "without_negatives_by_score": "whose hits may all be relevant, by their scores",
    "without_negatives_by_margin": "whose hits all score nearly as high as their positive, or higher",
    "queries_without_triples": "without a triple",
}


def notes_of_table(
    *,
    dataset: str,
    columns: Sequence[Column],
    counts: Mapping[str, Mapping[str, Any]],
    noted: Mapping[str, Sequence[Mapping[str, Any]]],
    lengths: Mapping[tuple[str, str], TextLengths],
    losses: Sequence[Path],
    validations: Sequence[Path],
    records: Sequence[Record],
    by_column: Mapping[str, Measured],
    unknown_words: float,
) -> list[str]:
    """All lines of a table.

    Args:
        dataset: of the table; lines on another one begin with its name.
        counts: `counts.json` of the data sets that its columns are measured on.
        noted: from `condenser.shown.table_notes`.
        lengths: by data set and checkpoint, of the `texts` in `noted`.
        losses: of the `trainings` in `noted`, in order.
        validations: of the trainings in `compared`, in order.
        records: the manifests of the jobs behind the table that `condenser.shown.is_counted` takes.
        by_column: from `condenser.evaluate.comparisons.measure_columns`.
        unknown_words: a larger share of words that the vocabulary does not have is noted.
    """
    of_place = {name: "" if name == dataset else f"{name}: " for name in counts}
    lines = [
        f"{of_place[name]}{line}" for name, of_set in counts.items() if (line := describe_left_out(of_set))
    ]
    for name, of_set in counts.items():
        lines += [f"{of_place[name]}{line}" for line in _of_collection(of_set)]
    several = len(noted["texts"]) > len({entry["dataset"] for entry in noted["texts"]})
    for entry in noted["texts"]:
        whose = f"{', '.join(entry['systems'])}: " if several else ""
        texts = lengths[entry["dataset"], entry["model"]]
        cuts = texts.cuts(entry["lengths"], splits=entry["splits"], in_one_row=entry["in_one_row"])
        lines += [f"{of_place[entry['dataset']]}{whose}{line}" for line, _ in cuts]
    assumed = [f"{model}: {line}" for (_, model), texts in lengths.items() for line in texts.assumed]
    lines += list(dict.fromkeys(assumed))  # the same model may read several data sets
    for (name, model), texts in lengths.items():
        splits = [split for entry in noted["texts"] if entry["dataset"] == name for split in entry["splits"]]
        unknown = unknown_lines(texts, model, splits=dict.fromkeys(splits), above=unknown_words)
        lines += [f"{of_place[name]}{line}" for line in unknown]
    for name, of_set in counts.items():
        lines += [f"{of_place[name]}{line}" for line in language_lines(name, of_set, records)]
    ranked = {name: of_set.get("documents", of_set["passages"]) for name, of_set in counts.items()}
    lines += trivial_lines(columns, ranked)
    for name, of_set in counts.items():
        lines += [f"{of_place[name]}{line}" for line in pooled_lines(name, of_set, records)]
    lines += left_out_lines(records, dataset)
    lines += update_lines(noted["trainings"], losses, records)
    lines += kept_lines(noted["compared"], validations)
    lines += uncompared_lines(noted["compared"], validations, records)
    compared = [comparison for column in by_column.values() for comparison in column.comparisons.values()]
    lines += interval_notes((comparison.verdict, comparison.low, comparison.high) for comparison in compared)
    return lines


def _of_collection(counts: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on the passages and queries of a data set, from its `counts.json`."""
    for split, number in counts.get("queries_of_unknown_passages", {}).items():
        yield (
            f"{number:,} queries of {split} are left out: all their judgements name passages that the "
            "collection lacks."
        )
    for split, number in counts.get("queries_in_collection", {}).items():
        yield (
            f"{number:,} queries of {split} are texts of the collection (same id, same text): no ranking has "
            "a query's own text."
        )
    if repeated := counts.get("repeated_texts"):
        yield (
            f"{repeated:,} of {counts['passages']:,} passages have the title and text of an earlier one: "
            "they count as wrong where only that one is judged, and may be negatives of it."
        )


def unknown_lines(texts: TextLengths, model: str, *, splits: Iterable[str], above: float) -> list[str]:
    """Texts of which the vocabulary lacks a larger share of the words than `above`."""
    read = {"passages": texts.passages} | {f"{split} queries": texts.queries[split] for split in splits}
    return [
        f"{100 * counts.unknown_share:.1f} % of the words of the {name} are unknown to the vocabulary of "
        f"{model}, which reads [UNK] in place of each."
        for name, counts in read.items()
        if counts.unknown_share > above
    ]


def language_lines(dataset: str, counts: Mapping[str, Any], records: Sequence[Record]) -> list[str]:
    """A line where the passages are not of BM25's language, or of none that a start was trained on."""
    if (texts := counts.get("languages")) is None:
        return []
    seem = language_of(texts)
    reasons: dict[str, None] = {}
    for record in records:
        rule, names, config = (record.spec[key] for key in ("rule", "wildcards", "config"))
        if rule == "bm25_run" and names["dataset"] == dataset:
            language = config["system"]["language"]
            if not is_written_in(texts, language):
                name = names["system"]
                advice = f"set systems.{name}.language{f': {seem}' if seem else ''}"
                if seem == "th":  # which it refuses
                    advice = "put spaces between the words, or leave it out"
                reasons[f"{name} reads {NAMES[language]} ({advice})"] = None
        known = record.counts.get("languages", []) if rule == "checkpoint" else []
        if known and "multilingual" not in known and not any(is_written_in(texts, one) for one in known):
            trained = ", ".join(NAMES.get(language, language) for language in known)
            reasons[f"{names['model']} was trained on {trained} (take a multilingual start)"] = None
    if not reasons:
        return []
    seem_to_be = f"seem to be {NAMES[seem]}" if seem else "seem to be of another language"
    return [f"The passages {seem_to_be}: {', '.join(reasons)}."]


def pooled_lines(dataset: str, counts: Mapping[str, Any], records: Sequence[Record]) -> list[str]:
    """Sentences on judgements of pooled hits: from which systems, and how much of each ranking they miss."""
    lines = []
    for split, pool in counts.get("pooled", {}).items():
        shares = {}
        for record in records:
            names = record.spec["wildcards"]
            is_of_split = (names["dataset"], names.get("split")) == (dataset, split)
            if record.spec["rule"] == "metrics" and is_of_split and record.counts["first_hits"]:
                share = record.counts["unjudged_first_hits"] / record.counts["first_hits"]
                shares[" ".join([names["system"], names["variant"]]).removesuffix(" untrained")] = share
        missed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
        lines.append(
            f"The judgements of {split} are of the first {pool['depth']} hits of "
            f"{', '.join(pool['systems'])}, pooled, the last of {pool['last']}. Of the first ten hits of "
            f"each row these have no judgement, and count as not relevant: {missed}."
        )
    return lines


def trivial_lines(columns: Sequence[Column], num_ranked: Mapping[str, int]) -> list[str]:
    """The columns in which every ranking has the same value, and those in which a random one is good too."""
    lines = []
    for column in columns:
        rows = num_ranked[column.dataset]
        share = parse(column.measure).random_share(num_passages=rows, run_depth=column.depth or 0)
        if share == 1:
            lines.append(
                f"{column.name} is the same for every ranking: its depth covers all {rows:,} ranked texts."
            )
        elif share >= _LARGE_SHARE:
            lines.append(
                f"{column.name} tells little: its depth covers {100 * share:.0f} % of the {rows:,} ranked "
                f"texts, so a random ranking has {share:.2f} or more."
            )
    return lines


def left_out_lines(records: Sequence[Record], dataset: str) -> list[str]:
    """What the jobs behind a table left out or could not read, a line for each count that is not 0."""
    by_job = {_job(record.spec["rule"], record.spec["wildcards"]): record for record in records}
    variants: dict[tuple[str, str], set[str]] = {}
    said: dict[tuple[str, str, str], set[str]] = {}
    for record in _without_shards(records):
        rule, wildcards = record.spec["rule"], record.spec["wildcards"]
        if not wildcards.keys() & {"model", "system"}:
            continue
        name, variant = _place(wildcards, dataset) + _name_of(wildcards), wildcards.get("variant", "")
        variants.setdefault((name, rule), set()).add(variant)
        for sentence in (*_left_out_of_training(record, by_job), *_left_out_of_run(record)):
            said.setdefault((name, rule, sentence), set()).add(variant)
    lines = []
    for (name, rule, sentence), of_sentence in said.items():
        which = "" if of_sentence == variants[name, rule] else f", {', '.join(sorted(of_sentence))}"
        lines.append(f"{name}{which}: {sentence}")
    unanswered = (
        f"{_place(record.spec['wildcards'], dataset)}{sentence}"
        for record in records
        for sentence in _without_relevant(record)
    )
    return lines + list(dict.fromkeys(unanswered))


def _without_relevant(record: Record) -> Iterator[str]:
    """A sentence on the queries that no ranking can answer."""
    if record.spec["rule"] == "metrics" and (without := record.counts["queries_without_relevant"]):
        settings = record.spec["config"]["metrics"]
        if not all(parse(name).needs_answers for name in settings["measures"]):
            yield (
                f"{without:,} of {record.counts['queries']:,} queries have no passage of grade "
                f"{settings['relevant_grade']} or more: each ranking scores 0 for them."
            )


def _place(wildcards: Mapping[str, str], dataset: str) -> str:
    """How a line on another data set than the table's begins."""
    return "" if wildcards["dataset"] == dataset else f"{wildcards['dataset']}: "


def _job(rule: str, wildcards: Mapping[str, str]) -> tuple[str, frozenset[tuple[str, str]]]:
    return rule, frozenset(wildcards.items())


def _without_shards(records: Sequence[Record]) -> list[Record]:
    """The records, with those of the shards of one result as one: sums of their counts."""
    joined: dict[Any, Record] = {}
    for record in records:
        wildcards = {key: value for key, value in record.spec["wildcards"].items() if key != "shard"}
        key = _job(record.spec["rule"], wildcards)
        if key in joined:
            counts = Counter(joined[key].counts) + Counter(record.counts)
            joined[key] = replace(joined[key], counts=dict(counts))
        else:
            joined[key] = replace(record, spec={**record.spec, "wildcards": wildcards})
    return list(joined.values())


def _left_out_of_training(record: Record, by_job: Mapping[Any, Record]) -> Iterator[str]:
    """Sentences on what a training does not learn from; on examples where it reads them."""
    rule, names, counts = record.spec["rule"], record.spec["wildcards"], record.counts
    if rule == "pretrain":
        rows = counts["rows"]
        if short := counts.get("documents_left_out"):
            least = record.spec["config"]["model"]["min_span_tokens"]
            yield f"{short:,} of {rows:,} passages are left out: too short for two spans of {least} tokens."
        if short := counts.get("texts_of_one_sentence"):
            yield f"{short:,} of {rows:,} passages are left out: they have one sentence at most."
    elif rule == "train":
        system = record.spec["config"]["system"]
        read: list[tuple[str, str, dict[str, str], str]] = [
            (other, "examples", {}, "train queries") for other in system.get("negatives") or []
        ]
        if labels := system.get("pseudo_labels"):
            split = labels["queries"]
            read.append((labels["teacher"], "pseudo_labels", {"split": split}, f"queries of {split}"))
        for other, maker, split_of, queries in read:
            job = _job(maker, {**names, "system": other, **split_of})
            if job in by_job and (reasons := _reasons(by_job[job].counts, other)):
                made = by_job[job].counts
                by = f" with negatives of {other}" if len(read) > 1 else ""
                yield f"{made['examples']:,} of {made['queries']:,} {queries}{by}; {reasons}."
        if fewer := counts.get("queries_with_fewer_hits"):
            yield f"{fewer:,} of {counts['queries']:,} queries are left out: the teacher has too few hits."
    elif rule == "fusion_weights":
        system = record.spec["config"]["system"]
        if counts["queries"] < system["least_queries"]:
            yield (
                f"its weights are equal ({1 / len(system['of']):.2f} each) and not learnt: that needs "
                f"{system['least_queries']:,} judged queries that no part is trained on, and there are "
                f"{counts['queries']:,}."
            )


def _reasons(counts: Mapping[str, Any], system: str) -> str:
    """Why queries have no example, with their numbers; empty where each has one.

    >>> _reasons({"without_hits": 96, "without_positive_in_run": 4}, "bm25")
    '96 without a hit of bm25, 4 without their positive in its run'
    """
    run = "its run" if counts.get("without_hits") else f"the run of {system}"
    return ", ".join(
        f"{counts[key]:,} {reason.format(system=system, run=run)}"
        for key, reason in _REASONS.items()
        if counts.get(key)
    )


def _left_out_of_run(record: Record) -> Iterator[str]:
    """Sentences on queries without hits, and on texts without a vector."""
    rule, counts = record.spec["rule"], record.counts
    if rule == "bm25_run" and (without := counts["queries_without_hits"]):
        language = record.spec["config"]["system"]["language"]
        yield f"found nothing for {without:,} of {counts['queries']:,} queries: its language is {language}."
    if zeros := counts.get("zero_vectors"):
        texts = "queries" if rule == "encode_queries" else "passages"
        yield f"{zeros:,} of {counts['rows']:,} {texts} have a vector of length 0, whose scores are all 0."
    if newer := counts.get("rows_newer"):
        yield age_of_model(counts["rows"], newer)
    if equal := counts.get("queries_of_equal_scores"):
        yield (
            f"the first ten scores are equal for {equal:,} of {counts['queries']:,} queries: their order "
            "says nothing."
        )
    if without := counts.get("texts_without_a_word"):
        yield f"{without:,} texts have no word with a vector; theirs has the length 0."


def update_lines(
    trainings: Sequence[Mapping[str, Any]], losses: Sequence[Path], records: Sequence[Record]
) -> list[str]:
    """The updates of each model and system, and the epochs that they are, from the logs of the trainings.

    A line says so where a bound in `updates` decided on their number, and not `epochs`.
    """
    blocks = (record.spec["config"] for record in records)
    settings = {
        file: of_job.get("model") or of_job.get("recipe")
        for record, of_job in zip(records, blocks, strict=True)
        for file in record.outputs
    }
    made: dict[tuple[str, int], list[tuple[int, float]]] = {}
    bounds: dict[tuple[str, int], dict[str, None]] = {}
    for training, file in zip(trainings, losses, strict=True):
        key = _name_of(training), training.get("soup", 1)
        updates, steps, epochs = _updates(file)
        made.setdefault(key, []).append((updates, epochs))
        if bound := _bound(settings.get(file) or {}, steps / key[1], epochs / key[1]):
            bounds.setdefault(key, {})[bound] = None
    lines = []
    for (name, soup), of_seeds in made.items():
        updates_of_seeds, epochs_of_seeds = (sorted(set(values)) for values in zip(*of_seeds, strict=True))
        line = f"{name}: {_range(updates_of_seeds)} updates, {_range(epochs_of_seeds)} epochs"
        line = line.replace(" 1 epochs", " 1 epoch")
        line += f", in {soup} trainings whose weights are averaged." if soup > 1 else "."
        lines.append(" ".join([line, *bounds.get((name, soup), ())]))
    return lines


def _bound(settings: Mapping[str, Any], steps: float, epochs: float) -> str | None:
    """A sentence on the bound that decided on the steps of a training; None where `epochs` did.

    >>> _bound({"epochs": 2, "updates": {"least": 32}}, 32, 16.0)
    'updates.least (32) decides, not epochs: 2 epochs would be 4 updates.'
    """
    asked, bounds = settings.get("epochs"), settings.get("updates")
    if asked is not None and isinstance(bounds, Mapping):
        by_epochs = round(asked * steps / epochs)
        for name in ("least", "most"):
            if bounds.get(name) == steps != by_epochs:
                return (
                    f"updates.{name} ({steps:,.0f}) decides, not epochs: {asked:g} epochs would be "
                    f"{by_epochs:,} updates."
                )
    return None


def kept_lines(trainings: Sequence[Mapping[str, Any]], validations: Sequence[Path]) -> list[str]:
    """The trainings whose model is not better than its start on the held-out train queries."""
    lines = []
    for training, file in zip(trainings, validations, strict=True):
        compared = read_json(file)
        if compared["queries"] and compared["trained"] <= compared["start"]:
            whose = {"start": "the start's weights are", "mean": "a mean with the start's weights is"}
            kept = whose.get(compared["kept"], "its own weights are")
            lines.append(
                f"{training['system']}, {training['variant']}, is not better than its start on "
                f"{compared['queries']:,} held-out train queries (MRR@10 {compared['trained']:.3f}, start "
                f"{compared['start']:.3f}; {compared['won']:,} won, {compared['lost']:,} lost): {kept} kept."
            )
    return lines


def uncompared_lines(
    trainings: Sequence[Mapping[str, Any]], validations: Sequence[Path], records: Sequence[Record]
) -> list[str]:
    """The trainings that were not compared with their start, because there are too few train queries."""
    held_out = {
        record.spec["wildcards"]["variant"]: record for record in records if record.spec["rule"] == "held_out"
    }
    made = {file: record for record in records for file in record.outputs}
    lines: dict[str, None] = {}
    for training, file in zip(trainings, validations, strict=True):
        validated = file in made and made[file].spec["config"]["recipe"].get("validation")
        record = held_out.get(training["variant"])
        if validated and record is not None and not read_json(file)["queries"]:
            settings = record.spec["config"]["recipe"]["held_out"]
            line = (
                f"{_name_of(training)} is not compared with its start: a share of {settings['share']:g} of "
                f"{record.counts['of']:,} train queries is less than {settings['least']:,}, so none is held "
                "out (held_out)."
            )
            lines[line] = None
    return list(lines)


def _name_of(training: Mapping[str, Any]) -> str:
    """A model, or a system and its train size; seeds count as one."""
    if "model" in training:
        return re.sub(r"-seed\d+$", "", str(training["model"]))
    size, is_sized, _ = training.get("variant", "").partition("-seed")
    return (
        f"{training['system']} ({size.removeprefix('n')} train queries)" if is_sized else training["system"]
    )


def _updates(losses: Path) -> tuple[int, int, float]:
    """The updates in a log without those that were skipped, and with them, and the epochs of all."""
    updates, steps, epochs = 0, 0, 0.0
    with losses.open("rb") as file:
        for record in map(json.loads, file):
            updates += record["outcome"] == "updated"
            steps += 1
            epochs += record["items"] / record["items_of_epoch"]
    return updates, steps, epochs


def _range(values: Sequence[float]) -> str:
    """One number, or the least and the largest.

    >>> _range([18]), _range([0.25]), _range([1200, 1250])
    ('18', '0.25', '1,200 to 1,250')
    """
    shown = [f"{value:,}" if isinstance(value, int) else f"{value:.2g}" for value in (values[0], values[-1])]
    return " to ".join(dict.fromkeys(shown))


def write_notes(path: Path, notes: Iterable[str]) -> None:
    """Write a note a line; an empty file where there is none."""
    with atomic_write(path) as file:
        file.write("".join(f"{note}\n" for note in notes).encode())
