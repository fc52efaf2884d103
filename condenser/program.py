"""How every program of workflow_scripts runs: one-line errors, log, signals, and its end."""

from __future__ import annotations

import logging
import os
import re
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence

log = logging.getLogger("condenser")

CONTROLLER_VARIABLE = "CONDENSER_CONTROLLER"
"""Set by the workflow for its programs: the process that waits for their results."""

# Asks the system for a signal when the parent ends, then becomes the command; 1 is PR_SET_PDEATHSIG.
_BIND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[1]), 0, 0, 0)
if os.getppid() != int(sys.argv[2]): sys.exit("the parent ended first")
os.execv(sys.argv[3], sys.argv[3:])
"""


class _WithoutPasswords(logging.Filter):
    """Takes names and passwords out of the addresses in what is logged, such as that of a proxy."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = without_passwords(record.getMessage()), None
        return True


def without_passwords(text: str) -> str:
    """The text without what stands before the host of an address.

    >>> without_passwords("no answer from http://me:secret@proxy:3128/")
    'no answer from http://***@proxy:3128/'
    """
    return re.sub(r"//[^\s/]*@", "//***@", text)


def run(main: Callable[[], None]) -> None:
    """Run a program's `main`: a person's mistake is one line on standard error and status 1.

    So is a refusal of memory by the system or a GPU. A defect of ours prints its traceback, then the line.
    SIGTERM ends the program with status 143 after its `finally` blocks have run. The program gets SIGTERM
    when the Snakemake that started it is killed: nobody waits for its result any more.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for handler in logging.getLogger().handlers:
        handler.addFilter(_WithoutPasswords())
    for noisy in ("httpx", "httpx2", "transformers", "faiss", "faiss.loader"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if CONTROLLER_VARIABLE in os.environ:
        _end_with(int(os.environ[CONTROLLER_VARIABLE]))
    try:
        main()
    except (ValueError, FileNotFoundError, PermissionError) as error:
        print(without_passwords(f"error: {error}"), file=sys.stderr)
        log.debug("", exc_info=error)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        name = error.filename2 or error.filename or "a file"  # the second of two is the one written
        print(without_passwords(f"error: {error.strerror or error}: {name}"), file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        if is_out_of_memory(error):
            said = str(error).strip().partition("\n")[0] or type(error).__name__
            print(
                f"error: out of memory: {said}. Give this job more memory, or lower rows_per_chunk or "
                "encode.batch_tokens.",
                file=sys.stderr,
            )
            sys.exit(1)
        print(without_passwords(traceback.format_exc()), end="", file=sys.stderr)
        print(without_passwords(f"internal error ({type(error).__name__}): {error}"), file=sys.stderr)
        sys.exit(2)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # an exception while Python exits would be lost


def is_out_of_memory(error: Exception) -> bool:
    """Whether Python or PyTorch, on a CPU or a GPU, was refused memory."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True  # the second is PyTorch's, by name: not every program imports torch
    said = str(error)
    # PyTorch's CPU allocator; the GPU's driver; cuBLAS
    signs = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return any(sign in said for sign in signs)


def _end_with(controller: int) -> None:
    """Send this process SIGTERM when the process `controller` has ended."""
    try:
        descriptor = os.pidfd_open(controller)
    except (AttributeError, OSError):  # Linux only; or a container hides the controller
        return

    def watch() -> None:
        select.select([descriptor], [], [])
        log.warning("the workflow that started this program has ended: stopping")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="watch-controller", daemon=True).start()


def bound(command: Sequence[str], *, number: signal.Signals) -> list[str]:
    """The command of a child process that gets a signal when this process ends, however it ends.

    The command's program is given by its full path. Only Linux can do this; elsewhere the command comes
    back unchanged. For Linux the parent is the thread that starts the child, so that thread must wait for
    the child's end.
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _BIND, str(int(number)), str(os.getpid()), *command]
