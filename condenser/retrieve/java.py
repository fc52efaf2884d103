"""Anserini in this process by pyjnius: for single queries, and for the searchers of Pyserini."""

from __future__ import annotations

import os

from condenser.retrieve.bm25 import find_anserini, find_java


def start_java(*, heap_mb: int) -> None:
    """Start Java with Anserini inside this process, where none runs yet; `jnius` then finds its classes."""
    import jnius_config

    if not jnius_config.vm_running:
        os.environ["JAVA_HOME"] = str(find_java().resolve().parents[1])
        jnius_config.set_classpath(str(find_anserini()))
        # -Xrs leaves Ctrl-C and SIGTERM to Python; without it Java ends the process
        jnius_config.set_options(f"-Xmx{heap_mb}m", "-Xrs", "-XX:-UsePerfData")
        import jnius  # noqa: F401 - this starts it
