"""Write down the GPUs that this process may use, and when it ran; a stand-in for a program with CUDA."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

began = time.time()
time.sleep(4)
rank, gpus = os.environ.get("RANK", "0"), os.environ.get("CUDA_VISIBLE_DEVICES", "none")
with Path(sys.argv[1]).open("a") as file:
    file.write(f"{rank} {gpus} {began} {time.time()}\n")
