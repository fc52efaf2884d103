"""The export of one retriever: written, checked, described; complete or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.data.lengths import TextLengths
from condenser.export.agreement import check_agreement
from condenser.export.card import model_card
from condenser.export.folders import passage_encoder_folder, write_index, write_model
from condenser.export.onnx_files import write_onnx
from condenser.files import atomic_folder, write_json
from condenser.model.retriever import query_encoder_folder


def export_retriever(
    retriever: Path,
    output: Path,
    *,
    embeddings: Sequence[Path],
    collection: Path,
    doc_ids: Path,
    queries: Path | None,
    spec: Mapping[str, Any],
    counts: Mapping[str, Any],
    metrics: Mapping[str, Any] | None,
    texts: TextLengths,
    lengths: Mapping[str, int],
    encode: Mapping[str, Any],
    threads: int,
) -> dict[str, Any]:
    """Write the folder of an export; gives counts. Arguments are those of `check_agreement` and `model_card`.

    Raises:
        ValueError: sentence-transformers does not rank with the export as this workflow does; then nothing is
            written.
    """
    with atomic_folder(output) as partial:
        model = partial / "model"
        write_model(retriever, model, query_length=lengths["query"], passage_length=lengths["passage"])
        for encoder in sorted({query_encoder_folder(model), passage_encoder_folder(model)}):
            write_onnx(encoder)
        index_counts = write_index(
            partial / "pyserini", model, embeddings, doc_ids, query_length=lengths["query"]
        )
        agreement = check_agreement(
            retriever,
            model,
            embeddings,
            collection,
            queries,
            lengths=lengths,
            encode=encode,
            threads=threads,
        )
        write_json(partial / "agreement.json", agreement)
        card = model_card(
            *(spec, retriever, model, agreement),
            counts=counts,
            metrics=metrics,
            texts=texts,
            lengths=lengths,
        )
        (model / "README.md").write_text(card, encoding="utf-8")
    return {
        **index_counts,
        "queries_checked": agreement["queries"],
        "passages_checked": agreement["passages"],
    }
