"""Say why a job runs again in words: the key, module, package or stage above that changed.

Snakemake only knows that a rule's one param is another text than last time. The manifest beside
the old result still holds the old spec, so the two can be compared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from condenser.files import read_json
from condenser.pipeline.specs import differences

CurrentSpec = Callable[[str, dict[str, str]], dict[str, Any]]

_PARAMS_CHANGED = "Params have changed since last execution"


class ReasonFilter(logging.Filter):
    """Rewrites the reason of Snakemake's job announcements that name a changed param."""

    def __init__(self, current: CurrentSpec) -> None:
        super().__init__()
        self._current = current

    def filter(self, record: logging.LogRecord) -> bool:
        reason = getattr(record, "reason", None)
        if isinstance(reason, str) and _PARAMS_CHANGED in reason:
            manifests = [str(name) for name in getattr(record, "output", []) if ".manifest.json" in str(name)]
            words = self._words(manifests)
            if words:
                kept = [part for part in reason.split("; ") if not part.startswith(_PARAMS_CHANGED)]
                before = "; ".join(part for part in kept if part in _PLAIN_REASONS)
                record.reason = "; ".join(filter(None, [before, f"changed: {', '.join(words)}"]))
        return True

    def _words(self, manifests: list[str]) -> list[str]:
        for name in manifests:
            path = Path(name.split(" ")[0])
            try:
                old = read_json(path)["spec"]
                return differences(old, self._current(old["stage"], old["wildcards"]))
            except (OSError, ValueError, LookupError, TypeError):  # gone or damaged: Snakemake's words stay
                continue
        return []


_PLAIN_REASONS = {
    "Set of input files has changed since last execution",
    "Code has changed since last execution",
    "Software environment definition has changed since last execution",
}


def explain(logger: logging.Logger, current: CurrentSpec) -> None:
    """Have `logger`, Snakemake's own, announce changed settings by name."""
    for old in [one for one in logger.filters if type(one).__name__ == ReasonFilter.__name__]:
        logger.removeFilter(old)
    logger.addFilter(ReasonFilter(current))
