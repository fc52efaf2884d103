"""Official files by name: address, length and digest, as published by their owners or by others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FIRST_SEEN = "known"
"""The folder beside downloads with the SHA-256 of those whose owners publish none; to be kept."""

_MARCO = "https://msmarco.z22.web.core.windows.net/msmarcoranking"
_SBERT = "https://sbert.net/datasets"
_TREC = "https://trec.nist.gov/data/deep"
_DPR = "https://dl.fbaipublicfiles.com/dpr"
_PAQ = "https://dl.fbaipublicfiles.com/dpr_scale/paq"
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset"


@dataclass(frozen=True, slots=True)
class OfficialFile:
    """One file to download.

    `num_bytes` and `digest` (an MD5, or a SHA-256, which is longer) are None where nobody publishes them.
    """

    url: str
    num_bytes: int | None
    digest: str | None


OFFICIAL_FILES = {
    file.url.rpartition("/")[2]: file
    for file in (
        OfficialFile(
            f"{_MARCO}/collectionandqueries.tar.gz", 1_057_717_952, "31644046b18952c1386cd4564ba2ae69"
        ),
        OfficialFile(
            f"{_MARCO}/qidpidtriples.train.full.2.tsv.gz", 1_841_693_309, "219083e80a0a751c08b968c2f31a4e0b"
        ),
        OfficialFile(f"{_MARCO}/msmarco-docs.tsv.gz", 8_446_274_302, "103b19e21ad324d8a5f1ab562425c0b4"),
        OfficialFile(f"{_MARCO}/msmarco-test2019-queries.tsv.gz", 4_276, "eda71eccbe4d251af83150abe065368c"),
        OfficialFile(
            f"{_MARCO}/msmarco-doctrain-queries.tsv.gz", 6_457_962, "4086d31a9cf2d7b69c4932609058111d"
        ),
        OfficialFile(
            f"{_MARCO}/msmarco-doctrain-qrels.tsv.gz", 2_385_717, "9d1609e240113b0504fd2e61cb36d924"
        ),
        OfficialFile(f"{_MARCO}/msmarco-docdev-queries.tsv.gz", 91_837, "ac20593d71b9c32ab2633230f9cdf10d"),
        OfficialFile(f"{_MARCO}/msmarco-docdev-qrels.tsv.gz", 38_553, "5eeafaeb4960979a62e7fed93273254e"),
        OfficialFile(f"{_TREC}/2019qrels-pass.txt", 187_092, "2f4be390198da108f6845c822e5ada14"),
        OfficialFile(f"{_TREC}/2019qrels-docs.txt", 339_438, "d7ef53b995ef7e01676ea85d7ec01dda"),
        OfficialFile("https://rocketqa.bj.bcebos.com/corpus/marco.tar.gz", 1_140_510_742, None),
        OfficialFile(
            f"{_SQUAD}/train-v1.1.json",
            30_288_272,
            "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
        ),
        OfficialFile(
            f"{_SQUAD}/dev-v1.1.json",
            4_854_279,
            "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
        ),
        OfficialFile(f"{_PAQ}/PAQ.dpr.train.neg1.jsonl.zip", None, None),
        OfficialFile(f"{_SBERT}/stsbenchmark.tsv.gz", None, None),
        OfficialFile(f"{_SBERT}/wikipedia-sections-triplets.zip", None, None),
        OfficialFile(f"{_SBERT}/AllNLI.tsv.gz", None, None),
        OfficialFile(
            f"{_DPR}/wikipedia_split/psgs_w100.tsv.gz", 4_694_541_059, "612fe66e0b6b41ee28f806140226c563"
        ),
        OfficialFile(
            f"{_DPR}/data/retriever/biencoder-nq-train.json.gz",
            2_314_892_908,
            "a1c927b5adae71388eb064329387709f",
        ),
        OfficialFile(
            f"{_DPR}/data/retriever/biencoder-nq-dev.json.gz", 256_239_282, "2640483dbe0df7ae29c6da419c551a80"
        ),
        OfficialFile(
            f"{_DPR}/data/retriever/biencoder-trivia-train.json.gz",
            1_848_559_940,
            "5aa4d3577c91425cd20e239ed89a252b",
        ),
        OfficialFile(
            f"{_DPR}/data/retriever/biencoder-trivia-dev.json.gz",
            207_271_749,
            "d559dffe09acfe5a6370adea55b8abf2",
        ),
        *(
            OfficialFile(f"{_DPR}/data/retriever/{name}", None, None)
            for name in (
                "biencoder-nq-adv-hn-train.json.gz",
                *("biencoder-squad1-train.json.gz", "biencoder-squad1-dev.json.gz"),
                *("nq-dev.qa.csv", "nq-test.qa.csv"),
                *("trivia-dev.qa.csv.gz", "trivia-test.qa.csv.gz", "squad1-test.qa.csv"),
            )
        ),
    )
}


def official_file(name: str) -> OfficialFile:
    """The file of this name.

    Raises:
        ValueError: there is no such file.
    """
    if name not in OFFICIAL_FILES:
        raise ValueError(f"expected one of the files {', '.join(sorted(OFFICIAL_FILES))}, got {name!r}.")
    return OFFICIAL_FILES[name]


def check_official_rows(
    files: Mapping[str, Mapping[str, int]], names: Iterable[str], official: Mapping[str, int]
) -> None:
    """See that each of the files `names` has its official number of rows; `files` has the counts by file.

    Raises:
        ValueError: one has more or fewer.
    """
    for name in names:
        if files[name]["rows"] != official[name]:
            raise ValueError(
                f"{name}: expected the official {official[name]:,} rows, got {files[name]['rows']:,}. "
                "Delete the download and fetch it again; if that does not help, the file has been changed."
            )
