"""Reasons in plain words: Snakemake reports everything that `freshness` finds as changed params."""

from __future__ import annotations

import logging

_BEFORE, _AFTER = "Params have changed since last execution: ", "changed: "


class ReasonFilter(logging.Filter):
    """Rewrites the reason of Snakemake's job announcements."""

    def filter(self, record: logging.LogRecord) -> bool:
        reason = getattr(record, "reason", None)
        if isinstance(reason, str):
            record.reason = reason.replace(_BEFORE, _AFTER)
        return True


def explain(logger: logging.Logger) -> None:
    """Let `logger`, Snakemake's own, announce what changed."""
    for old in [one for one in logger.filters if type(one).__name__ == ReasonFilter.__name__]:
        logger.removeFilter(old)
    logger.addFilter(ReasonFilter())
