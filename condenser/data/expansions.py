"""Expansions of passages and queries, read from a file: predicted queries, generated contexts, term weights.

Three uses of one idea, BM25 over other words than those of the text:

- doc2query and docT5query (Nogueira et al. 2019; Nogueira and Lin 2019): queries that a model predicts for a
  passage stand behind it in the index.
- GAR (Mao et al. 2021, §3): answers, sentences or titles that a model generates stand behind a query.
- DeepCT (Dai and Callan 2020, eq. 4): TF(t, d) = round(N y), with y the weight of term t in passage d. The
  passage is indexed as its terms, each as often as TF says.

A file, plain or gzip, has a line for each text:

- `*.jsonl`: an object with `id` and the key `field`. Its value is a text, a list of texts, or an object with
  the weight of each term. Form of docT5query's and GAR's expansions on the Hugging Face hub
  (castorini/msmarco_v1_passage_doc2query-t5_expansions, castorini/nq_gar-t5_expansions), and of DeepCT's
  weighted passages, in which each term is repeated already.
- else a line is the expansion itself, as in docT5query's `predicted_queries_topk.txt-1004000` and in GAR's
  `test.target`; by id an id and a tab stand before it. With `weights` it is tab-separated cells of a term, a
  space and its weight, as in DeepCT's `test_results.tsv`: a word piece (`##`) belongs to the word before it,
  whose weight is that of its first piece; special tokens and negative weights count as none; of a word that
  occurs twice the larger weight counts.

By `row`, line i belongs to text i of the collection or of the queries, and `id` is not read; by `id`, a line
belongs to the text of its id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Any

from condenser.data.archives import open_unpacked
from condenser.data.parsing import BYTE_ORDER_MARK, BadRow, decode, json_object, preview, text_field

_SPECIAL = frozenset(("[CLS]", "[SEP]", "[PAD]"))  # of BERT, in DeepCT's predictions
_PIECE = "##"


Texts = Iterable[tuple[str, str]]
"""Texts with their ids."""


def expanded(
    texts: Texts,
    file: Path,
    *,
    by: str,
    field: str,
    weights: float | None,
    counts: Counter[str],
) -> Iterator[tuple[str, str]]:
    """Each text with its expansion behind it, or with `weights` its expansion in its place.

    A text that has none stays as it is. A file in another order than the texts is read once; the places of
    lines that are read ahead stay in memory, of gzip their expansions. `weights` is N of DeepCT's equation 4.
    `counts` counts `expanded`, `not_expanded` (also of an empty expansion) and, at the end,
    `unused_expansions`: lines of ids that no text has.

    Raises:
        ValueError: a line does not fit, an id has two lines, (by row) there are more or fewer
            lines than texts, or (by id) no line is of these texts.
    """
    parse = _parser(file, by=by, field=field, weights=weights)
    found = _by_row(texts, file, parse) if by == "row" else _by_id(texts, file, parse, counts)
    for text_id, text, expansion in found:
        counts["expanded" if expansion else "not_expanded"] += 1
        if weights is not None and expansion is not None:
            yield text_id, expansion
        else:
            yield text_id, f"{text}\n{expansion}" if expansion else text
    if counts["unused_expansions"] and not counts["expanded"]:
        raise ValueError(
            f"{file}: expected the ids of these texts, got {counts['unused_expansions']:,} lines of others. "
            "Is it the file of this collection? (With `split` the ids are document#number.)"
        )


Parse = Callable[[bytes], tuple[str, str]]
"""A line gives an id, empty by row, and an expansion."""


def _parser(file: Path, *, by: str, field: str, weights: float | None) -> Parse:
    def of_json(line: bytes) -> tuple[str, str]:
        record = json_object(line)
        text_id = text_field(record, "id", absent=None) if by == "id" else ""
        return text_id, _joined(record, field, weights)

    def of_text(line: bytes) -> tuple[str, str]:
        text, text_id = decode(line), ""
        if by == "id":
            text_id, tab, text = text.partition("\t")
            if not tab:
                raise BadRow("an id, a tab and an expansion", preview(text_id), "Is it tab-separated?")
        return text_id, text if weights is None else _repeated(_words(text), weights)

    return of_json if file.name.removesuffix(".gz").endswith(".jsonl") else of_text


Found = Iterator[tuple[str, str, str | None]]
"""Texts with their ids and expansions."""


def _by_row(texts: Texts, file: Path, parse: Parse) -> Found:
    with open_unpacked(file) as stream:
        number = 0
        for number, (text_id, text) in enumerate(texts, start=1):
            if not (line := stream.readline()):
                raise ValueError(
                    f"{file}: expected a line for each text, got {number - 1:,}, none for "
                    f"{preview(text_id)}. Is it the file of this collection?"
                )
            yield text_id, text, _at(file, number, line, parse)[1]
        if stream.readline():
            raise ValueError(
                f"{file}:{number + 1}: expected {number:,} lines, one for each text, got more. Is it "
                "the file of this collection?"
            )


def _by_id(texts: Texts, file: Path, parse: Parse, counts: Counter[str]) -> Found:
    ahead: dict[str, int | str] = {}  # of lines that wait for their text: the place, of gzip the expansion
    ids = set[str]()
    with open_unpacked(file) as stream:

        def read() -> Iterator[tuple[str, str, int]]:
            """Id, expansion and place of each line."""
            end = 0
            for number in count(1):
                if stream.seekable():
                    stream.seek(end)
                line = stream.readline()
                place, end = end, end + len(line)
                if not line:
                    return
                if line.strip():
                    of, words = _at(file, number, line, parse)
                    if of in ids:
                        raise ValueError(
                            f"{file}:{number}: expected one line for each id, got {preview(of)} again. Join "
                            "the lines of an id."
                        )
                    ids.add(of)
                    yield of, words, place

        lines = read()
        for text_id, text in texts:
            expansion = None
            if text_id in ahead:
                waiting = ahead.pop(text_id)
                if isinstance(waiting, int):
                    stream.seek(waiting)
                    _, waiting = _at(file, 0, stream.readline(), parse)  # it has fitted before
                expansion = waiting
            else:
                for of, words, place in lines:
                    if of == text_id:
                        expansion = words
                        break
                    ahead[of] = place if stream.seekable() else words
            yield text_id, text, expansion
        counts["unused_expansions"] += len(ahead) + sum(1 for line in lines)


def _at(file: Path, number: int, line: bytes, parse: Parse) -> tuple[str, str]:
    try:
        return parse(line.removeprefix(BYTE_ORDER_MARK).removesuffix(b"\n").removesuffix(b"\r"))
    except BadRow as unfit:
        raise unfit.at(str(file), number) from None


def _joined(record: Mapping[str, Any], field: str, weights: float | None) -> str:
    """The texts of a JSON object's key, or its terms as often as their weights say."""
    value = record.get(field)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return " ".join(value)
    if isinstance(value, dict) and weights is not None and all(map(_is_weight, value.values())):
        return _repeated(value, weights)
    wanted = "a text, a list of texts" + ("" if weights is None else ", or an object of numbers")
    got = preview(value) if field in record else f"only {preview(sorted(record))}"
    raise BadRow(f'{wanted} in "{field}"', got, "Correct the row, or name another field.")


def _is_weight(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)


def _words(line: str) -> dict[str, float]:
    """The words of a line of DeepCT's predictions, with their weights."""
    words: list[tuple[str, float]] = []
    for cell in filter(None, map(str.strip, line.split("\t"))):
        token, _, number = cell.rpartition(" ")
        try:
            weight = float(number)
        except ValueError:
            weight = float("nan")
        if not token or not isfinite(weight):
            raise BadRow("cells of a term, a space and its weight", preview(cell), "Is it tab-separated?")
        if token.startswith(_PIECE) and words:
            word, weight = words.pop()
            token = word + token.removeprefix(_PIECE)
        words.append((token, weight))
    largest: dict[str, float] = {}
    for word, weight in words:
        if word not in _SPECIAL:
            largest[word] = max(weight, largest.get(word, 0.0))
    return largest


def _repeated(words: Mapping[str, float], scale: float) -> str:
    """Each term as often as DeepCT's equation 4 says.

    >>> _repeated({"essay": 0.031, "bomb": 0.004, "of": -0.2}, 100)
    'essay essay essay'
    """
    return " ".join(term for word, weight in words.items() for term in [word] * round(scale * weight))
