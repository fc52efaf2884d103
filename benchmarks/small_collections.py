"""Turn two sets of sentences into collections to search, in BEIR's layout, to try a choice on unseen texts.

    python benchmarks/small_collections.py ../my/pairs ../my/triplets ../my

`sentences`, of the STS benchmark (`stsb-en-*.csv`): a passage is a second sentence, a query a first sentence
of the test and dev rows, and what scores 4 or more with it is relevant. `sections`, of WikiSection's form
(`triplets.tsv`): a passage is all sentences of a section, a query its heading behind its article's name.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

SAME = 4.0
"""The least score, of 0 to 5, of a pair that says the same ("some details differ" is 4 in STS)."""


def main() -> None:
    """Write both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pairs", type=Path, help="folder of stsb-en-{train,dev,test}.csv")
    parser.add_argument("triplets", type=Path, help="folder of triplets.tsv")
    parser.add_argument("output", type=Path, help="folder for sentences/ and sections/")
    args = parser.parse_args()
    sentences(args.pairs, args.output / "sentences")
    sections(args.triplets, args.output / "sections")


def sentences(pairs: Path, folder: Path) -> None:
    passages: dict[str, str] = {}
    relevant: dict[str, set[str]] = defaultdict(set)
    for split in ("train", "dev", "test"):
        with (pairs / f"stsb-en-{split}.csv").open(newline="", encoding="utf-8") as file:
            for first, second, score in csv.reader(file):
                name = passages.setdefault(second, f"s{len(passages)}")
                if split != "train" and float(score) >= SAME:
                    relevant[first].add(name)
    write(folder, {name: text for text, name in passages.items()}, relevant)


def sections(triplets: Path, folder: Path) -> None:
    texts: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)  # dicts, as sets that keep their order
    with (triplets / "triplets.tsv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            texts[row["article"], row["section"]] |= dict.fromkeys([row["anchor"], row["positive"]])
    names = {section: f"s{number}" for number, section in enumerate(texts)}
    write(
        folder,
        {names[section]: " ".join(of_section) for section, of_section in texts.items()},
        {" ".join(section): {name} for section, name in names.items()},
    )


def write(folder: Path, passages: Mapping[str, str], relevant: Mapping[str, Iterable[str]]) -> None:
    """BEIR's three files; a query is named by its number."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    rows = [{"_id": name, "text": text} for name, text in passages.items()]
    queries = [{"_id": f"q{number}", "text": text} for number, text in enumerate(relevant)]
    for file, records in (("corpus", rows), ("queries", queries)):
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (folder / f"{file}.jsonl").write_text(text, encoding="utf-8")
    judged = [
        f"q{number}\t{name}\t1\n" for number, names in enumerate(relevant.values()) for name in sorted(names)
    ]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged))


if __name__ == "__main__":
    main()
