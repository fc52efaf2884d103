"""Refuse a configuration file that cannot be read in one line, and one that is a program unrun.

A YAML file with `__use_yte__: true` is a template of the YTE engine, whose expressions are Python.
Snakemake runs them while it reads `--configfile`, before any line of the Snakefile; only a profile is
read earlier. So every profile calls `check_overlays`, which reads the files without that engine, and
`rules/common.smk` asks `template_error` again, for those who take a profile of their own: then the
template has run, but nothing runs on it. Both hand in the modules it takes, as this package imports
neither Snakemake nor YAML.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_SWITCH, _PYTHON_TAG = "__use_yte__", "tag:yaml.org,2002:python/"


def template_error(path: str | Path, text: str, *, yaml: ModuleType) -> str | None:
    """What is wrong with the configuration file, if it is a template or calls Python, in one line.

    The switch is refused wherever it stands, quoted, escaped or merged in from elsewhere; tags for
    Python's own objects likewise, as one of them can be made to give the switch.
    """
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            where = f"{path}:{event.start_mark.line + 1}"
            if isinstance(event, yaml.ScalarEvent) and event.value == _SWITCH:
                return f"{where}: expected settings, got a template ({_SWITCH}). Write its values out."
            if (getattr(event, "tag", None) or "").startswith(_PYTHON_TAG):
                return f"{where}: expected settings, got a tag that calls Python. Write the value out."
    except (yaml.YAMLError, RecursionError):
        pass  # reading will say so
    return None


def check_overlays(configfile: ModuleType, *, yaml: ModuleType) -> None:
    """From now on `configfile`, Snakemake's reader, reads a file only where it is settings and no program."""
    load = configfile._load_configfile

    def load_checked(source: Any, filetype: str = "Config") -> Any:
        if not isinstance(source, str | Path):
            return load(source, filetype)
        try:
            text = Path(source).read_text(encoding="utf-8")  # once: it may be a pipe
            if told := template_error(source, text, yaml=yaml):
                sys.exit(f"error: config: {told}")
            try:
                return json.loads(text)
            except ValueError:
                return yaml.safe_load(text)
        except OSError as error:
            sys.exit(f"error: config: {source}: {error.strerror}. Look at --configfile.")
        except UnicodeDecodeError as error:
            sys.exit(f"error: config: {source}: expected UTF-8, got {error.reason} at byte {error.start}.")
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f"{source}:{mark.line + 1}" if mark else source
            said = getattr(error, "problem", None) or error
            sys.exit(f"error: config: {where}: expected YAML or JSON: {said}.")

    vars(configfile)["_load_configfile"] = load_checked
