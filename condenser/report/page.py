"""The report as one HTML file, which needs no network: style, script, pictures and data stand in it."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from condenser.report.collect import Report
from condenser.report.queries import Limits

FOLDER = Path(__file__).parent


def page(report: Report, limits: Limits) -> tuple[str, dict[str, int]]:
    """The page, and counts of what is on it.

    Its security policy lets nothing run but our script, and nothing be loaded.
    """
    queries = report.queries(limits)
    script = (FOLDER / "report.js").read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": duration,
        "size": size,
        "picture": picture,
        "day": lambda text: datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M") if text else "",
    }
    tables = report.tables()
    trust, missing = report.trust(), report.missing()
    text = environment.get_template("page.html.j2").render(
        dataset=report.dataset,
        style=Markup((FOLDER / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=_embedded(queries),
        queries=queries,
        limits=limits,
        tables=tables,
        curves=report.curves(),
        figures=report.figures(),
        audit=report.audit(),
        costs=report.costs(),
        provenance=report.provenance(),
        trust=trust,
        missing=missing,
    )
    counts = {
        "results": trust["num_results"],
        "out_of_date": trust["num_old"],
        "tables": len(tables),
        "missing": len(missing),
        "queries": len(queries["queries"]) if queries else 0,
        "queries_of_evaluation": queries["num_queries"] if queries else 0,
        "passages": len(queries["passages"]) if queries else 0,
        "passages_cut": sum(passage[3] for passage in queries["passages"]) if queries else 0,
        "bytes": len(text.encode()),
    }
    return text, counts


def _embedded(value: Any) -> Markup:
    """JSON within a script element, which no text of the collection can end."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def picture(svg: bytes) -> Markup:
    """The address of an image that holds the picture itself."""
    return Markup("data:image/svg+xml;base64," + base64.b64encode(svg).decode())


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(59.96), duration(75), duration(7260)
    ('60.0 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def size(num_bytes: float) -> str:
    """Bytes in words.

    >>> size(12), size(123_456), size(5e9), size(2e13)
    ('12 B', '123.5 kB', '5.0 GB', '20.0 TB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} B" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} TB"
