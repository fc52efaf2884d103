"""What a card says of comparing the model with others on its collection: the collection as a task of mteb."""

from __future__ import annotations

from string import Template

_SECTION = Template("""\
## Compare it with other models

The collection is a task of mteb (2.26 or newer), with its judged queries. Copy the folder
`results/$dataset/data` beside `model/` as `data/`. Any model that sentence-transformers loads can replace
`"model"`. If the texts are not English, change `eval_langs`:

```python
import json

import mteb
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from sentence_transformers import SentenceTransformer

def read(name):
    with open("data/" + name, encoding="utf-8") as lines:
        return list(lines)

class Collection(AbsTaskRetrieval):
    metadata = TaskMetadata(
        name="$dataset", description="judged queries of $dataset", reference=None, type="Retrieval",
        category="t2t", modalities=["text"], dataset={"path": "data", "revision": "1"},
        eval_splits=["$split"], eval_langs=["eng-Latn"], main_score="ndcg_at_10", date=None, domains=None,
        task_subtypes=None, license=None, annotations_creators=None, dialect=None, sample_creation=None,
        bibtex_citation=None,
    )

    def load_data(self, **options):
        judged = {}
        for query_id, _, doc_id, grade in map(str.split, read("qrels.$split.tsv")):
            judged.setdefault(query_id, {})[doc_id] = int(grade)
        queries = map(json.loads, read("queries.$split.jsonl"))
        passages = map(json.loads, read("collection.jsonl"))
        self.dataset = {"default": {"$split": {
            "corpus": Dataset.from_list([self.passage(**passage) for passage in passages]),
            "queries": Dataset.from_list(
                [{"id": one["query_id"], "text": one["text"]} for one in queries if one["query_id"] in judged]
            ),
            "relevant_docs": judged,
            "top_ranked": None,
        }}}
        self.data_loaded = True

    @staticmethod
    def passage(doc_id, title, text, **others):  # as this model reads it; others may differ
        start = f"{title} [SEP] " if title.strip() else "$bare"
        return {"id": doc_id, "title": "", "text": start + text}

results = mteb.evaluate(SentenceTransformer("model"), Collection(), cache=None)
measures = results.task_results[0].scores["$split"][0]  # ndcg_at_10, mrr_at_10, recall_at_100, ...
```

""")


def mteb_section(dataset: str, split: str, *, always_separated: bool) -> str:
    """The section of the card of a model whose queries are judged.

    Args:
        always_separated: whether a passage without title begins with the separator.
    """
    return _SECTION.substitute(dataset=dataset, split=split, bare="[SEP] " if always_separated else "")
