"""The export of one retriever: written, compared with this workflow, described; complete or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from condenser.export.agreement import Searched, compare
from condenser.export.card import CARD_FILE, Facts, model_card
from condenser.export.folders import passage_encoder_folder, write_index, write_model
from condenser.export.onnx_files import write_onnx
from condenser.files import atomic_folder, write_json
from condenser.model.untied import query_encoder_folder

MODEL_FOLDER, INDEX_FOLDER, AGREEMENT_FILE = "model", "pyserini", "agreement.json"


def export_retriever(
    retriever: Path,
    output: Path,
    searched: Searched,
    *,
    facts: Facts,
    lengths: Mapping[str, int],
    encode: Mapping[str, Any],
    threads: int,
    significance: Mapping[str, Any],
) -> dict[str, Any]:
    """Write the folder of an export; gives counts. The other arguments are those of `compare`.

    Raises:
        ValueError: a library does not rank with the export as this workflow does; then nothing is written.
    """
    with atomic_folder(output) as partial:
        model, index = partial / MODEL_FOLDER, partial / INDEX_FOLDER
        write_model(retriever, model, query_length=lengths["query"], passage_length=lengths["passage"])
        for encoder in sorted({query_encoder_folder(model), passage_encoder_folder(model)}):
            write_onnx(encoder)
        counts = write_index(
            index, model, searched.embeddings, searched.doc_ids, query_length=lengths["query"]
        )
        agreement = compare(
            retriever,
            model,
            index,
            searched,
            lengths=lengths,
            encode=encode,
            threads=threads,
            significance=significance,
        )
        write_json(partial / AGREEMENT_FILE, agreement)
        card = model_card(
            facts, model, agreement, lengths=lengths, separator=encode["separator"], significance=significance
        )
        (model / CARD_FILE).write_text(card, encoding="utf-8")
    return {**counts, "queries": agreement["queries"], "passages_encoded": agreement["passages_encoded"]}
