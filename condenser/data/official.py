"""The official files by name: where they are, how long, and their MD5.

Base addresses, lengths and sums as published by MS MARCO, TREC, RocketQA and DPR.
"""

from __future__ import annotations

from dataclasses import dataclass

_MARCO = "https://msmarco.z22.web.core.windows.net/msmarcoranking"
_TREC = "https://trec.nist.gov/data/deep"
_DPR = "https://dl.fbaipublicfiles.com/dpr"


@dataclass(frozen=True, slots=True)
class OfficialFile:
    """One file of the network; `md5` is None where nobody has published one."""

    url: str
    num_bytes: int
    md5: str | None


def _named(*files: OfficialFile) -> dict[str, OfficialFile]:
    named = {file.url.rsplit("/", 1)[-1]: file for file in files}
    assert len(named) == len(files)
    return named


OFFICIAL_FILES = _named(
    OfficialFile(f"{_MARCO}/collectionandqueries.tar.gz", 1_057_717_952, "31644046b18952c1386cd4564ba2ae69"),
    OfficialFile(f"{_MARCO}/queries.tar.gz", 18_882_551, "c177b2795d5f2dcc524cf00fcd973be1"),
    OfficialFile(f"{_MARCO}/qrels.train.tsv", 10_589_532, "733fb9fe12d93e497f7289409316eccf"),
    OfficialFile(
        f"{_MARCO}/qidpidtriples.train.full.2.tsv.gz", 1_841_693_309, "219083e80a0a751c08b968c2f31a4e0b"
    ),
    OfficialFile(f"{_MARCO}/msmarco-test2019-queries.tsv.gz", 4_276, "eda71eccbe4d251af83150abe065368c"),
    OfficialFile(f"{_TREC}/2019qrels-pass.txt", 187_092, "2f4be390198da108f6845c822e5ada14"),
    OfficialFile(f"{_TREC}/2019qrels-docs.txt", 339_438, "d7ef53b995ef7e01676ea85d7ec01dda"),
    OfficialFile(f"{_MARCO}/msmarco-docs.trec.gz", 8_501_799_926, "d4863e4f342982b51b9a8fc668b2d0c0"),
    OfficialFile(f"{_MARCO}/msmarco-doctrain-queries.tsv.gz", 6_457_962, "4086d31a9cf2d7b69c4932609058111d"),
    OfficialFile(f"{_MARCO}/msmarco-doctrain-qrels.tsv.gz", 2_385_717, "9d1609e240113b0504fd2e61cb36d924"),
    OfficialFile(f"{_MARCO}/msmarco-docdev-queries.tsv.gz", 91_837, "ac20593d71b9c32ab2633230f9cdf10d"),
    OfficialFile(f"{_MARCO}/msmarco-docdev-qrels.tsv.gz", 38_553, "5eeafaeb4960979a62e7fed93273254e"),
    OfficialFile("https://rocketqa.bj.bcebos.com/corpus/marco.tar.gz", 1_140_510_742, None),
    OfficialFile(
        f"{_DPR}/wikipedia_split/psgs_w100.tsv.gz", 4_694_541_059, "612fe66e0b6b41ee28f806140226c563"
    ),
    OfficialFile(
        f"{_DPR}/data/retriever/biencoder-nq-train.json.gz", 2_314_892_908, "a1c927b5adae71388eb064329387709f"
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
)


def official_file(name: str) -> OfficialFile:
    """The file of this name.

    Raises:
        ValueError: there is none.
    """
    if name not in OFFICIAL_FILES:
        raise ValueError(f"expected a file out of {', '.join(sorted(OFFICIAL_FILES))}, got {name!r}.")
    return OFFICIAL_FILES[name]
