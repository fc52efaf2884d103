"""Refuse a configuration file that cannot be read in one line, and one that is a program unrun.

A YAML file with `__use_yte__: true` is a template of the YTE engine, whose expressions are Python.
Snakemake runs them while it reads `--configfile`, before any line of the Snakefile; only a profile is
read earlier. So every profile calls `check_overlays`, and `rules/common.smk` asks `template_error`
again, for those who take a profile of their own: then the template has run, but nothing runs on it.
Both hand in the modules it takes, as this package imports neither Snakemake nor YAML.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_SWITCH = "__use_yte__"


def template_error(path: str | Path, text: str, *, yaml: ModuleType) -> str | None:
    """What is wrong with the configuration file, if it is a template, in one line.

    The switch is refused wherever it stands, quoted, escaped or merged in from elsewhere.
    """
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.ScalarEvent) and event.value == _SWITCH:
                line = event.start_mark.line + 1
                return f"{path}:{line}: expected settings, got a template ({_SWITCH}). Write its values out."
    except yaml.YAMLError:
        pass  # Snakemake's own reading will say so
    return None


def check_overlays(configfile: ModuleType, *, yaml: ModuleType) -> None:
    """From now on `configfile`, Snakemake's reader, reads a file only where it is text and no template."""
    load = configfile._load_configfile

    def load_checked(source: Any, filetype: str = "Config") -> Any:
        if isinstance(source, str | Path):
            try:
                text = Path(source).read_text(encoding="utf-8")  # once: it may be a pipe
            except OSError as error:
                sys.exit(f"error: config: {source}: {error.strerror}. Look at --configfile.")
            except UnicodeDecodeError as error:
                sys.exit(
                    f"error: config: {source}: expected UTF-8, got {error.reason} at byte {error.start}."
                )
            if told := template_error(source, text, yaml=yaml):
                sys.exit(f"error: config: {told}")
            source = io.StringIO(text)
        return load(source, filetype)

    vars(configfile)["_load_configfile"] = load_checked
