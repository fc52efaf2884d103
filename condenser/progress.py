"""Progress of long work: a bar on a terminal, a line from time to time elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")

LINE_EVERY_S = 20.0


class Progress:
    """Counts work, and shows rate and (if the total is known) time left on standard error.

    On a terminal this is a tqdm bar. In a log it is one line every `LINE_EVERY_S` seconds, so that the log
    of a week stays readable.
    """

    def __init__(self, what: str, *, total: int | None, unit: str, start: int = 0) -> None:
        self._terminal = sys.stderr.isatty()
        self._bar = tqdm(
            total=total, initial=start, desc=what, unit=unit, disable=not self._terminal, dynamic_ncols=True
        )
        self._what, self._total, self._unit = what, total, unit
        self._start, self._done = start, start
        self._began = self._last_line = time.monotonic()
        self._marks = deque([(self._began, start)], maxlen=6)  # the rate is that of the last few lines

    def advance(self, count: int = 1, *, note: str = "") -> None:
        """Count `count` more; `note` (a loss, for example) is shown after the rate."""
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
        """Finish the bar; in a log, print a last line with the total and the time."""
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
        else:  # the work failed: print nothing, so that its error is the last line
            self._bar.close()


def track(items: Iterable[Item], what: str, *, total: int | None, unit: str) -> Iterator[Item]:
    """Yield `items`, counting them on a `Progress`."""
    with Progress(what, total=total, unit=unit) as progress:
        for item in items:
            yield item
            progress.advance()
