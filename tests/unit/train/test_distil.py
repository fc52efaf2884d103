"""A bi-encoder that learns a teacher's scores, against SciPy, PyTorch and transformers."""

from __future__ import annotations

import shutil
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import zscore
from small_trainings import (
    PASSAGE_LENGTH,
    QUERY_LENGTH,
    RETRIEVER,
    SHAPE,
    Files,
    losses,
    plain_vectors,
    prepare,
    sharpen,
    text_of,
    train,
)
from torch import Tensor

from condenser.data.batches import step_items
from condenser.data.records import ScoredDoc, read_run, write_run
from condenser.model.text_vector import TextVector, write_text_vector

TEMPERATURE, DEPTH = 0.5, RETRIEVER["passages_per_query"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """With the run of a teacher that spreads its scores otherwise for each query."""
    files = prepare(tmp_path_factory.mktemp("distil"), dropout=0.0)
    sharpen(files.backbone)
    generator, hits = np.random.default_rng(4), list[ScoredDoc]()
    for query in files.queries:
        rows, scores = generator.permutation(60)[:5], -np.sort(-generator.gamma(0.5, size=5))
        pairs = zip(rows.tolist(), scores.tolist(), strict=True)
        hits += [ScoredDoc(query.query_id, files.passages[row].doc_id, score) for row, score in pairs]
    write_run(files.root / "teacher.trec", hits, system="teacher")
    return files


@pytest.mark.parametrize(
    ("scale", "is_normalised", "factor"),
    [(None, False, 1.0), (0.25, False, 0.25), (None, True, 20.0), (3.0, True, 3.0)],
)
def test_the_loss_is_the_divergence_from_the_teachers_scores_of_the_queries_of_the_step(
    files: Files, tmp_path: Path, scale: float | None, is_normalised: bool, factor: float
) -> None:
    """The student's products are multiplied by the recipe's scale, else by that of the model's vector."""
    initial = tmp_path / "initial"
    shutil.copytree(files.backbone, initial)
    write_text_vector(TextVector("cls", is_normalised), initial, dim=SHAPE["hidden_size"])
    settings = {"teacher_run": files.root / "teacher.trec", "temperature": TEMPERATURE, "initial_share": 0.0}
    train("distilled", files, tmp_path / "out", updates=1, scale=scale, initial=initial, **settings)
    plain = plain_vectors(files.backbone)

    def vector(text: str, length: int) -> Tensor:
        first = plain(text, length)
        return first / first.norm() if is_normalised else first

    texts = {passage.doc_id: text_of(passage) for passage in files.passages}
    ranked = [
        list(hits)[:DEPTH]
        for _, hits in groupby(read_run(files.root / "teacher.trec"), lambda hit: hit.query_id)
    ]
    _, _, items = step_items(
        len(ranked), batch_size=RETRIEVER["batch_size"], step=0, seed=42, stream="retriever"
    )
    queries = [vector(files.queries[item].text, QUERY_LENGTH) for item in items]
    student = torch.stack(
        [
            torch.stack([query @ vector(texts[hit.doc_id], PASSAGE_LENGTH) for hit in ranked[item]])
            for query, item in zip(queries, items, strict=True)
        ]
    )
    teacher = zscore([[hit.score for hit in ranked[item]] for item in items], axis=1) / TEMPERATURE
    expected = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)(
        torch.log_softmax(factor * student, dim=1),
        torch.log_softmax(torch.tensor(teacher, dtype=torch.float32), dim=1),
    )
    assert losses(tmp_path / "out")[0]["loss"] == pytest.approx(expected.item(), rel=1e-4)


def test_the_encoder_that_is_written_has_the_share_of_the_first_weights_that_was_asked_for(
    files: Files, tmp_path: Path
) -> None:
    for share in (0.0, 0.25):
        train("distilled", files, tmp_path / str(share), updates=3, initial_share=share)
    first, trained, mixed = (
        load_file(folder / "model.safetensors")
        for folder in (files.backbone, tmp_path / "0.0", tmp_path / "0.25")
    )
    name = "encoder.layer.0.output.dense.weight"
    assert not torch.allclose(trained[name], first[name])
    for name, weight in mixed.items():
        torch.testing.assert_close(weight, 0.75 * trained[name] + 0.25 * first[name])
