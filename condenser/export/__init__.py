"""A retriever as other libraries load it: sentence-transformers, transformers, Pyserini and ONNX Runtime.

docs/systems.md says what lies in the folder.
"""

from __future__ import annotations

from importlib.util import find_spec

PACKAGES = {  # by the name of the package index, that of the import
    "sentence-transformers": "sentence_transformers",
    "onnx": "onnx",
    "onnxscript": "onnxscript",
    "onnxruntime": "onnxruntime",
}


def refuse_missing_packages() -> None:
    """See that the packages of the extra `export` are installed.

    Raises:
        ValueError: some are not.
    """
    missing = [name for name, module in PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise ValueError(
            f"export: expected the packages of the extra 'export', got none of {', '.join(missing)}. "
            "Run `make setup`."
        )
