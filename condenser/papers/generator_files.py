"""The folder of a generator: a sequence-to-sequence model that transformers loads, such as T5 or BART.

Read without torch, so that the workflow knows the files before a job starts.
"""

from __future__ import annotations

from pathlib import Path

from condenser.files import read_json

CONFIG_FILE = "config.json"
_READ = ("*.json", "*.safetensors", "*.txt", "*.model")  # config, weights, and what a tokenizer may have
_TOKENIZERS = ("tokenizer.json", "spiece.model", "vocab.txt", "vocab.json", "sentencepiece.bpe.model")


def generator_files(folder: Path) -> list[Path]:
    """The files of a generator that decide what it generates: its config, weights and tokenizer.

    Weights in another form, which such a folder may also hold, are not read.

    Raises:
        ValueError: the folder lacks one of the three, or asks for code of its own.
    """
    if not folder.is_dir():
        raise ValueError(
            f"expected a folder, found none at {folder} (relative to where snakemake runs). Correct the path."
        )
    files = sorted({file for pattern in _READ for file in folder.glob(pattern) if file.is_file()})
    names = {file.name for file in files}
    if CONFIG_FILE not in names:
        raise ValueError(
            f"expected {CONFIG_FILE} in {folder}, as save_pretrained of transformers writes it, got none."
        )
    if "auto_map" in read_json(folder / CONFIG_FILE):
        raise ValueError(f"{folder}: expected an architecture of transformers, got one that runs own code.")
    if not any(file.suffix == ".safetensors" for file in files):
        raise ValueError(
            f"expected weights as safetensors in {folder}, got none. Load the model with transformers, and "
            "write it with save_pretrained."
        )
    if not names & set(_TOKENIZERS):
        raise ValueError(f"expected a tokenizer in {folder} ({', '.join(_TOKENIZERS)}), got none.")
    return files


def generator_bytes(folder: Path) -> int:
    """The bytes of a generator's weights."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def passage_input(title: str, text: str) -> str:
    """What a generator reads of a passage: its title and its text.

    >>> passage_input("", "a text"), passage_input("A title", "a text")
    ('a text', 'A title a text')
    """
    return f"{title} {text}".strip()
