"""Anserini in this process by pyjnius: for single queries, and for the searchers of Pyserini."""

from __future__ import annotations

import os

from condenser.retrieve.bm25 import UTF8, find_anserini, find_java


def start_java(*, heap_mb: int) -> None:
    """Start Java with Anserini inside this process, where none runs yet; `jnius` then finds its classes.

    Raises:
        ValueError: Java does not start; it has printed the reason.
    """
    import jnius_config

    if not jnius_config.vm_running:
        os.environ.update(UTF8)
        os.environ["JAVA_HOME"] = str(find_java().resolve().parents[1])
        jnius_config.set_classpath(str(find_anserini()))
        # -Xrs leaves Ctrl-C and SIGTERM to Python; without it Java ends the process
        # Anserini's own logging takes half a second to start, and says nothing that we show
        logging = "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory"
        jnius_config.set_options(f"-Xmx{heap_mb}m", "-Xrs", "-XX:-UsePerfData", logging)
        try:
            import jnius  # noqa: F401 - this starts it
        except SystemError as error:
            raise ValueError(
                f"expected Java to start, got: {error}. The lines above say why. Is there enough memory, and "
                "is JAVA_TOOL_OPTIONS right?"
            ) from error
