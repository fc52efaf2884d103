"""Commands on a pseudo-terminal, and what stood on it."""

from __future__ import annotations

import os
import pty
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runs import environment

SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\]8;[^\x1b]*\x1b\\")


@dataclass
class OnTerminal:
    """What a command wrote to a terminal of 80 columns and 24 lines, and its status."""

    raw: str
    status: int

    @property
    def screens(self) -> list[str]:
        """What stood on the terminal whenever a line was about to be erased, and at the end.

        Lines that scrolled away still count.
        """
        lines, screens = [""], list[str]()
        for piece in re.split(r"(\x1b\[[0-9;?]*[a-zA-Z]|\r\n|\r)", self.raw):
            if piece == "\x1b[K":
                screens += ["\n".join(lines)] if lines[-1] else []
                lines[-1] = ""
            elif piece == "\r\n":
                lines.append("")
            elif not piece.startswith(("\x1b", "\r")):
                lines[-1] += piece
        return [*screens, "\n".join(lines).rstrip()]


def on_terminal(
    folder: Path, words: list[str], *, then: Callable[[str, int], None] | None = None, **more: str
) -> OnTerminal:
    """Run a command on a pseudo-terminal; `then` gets what it wrote so far and its process."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.chdir(folder)
        size = {"COLUMNS": "80", "LINES": "24", "TERM": "xterm-256color"}
        os.execve(words[0], words, {**environment(), **size, **more})
    raw = b""
    while True:
        try:
            part = os.read(descriptor, 1 << 16)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            break
        raw += part
        if then is not None:
            then(raw.decode(errors="replace"), pid)
    os.close(descriptor)
    return OnTerminal(raw.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
