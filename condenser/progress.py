"""Progress of long work: a bar on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")

LINE_EVERY_S = 20.0


class Progress:
    """Counts steps of known or unknown total and tells rate and time left on standard error.

    On a terminal this is a tqdm bar; in a log it is one line every `LINE_EVERY_S` seconds, so
    that a log of a week stays readable.
    """

    def __init__(self, what: str, *, total: int | None, unit: str, start: int = 0) -> None:
        self._terminal = sys.stderr.isatty()
        self._bar = tqdm(
            total=total, initial=start, desc=what, unit=unit, disable=not self._terminal, dynamic_ncols=True
        )
        self._what, self._total, self._unit = what, total, unit
        self._start, self._done = start, start
        self._began = self._last_line = time.monotonic()
        self._marks = deque([(self._began, start)], maxlen=6)  # the rate is that of the last lines

    def advance(self, count: int = 1, *, note: str = "") -> None:
        """Count `count` more; `note` (a loss, say) is shown behind the rate."""
        self._done += count
        if self._terminal:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(count)
            return
        now = time.monotonic()
        if now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            self._line(now, note)

    def _line(self, now: float, note: str) -> None:
        since, done_then = self._marks[0]
        rate = (self._done - done_then) / max(now - since, 1e-9)
        self._marks.append((now, self._done))
        speed = f"{rate:,.1f} a second" if rate >= 1 else f"{1 / max(rate, 1e-9):,.1f} s each"
        text = f"{self._what}: {self._done:,}"
        if self._total is not None:
            left_s = (self._total - self._done) / max(rate, 1e-9)
            text += f" of {self._total:,} {self._unit} ({100 * self._done / max(self._total, 1):.0f} %)"
            text += f", {speed}, {tqdm.format_interval(left_s)} left"
        else:
            text += f" {self._unit}, {speed}"
        print(text + (f", {note}" if note else ""), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Finish the bar; in a log, a last line with the total and the mean rate."""
        if self._terminal:
            self._bar.close()
        elif self._done > self._start:
            elapsed = tqdm.format_interval(time.monotonic() - self._began)
            print(
                f"{self._what}: {self._done - self._start:,} {self._unit} done in {elapsed}",
                file=sys.stderr,
                flush=True,
            )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:  # what broke off is not done; its error is the last line, also where a generator is closed late
            self._bar.close()


def count_lines(path: str | Path) -> int:
    """How many line feeds a file has: the total of work that goes through it line by line.

    For what is shown alone: changes of this module make no stage run again.
    """
    with Path(path).open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def track(items: Iterable[Item], what: str, *, total: int | None, unit: str) -> Iterator[Item]:
    """Yield `items`, counting them on a `Progress`."""
    with Progress(what, total=total, unit=unit) as progress:
        for item in items:
            yield item
            progress.advance()
