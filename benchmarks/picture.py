"""Take the picture of a page, such as that of the report in docs/reading.md; needs Chromium.

make report DATASET=msmarco && python benchmarks/picture.py results/msmarco/report.html docs/report.png
python benchmarks/picture.py results/msmarco/report.html phone.png --phone
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from browser import DESKTOP, PHONE, browser  # noqa: E402

from condenser import program  # noqa: E402


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("page", type=Path, help="an HTML file")
    parser.add_argument("output", type=Path, help="a PNG file")
    parser.add_argument("--phone", action="store_true", help="390 pixels wide")
    given = parser.parse_args(argv)
    with TemporaryDirectory() as folder, browser(Path(folder)) as tab:
        tab.resize(PHONE if given.phone else DESKTOP)
        tab.open(given.page.absolute().as_uri())
        tab.wait_for("document.readyState == 'complete' && location.protocol == 'file:'")
        time.sleep(1)  # until it is drawn
        tab.picture(given.output)


if __name__ == "__main__":
    program.run(main)
