"""Write what the code and its files say into the pages: `make pages`. tests/docs/test_made.py checks them.

    python docs/pages.py            # writes what differs
    python docs/pages.py --check    # names what differs, and ends with status 1
    python docs/pages.py --publish results/mine/few.tests.tsv --study labels --commit 1a2b3c4d --split test

Whole files are docs/config.md and docs/config.schema.json. In other pages it replaces each part between
`<!-- made: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from condenser import kinds, program  # noqa: E402
from condenser.blocks import Recipe, SentenceRecipe, Written  # noqa: E402
from condenser.settings import Block, plain  # noqa: E402

NOUNS = {  # of config.yaml: the key that names a kind, the kinds' folder, and the block of their defaults
    "datasets": ("source", "data/sources", "sources"),
    "models": ("objective", "objectives", "objectives"),
    "systems": ("kind", "systems", ""),
    "figures": ("kind", "evaluate/figures", ""),
}
LISTS = {
    "objectives": "objectives", "systems": "systems", "measures": "evaluate/measures",
    "sources": "data/sources", "figures": "evaluate/figures",
}  # fmt: skip
COLUMNS = ("key", "what it may be", "value", "meaning")
COLLECTIONS = {  # data sets of docs/results.tsv
    "default": "docstrings (the default, 2,000 queries)",
    "squad": "Wikipedia (SQuAD, 798)",
    "medquad": "health (MedQuAD, 1,446)",
}
_LARGEST = 2**63 - 1


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if a page differs")
    published = parser.add_argument_group("first append the tests of tables to docs/results.tsv")
    published.add_argument("--publish", type=Path, nargs="+", help="results/<dataset>/<table>.tests.tsv")
    for name, told in (("study", "a folder of docs/studies"), ("commit", "of the code that ran")):
        published.add_argument(f"--{name}", default="", help=told)
    published.add_argument("--split", default="", help="of the queries")
    published.add_argument("--settings", default="", help="that tell its lines from others of the study")
    given = parser.parse_args(argv)
    if given.publish:
        publish(given.publish, vars(given))
    made = {file: text.encode() for file, text in pages().items()} | pictures()
    differ = [file for file, content in made.items() if not file.is_file() or file.read_bytes() != content]
    for file in differ:
        print(f"{file.relative_to(ROOT)}: {'differs' if given.check else 'written'}")
        if not given.check:
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(made[file])
    if differ and given.check:
        sys.exit("error: expected what `make pages` writes. Run it.")


def pages() -> dict[Path, str]:
    """The text of each page that is made, or has parts that are."""
    schema = f"{json.dumps(config_schema(), indent=1, ensure_ascii=False)}\n"
    found = {ROOT / "docs/config.md": config_page(), ROOT / "docs/config.schema.json": schema}
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text()
        if page not in found and "<!-- made: " in text:
            found[page] = with_parts(text, folder="docs/" if page.parent == ROOT else "")
    return found


def with_parts(text: str, *, folder: str) -> str:
    """A page with its made parts as they are now; `folder` leads from the page to docs/."""

    def part(match: re.Match[str]) -> str:
        noun, _, name = match[1].partition(" ")
        made = PARTS[noun](name).replace("](results/", f"]({folder}results/")
        return f"<!-- made: {match[1]} -->\n{made}\n<!-- end -->"

    return re.sub(r"<!-- made: ([^>]+) -->\n.*?<!-- end -->", part, text, flags=re.DOTALL)


# ---- the kinds -----------------------------------------------------------------------------------


def kinds_list(name: str) -> str:
    """The kinds of a folder with the first sentences of their modules."""
    folder = LISTS[name]
    told = {kind: sentence_of(kinds.load(folder, kind)) for kind in kinds.names(folder)}
    return "\n".join(f"- `{kind}`: {text}." for kind, text in told.items())


def sentence_of(documented: Any) -> str:
    """The first paragraph of a docstring, on one line, without the full stop."""
    return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split()).rstrip(".")


# ---- docs/results.tsv ----------------------------------------------------------------------------


def results() -> list[dict[str, str]]:
    """The lines of docs/results.tsv."""
    with (ROOT / "docs" / "results.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def publish(files: Sequence[Path], told: Mapping[str, Any]) -> None:
    """Append the lines of tables' tests to docs/results.tsv.

    Raises:
        ValueError: there is no such study, a commit is missing, or a line is there already.
    """
    if not (ROOT / "docs" / "studies" / told["study"] / "README.md").is_file() or not told["study"]:
        raise ValueError(f"--study: expected a folder of docs/studies, got {told['study']!r}.")
    if not told["commit"]:
        raise ValueError("--commit: expected the commit of the code that ran, got none.")
    ours = {"value": "row_mean", "holm_p": "holm_p_value"}
    fixed = {key: told[key] for key in ("study", "commit", "settings", "split")}
    keys = ("study", "settings", "dataset", "split", "row", "compared_with", "measure")
    known = {tuple(line[key] for key in keys) for line in results()}
    with (ROOT / "docs" / "results.tsv").open("r+", encoding="utf-8", newline="") as opened:
        columns = opened.readline().rstrip("\n").split("\t")
        opened.seek(0, 2)
        for file in files:
            lines = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines(), delimiter="\t"))
            compared = Counter(line["measure"] for line in lines)
            for line in lines:
                seeds = line["row_seeds"].split(",") if line["row_seeds"] else ["one"]
                more = {"date": f"{date.today()}", "dataset": file.parent.name, "seeds": str(len(seeds))}
                more["comparisons"] = str(compared[line["measure"]])
                whole = {**line, **{key: line[name] for key, name in ours.items()}, **fixed, **more}
                if tuple(whole.get(key, "") for key in keys) in known:
                    raise ValueError(
                        f"{file}: expected new lines, got {line['row']} in {line['measure']}, which is in "
                        "docs/results.tsv. Take that out, or give other --settings."
                    )
                opened.write("\t".join(whole.get(column, "") for column in columns) + "\n")


class Chosen:
    """Lines of docs/results.tsv: those of a study, a measure and maybe settings, by row and data set.

    Of a part such as `study=labels; measure=nDCG@10; rows=bm25 | hybrid; over=start`, where `over` names what
    the rows are compared with; `titles` and `called` are shown in place of the names of rows and of `over`.
    `bold=none` marks no best value, `digits` are decimals.
    """

    def __init__(self, told: str) -> None:
        keys = dict(part.strip().split("=", 1) for part in told.split(";"))
        self.over = keys.get("over", "")
        self.called = keys.get("called", self.over)
        self.rows = [name.strip() for name in keys["rows"].split("|")]
        titles = [name.strip() for name in keys.get("titles", keys["rows"]).split("|")]
        self.titles = dict(zip(self.rows, titles, strict=True))
        self.name = keys.get("name", "")
        self.digits, self.shows_best = int(keys.get("digits", 3)), keys.get("bold") != "none"
        fixed = {key: keys[key] for key in ("study", "measure", "settings") if key in keys}
        self.lines: dict[tuple[str, str], dict[str, str]] = {}
        column = "difference" if self.over else "value"
        for line in results():
            if all(line[key] == value for key, value in fixed.items()) and (
                line["compared_with"] == self.over if self.over else line["value"]
            ):
                known = self.lines.setdefault((line["row"], line["dataset"]), line)
                if line["row"] in self.rows and known[column] != line[column]:
                    raise ValueError(
                        f"docs/results.tsv: expected one {line['row']} of {line['dataset']} for {told!r}, "
                        f"got two. Name their settings: {known['settings']!r} or {line['settings']!r}."
                    )
        self.datasets = [name for name in COLLECTIONS if any(dataset == name for _, dataset in self.lines)]
        self.measure = keys["measure"]
        missing = [row for row in self.rows if not any(row == known for known, _ in self.lines)]
        if missing or not self.datasets:
            raise ValueError(f"docs/results.tsv: expected lines of {missing or told}, found none.")


def values_table(told: str) -> str:
    """The values of rows, a column for each data set; the best of each is bold."""
    chosen = Chosen(told)
    best = {
        name: max(float(line["value"]) for row in chosen.rows if (line := chosen.lines.get((row, name))))
        for name in chosen.datasets
    }

    def cell(row: str, name: str) -> str:
        if (line := chosen.lines.get((row, name))) is None:
            return ""
        text = as_figure(line["value"], digits=chosen.digits)
        return f"**{text}**" if chosen.shows_best and float(line["value"]) == best[name] else text

    return results_table(chosen, cell)


def differences_table(told: str) -> str:
    """Differences of rows to `over`, a column for each data set; what a test shows is bold."""
    chosen = Chosen(told)

    def cell(row: str, name: str) -> str:
        if (line := chosen.lines.get((row, name))) is None:
            return ""
        low, high = (as_figure(line[f"difference_{end}"]) for end in ("low", "high"))
        text = f"{as_figure(line['difference'], sign='+')} [{low}, {high}]"
        return f"**{text}**" if line["verdict"] in ("better", "worse") else text

    return results_table(chosen, cell)


def results_table(chosen: Chosen, cell: Callable[[str, str], str]) -> str:
    """A table of rows and data sets."""
    heads = [COLLECTIONS[name] for name in chosen.datasets]
    first = f"{chosen.measure}{f', difference to {chosen.called}' if chosen.over else ''}"
    rows = [[chosen.titles[row], *(cell(row, name) for name in chosen.datasets)] for row in chosen.rows]
    return table([first, *heads], rows).rstrip("\n")


def as_figure(text: str, *, sign: str = "", digits: int = 3) -> str:
    """A number with so many decimals, as tables of measures have it.

    >>> as_figure("0.0385", sign="+"), as_figure("-0.0004")
    ('+.039', '-.000')
    """
    rounded = f"{Decimal(text).quantize(Decimal(10) ** -digits, ROUND_HALF_UP):{sign}}"
    return re.sub(r"^([+-]?)0\.", r"\1.", rounded)


def forest(told: str) -> str:
    """A picture of differences to `over`, a panel for each data set; gives the words that show it."""
    chosen = Chosen(told)
    shown = f"{chosen.measure}: differences to {chosen.called}, with 95 % intervals"
    return f"![{shown}](results/{chosen.name}.svg)"


def pictures() -> dict[Path, bytes]:
    """The pictures that pages show, by file."""
    found = {}
    for page in (ROOT / "README.md", ROOT / "docs" / "results.md"):
        for told in re.findall(r"<!-- made: forest ([^>]+) -->", page.read_text()):
            chosen = Chosen(told)
            found[ROOT / "docs" / "results" / f"{chosen.name}.svg"] = drawn(chosen)
    return found


def drawn(chosen: Chosen) -> bytes:
    """Bars of differences, with their intervals; grey where no difference is shown."""
    from matplotlib.figure import Figure

    from condenser.evaluate.figures._drawing import QUIET, svg

    def draw() -> Figure:
        height = 0.4 + (0.45 + 0.2 * len(chosen.rows)) * len(chosen.datasets)
        figure = Figure(figsize=(5.0, height), layout="constrained")  # legible on a phone
        panels = figure.subplots(len(chosen.datasets), 1, sharex=True, squeeze=False)[:, 0]
        for panel, name in zip(panels, chosen.datasets, strict=True):
            panel.set_title(COLLECTIONS[name])
            panel.axvline(0, color="#000000", lw=0.8)
            rows = [row for row in chosen.rows if (row, name) in chosen.lines]
            for place, row in enumerate(rows):
                line = chosen.lines[row, name]
                mean, low, high = (float(line[f"difference{end}"]) for end in ("", "_low", "_high"))
                colour = "#0072B2" if line["verdict"] in ("better", "worse") else QUIET
                panel.barh(place, mean, color=colour, alpha=0.75)
                panel.errorbar(mean, place, xerr=[[mean - low], [high - mean]], color="#000000", lw=1)
            panel.set_yticks(range(len(rows)), [chosen.titles[row].replace("`", "") for row in rows])
            panel.invert_yaxis()
        panels[-1].set_xlabel(f"{chosen.measure}, difference to {chosen.called}")
        return figure

    return svg(draw)


PARTS: dict[str, Callable[[str], str]] = {
    "values": values_table, "differences": differences_table, "forest": forest,
}  # fmt: skip

# ---- docs/config.md ------------------------------------------------------------------------------

HEAD = """# Every key of the configuration

Made by `make pages` from the classes that check the keys and from the comments of
[config.yaml](../config.yaml); an edit here is lost. A value in **bold** is that of config.yaml. Any
other value is that of a key which is left out; "-" is none: the key must be given.
[config.schema.json](config.schema.json) says the same to an editor. The first lines of config.yaml
explain the abbreviations of sources.
"""


def config_page() -> str:
    """The reference of all keys."""
    written = yaml.safe_load((ROOT / "config.yaml").read_text())
    comments = yaml_comments((ROOT / "config.yaml").read_text())
    parts = [HEAD]
    for name, field in Written.model_fields.items():
        block = block_of(field.annotation)
        if name in NOUNS:
            parts.append(noun_section(name, written, comments))
        elif name == "recipes":
            classes = {"for retrievers": Recipe, "for encoders of sentences": SentenceRecipe}
            for title, recipe in classes.items():
                values = written[name]["marco"] if recipe is Recipe else {}
                parts.append(
                    block_section(f"recipes, {title}", recipe, values, comments, ("recipes", "marco"))
                )
        elif block is not None:
            is_named = str(field.annotation).startswith("dict")
            values = next(iter(written.get(name, {}).values()), {}) if is_named else written.get(name, {})
            path = (name, next(iter(written.get(name) or [""]))) if is_named else (name,)
            title = f"{name}, each entry" if is_named else name
            parts.append(block_section(title, block, values, comments, path))
        elif name not in ("sources", "objectives"):  # they are the columns of their nouns
            kind = of_schema(Written.model_json_schema()["properties"][name])
            row = (f"`{name}`", kind, f"**{shown(written.get(name))}**", comments.get((name,), ""))
            parts.append(f"## {name}\n\n{table(COLUMNS, [row])}")
    parts.append(f"## Measures\n\n`NAME@depth`, or `NAME` alone for sentences:\n\n{kinds_list('measures')}\n")
    return "\n".join(parts)


def block_section(
    title: str,
    block: type[Block],
    values: Any,
    comments: Mapping[tuple[str, ...], str],
    path: tuple[str, ...],
) -> str:
    """The keys of a block."""
    rows = list(rows_of(block, values or {}, comments, path))
    text = whole_text_of(block)
    return f"## {title}\n\n{text}{table(COLUMNS, rows)}"


def whole_text_of(block: type[Block]) -> str:
    """The docstring of a block, where it has its own."""
    own = vars(block).get("__doc__")
    return f"{inspect.cleandoc(own)}\n\n" if own else ""


def noun_section(noun: str, written: Mapping[str, Any], comments: Mapping[tuple[str, ...], str]) -> str:
    """The kinds of a noun, and their keys; a key that several kinds have stands once."""
    tag, folder, defaults = NOUNS[noun]
    of_keys: dict[tuple[str, ...], list[str]] = {}
    for kind in kinds.names(folder):
        block = kinds.load(folder, kind).Settings
        values = written.get(defaults, {}).get(kind, {}) if defaults else {}
        for row in rows_of(block, values, comments, (defaults, kind)):
            if row[0] != f"`{tag}`":
                of_keys.setdefault(row, []).append(kind)
    names = kinds.names(folder)
    rows = [
        (row[0], "all" if len(having) == len(names) else ", ".join(having), *row[1:])
        for row, having in of_keys.items()
    ]
    rows.sort(key=lambda row: row[1] != "all")
    listed = kinds_list({"datasets": "sources", "models": "objectives"}.get(noun, noun))
    head = f"## {noun}\n\nEach entry has a name. `{tag}` is its kind:\n\n{listed}\n"
    where = (
        f" `{defaults}.KIND` holds what all entries of a kind have unless they say otherwise."
        if defaults
        else ""
    )
    return f"{head}\n{where.strip()}\n\n{table(('key', 'kinds', 'what it may be', 'value', 'meaning'), rows)}"


def rows_of(
    block: type[Block],
    values: Mapping[str, Any],
    comments: Mapping[tuple[str, ...], str],
    path: tuple[str, ...],
) -> Iterator[tuple[str, str, str, str]]:
    """Key, type, value and meaning of each key of a block, and of the blocks in it."""
    schema, notes = block.model_json_schema(), field_comments(block)
    for name, field in block.model_fields.items():
        of_field, inner, here = schema["properties"][name], block_of(field.annotation), (*path, name)
        default = "-" if field.is_required() else shown(plain(field.get_default(call_default_factory=True)))
        value = f"**{shown(values[name])}**" if name in values else default
        told = comments.get(here, "ours")
        meaning = notes.get(name, "") if told == "ours" else told
        if inner is None or name not in values:
            if inner is not None and not meaning:
                meaning = sentence_of(inner)
            yield f"`{name}`", of_schema(of_field), value, meaning
        if inner is not None:
            nested = values[name] if isinstance(values.get(name), dict) else {}
            for key, *rest in rows_of(inner, nested, comments, here):
                yield f"`{name}.{key[1:]}", *rest


def block_of(annotation: Any) -> type[Block] | None:
    """The block that a key holds, also as one of several or as a value of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return annotation
    found = (block_of(part) for part in getattr(annotation, "__args__", ()))
    return next(filter(None, found), None)


def of_schema(schema: Mapping[str, Any]) -> str:
    """A JSON schema in words.

    >>> of_schema({"type": "integer", "minimum": 1})
    'whole number, 1 or more'
    """
    if "$ref" in schema:
        return "keys below"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(of_schema(part) for part in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {of_schema(schema.get('items', {}))}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"names with {of_schema(inner)}" if isinstance(inner, dict) and inner else "names with keys"
    names = {
        "integer": "whole number",
        "number": "number",
        "string": "text",
        "boolean": "true or false",
        "null": "null",
    }
    return ", ".join(filter(None, [names.get(kind, "see meaning"), bounds_of(schema)]))


def bounds_of(schema: Mapping[str, Any]) -> str:
    """The least and the most of a number in words."""
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    most = None if most == _LARGEST else most
    if least is not None and most is not None:
        return f"{least:g} to {most:g}"
    words = {"{:g} or more": least, "at most {:g}": most, "above {:g}": above, "below {:g}": below}
    return ", ".join(word.format(value) for word, value in words.items() if value is not None)


def shown(value: Any) -> str:
    """A value as YAML has it on one line, shortened.

    >>> shown({"query": 32}), shown(None), shown(1.0e-05)
    ('{query: 32}', 'null', '1.0e-05')
    """
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    text = text.replace("...\n", "").strip()
    return text if len(text) <= 60 else f"{text[:57]}..."


def yaml_comments(text: str) -> dict[tuple[str, ...], str]:
    """The comment of each key: on its line, and on the lines of comments below it."""
    lines, of_line = text.splitlines(), dict[int, tuple[str, ...]]()

    def walk(node: Any, path: tuple[str, ...]) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                of_line.setdefault(key.start_mark.line, (*path, key.value))
                walk(value, (*path, key.value))

    walk(yaml.compose(text), ())
    found, path = dict[tuple[str, ...], list[str]](), None
    for number, line in enumerate(lines):
        code, mark, comment = line.partition("# ")
        path = of_line.get(number, path if not code.strip() else None)
        if path and mark and not comment.startswith("---"):
            found.setdefault(path, []).append(comment.strip())
    return {path: " ".join(parts) for path, parts in found.items()}


def field_comments(block: type[Block]) -> dict[str, str]:
    """The comments of a block's keys in its source, those of the classes below it too."""
    found = dict[str, str]()
    for owner in reversed(block.__mro__):
        if issubclass(owner, Block) and owner is not Block:
            above = ""
            for line in inspect.getsource(owner).splitlines():
                match = re.match(r"    (\w+): .*?(?:  # (.*))?$", line)
                if match and (comment := match[2] or above):
                    found[match[1]] = comment
                above = line.strip()[2:] if line.startswith("    # ") else ""
    return found


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in lines)


# ---- docs/config.schema.json ---------------------------------------------------------------------


def config_schema() -> dict[str, Any]:
    """The JSON schema of config.yaml and of overlays, which have some of its keys."""
    schema = Written.model_json_schema(ref_template="#/$defs/{model}")
    schema |= {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "config.yaml, and overlays",
    }
    definitions = schema["$defs"]
    for noun, (tag, folder, defaults) in NOUNS.items():
        choices = []
        for kind in kinds.names(folder):
            name = f"{noun}.{kind}"
            definitions[name] = definition_of(kinds.load(folder, kind).Settings, definitions)
            choices.append(
                {
                    "if": {"properties": {tag: {"const": kind}}, "required": [tag]},
                    "then": {"$ref": f"#/$defs/{name}"},
                }
            )
        entry = {"type": "object", "properties": {tag: {"enum": kinds.names(folder)}}, "allOf": choices}
        schema["properties"][noun] = {"type": "object", "additionalProperties": entry}
        if defaults:
            of_kinds = {kind: {"$ref": f"#/$defs/{noun}.{kind}"} for kind in kinds.names(folder)}
            schema["properties"][defaults] = {
                "type": "object",
                "properties": of_kinds,
                "additionalProperties": False,
            }
    recipes = [definition_of(block, definitions) for block in (Recipe, SentenceRecipe)]
    schema["properties"]["recipes"] = {"type": "object", "additionalProperties": {"anyOf": recipes}}
    return without_required(schema)


def definition_of(block: type[Block], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a block; what it refers to is added to the definitions."""
    schema = block.model_json_schema(ref_template="#/$defs/{model}")
    definitions.update(schema.pop("$defs", {}))
    return schema


def without_required(schema: Any) -> Any:
    """A schema that demands no key, but for the one that names a kind; null takes a key away."""
    if isinstance(schema, list):
        return [without_required(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = {"title"} | (set() if "properties" in schema and "type" not in schema else {"required"})
    return {
        key: without_required(value)
        for key, value in schema.items()
        if key not in dropped or not isinstance(value, str if key == "title" else list)
    }


if __name__ == "__main__":
    program.run(main)
