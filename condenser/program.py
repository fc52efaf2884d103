"""How every program of workflow_scripts runs: one-line errors, log, signals, and its end."""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import re
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from unicodedata import bidirectional, category
from urllib.request import getproxies

log = logging.getLogger("condenser")

HOME = Path(".snakemake", "home")
"""The home of a user who has none that can be written."""

CONTROLLER_VARIABLE = "CONDENSER_CONTROLLER"
"""Set by the workflow for its programs: the process that waits for their results."""

_TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}  # marks of direction
_PROXY = r"([a-z0-9+.-]+://)?([^\s/?#\\]*@)?(\[[0-9a-f:.]+\]|[^\s/?#\\@:]+)(:\d+)?(/[^\s@]*)?"

# Asks the system for a signal when the parent ends, then becomes the command; 1 is PR_SET_PDEATHSIG.
_BIND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[1]), 0, 0, 0)
if os.getppid() != int(sys.argv[2]): sys.exit("the parent ended first")
os.execv(sys.argv[3], sys.argv[3:])
"""


class _Formatter(logging.Formatter):
    """Lines of a log without passwords, which cannot steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, without_passwords(super().format(record)).split("\n")))


def printable(text: str) -> str:
    """The text on one line, with what could steer a terminal as Python escapes it; for all text of strangers.

    That is: control characters, line ends, half a surrogate pair, marks that turn the direction of writing.

    >>> print(printable("a\\x1b[31m\\n\\u202eb"))
    a\\x1b[31m\\n\\u202eb
    """
    return "".join(ascii(letter)[1:-1] if _steers(letter) else letter for letter in text)


def _steers(letter: str) -> bool:
    return category(letter) in ("Cc", "Cs", "Zl", "Zp") or bidirectional(letter) in _TURNS


def without_passwords(text: str) -> str:
    """The text without what stands before the host of an address.

    >>> without_passwords("no answer from http://me:secret@proxy:3128/")
    'no answer from http://***@proxy:3128/'
    """
    return re.sub(r"//[^\s/]*@", "//***@", text)


def check_proxies() -> None:
    """See that the proxies of the environment can be read: of others, HTTP clients say parts of the password.

    Raises:
        ValueError: the address of one cannot.
    """
    for scheme, address in getproxies().items():
        if scheme != "no" and not re.fullmatch(_PROXY, address, flags=re.IGNORECASE):
            raise ValueError(
                f"{scheme}_proxy: expected an address such as http://host:3128, got another. "
                "Write / ? # \\ and spaces of a password in it as %2F %3F %23 %5C %20."
            )


def _tell(text: str) -> None:
    print(printable(without_passwords(text)), file=sys.stderr)


def give_home(folder: Path) -> None:
    """Give a user whose caches cannot be written `folder` as home, and one without a name a name.

    Snakemake and libraries end with a traceback where they can write no cache, or find no user.

    Raises:
        OSError: the folder cannot be made.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):  # no entry in /etc/passwd, as in many containers
        os.environ["LOGNAME"] = f"user{os.getuid()}"
    with contextlib.suppress(OSError, RuntimeError):  # the second: there is no home
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        models = caches / "huggingface"
        if os.access(models, os.R_OK):  # also where none can be added
            os.environ.setdefault("HF_HOME", str(models))
        (caches / "snakemake").mkdir(parents=True, exist_ok=True)
        if os.access(caches / "snakemake", os.W_OK):
            return
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(HOME=str(folder.absolute()), XDG_CACHE_HOME=str(folder.absolute() / ".cache"))


def run(main: Callable[[], None]) -> None:
    """Run a program's `main`: a person's mistake is one line on standard error and status 1.

    So is a refusal of memory by the system or a GPU. A defect of ours prints its traceback, then the line.
    SIGTERM ends the program with status 143 after its `finally` blocks have run. The program gets SIGTERM
    when the Snakemake that started it is killed: nobody waits for its result any more.
    """
    logging.basicConfig(level=logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    for noisy in ("httpx", "httpx2", "transformers", "faiss", "faiss.loader"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    give_home(HOME)
    if CONTROLLER_VARIABLE in os.environ:
        _end_with(int(os.environ[CONTROLLER_VARIABLE]))
    try:
        main()
    except (ValueError, FileNotFoundError, PermissionError) as error:
        _tell(f"error: {error}")
        log.debug("", exc_info=error)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        name = error.filename2 or error.filename or "a file"  # the second of two is the one written
        _tell(f"error: {error.strerror or error}: {name}")
        sys.exit(1)
    except Exception as error:
        if is_out_of_memory(error):
            said = str(error).strip().partition("\n")[0] or type(error).__name__
            _tell(
                f"error: out of memory: {said}. Give this job more memory, or lower rows_per_chunk or "
                "encode.batch_tokens."
            )
            sys.exit(1)
        for line in traceback.format_exc().splitlines():
            _tell(line)
        _tell(f"internal error ({type(error).__name__}): {error}")
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
