"""What today's configuration says of each result, for verify: a spec and a place, or why it has no job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from condenser.files import read_json
from condenser.manifest import Manifest
from condenser.pipeline.current import write_current


class Specs:
    """Stands for the specs of a workflow."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self._failure = failure

    def spec(self, stage: str, wildcards: dict[str, str]) -> dict[str, Any]:
        if self._failure:
            raise self._failure
        return {"stage": stage, "wildcards": wildcards}


def current(tmp_path: Path, specs: Specs) -> dict[str, Any]:
    results = tmp_path / "results"
    results.mkdir()
    spec = {"stage": "table", "wildcards": {"dataset": "d"}}
    Manifest(results / "a.tsv.manifest.json", spec, inputs=[]).write(outputs=[], counts={})
    (results / "b.tsv.manifest.json").write_text("damaged")
    written = write_current(
        results,
        tmp_path / "work",
        specs=specs,  # type: ignore[arg-type]
        manifest_of=lambda stage, wildcards: f"results/{wildcards['dataset']}/{stage}.manifest.json",
    )
    assert written == str(tmp_path / "work" / "current.json")
    found = read_json(Path(written))
    assert list(found) == [str(results / "a.tsv.manifest.json")]  # verify itself names the damaged one
    return next(iter(found.values()))


def test_spec_and_place_of_a_job_that_the_configuration_has(tmp_path: Path) -> None:
    assert current(tmp_path, Specs()) == {
        "spec": {"stage": "table", "wildcards": {"dataset": "d"}},
        "place": "results/d/table.manifest.json",
    }


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (LookupError("expected a dataset"), "expected a dataset"),
        (ValueError("package gone"), "package gone"),
        (OSError(2, "no corpus"), "[Errno 2] no corpus"),
        (SystemExit("error: results/d: texts alone"), "error: results/d: texts alone"),  # said by a rule
    ],
)
def test_a_job_that_the_configuration_no_longer_has_stands_there_with_the_reason(
    tmp_path: Path, failure: BaseException, said: str
) -> None:
    assert current(tmp_path, Specs(failure)) == {"error": said}
