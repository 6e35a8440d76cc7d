"""The pages of the systems run as they stand, in as many ranks as they say.

Those of pipelines and of planning run in the tests of these.
"""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    "data parallel": "nn/data_parallel/README.md",
    "fully sharded": "nn/fully_sharded/README.md",
    "meshes": "fx/distributed/mesh.md",
    "placements": "fx/distributed/placements.md",
    "tensor parallel": "fx/distributed/parallel/README.md",
    "checkpoints": "fx/distributed/checkpoint/README.md",
    "groups": "fx/distributed/README.md",
    "simulator": "fx/distributed/simulator/README.md",
    "rpc": "fx/distributed/rpc.md",
    "store": "fx/distributed/store.md",
    "ray": "fx/distributed/actors/README.md",
}
ELASTIC = "fx/distributed/launch/elastic.md"


def blocks(page, kind):
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / page).read_text(), re.S)


def launched(page, launcher, place):
    """What its script says, by the command on the page, or in one process."""
    (place / "page.py").write_text("\n".join(blocks(page, "python")))
    commands = blocks(page, "sh") or ["python -m fx.run --nproc-per-node 1 page.py"]
    (command,) = commands
    assert command.startswith("python -m fx.run ")
    return launcher.run(*shlex.split(command)[3:], cwd=place)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs(name, launcher, tmp_path):
    code, _, err = launched(PAGES[name], launcher, tmp_path)
    assert code == 0, err


def test_what_a_page_asserts_is_asserted(launcher, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```python\nassert 1 == 2\n```")
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    code, _, err = launched("page.md", launcher, tmp_path)
    assert code == 1 and "AssertionError" in err


def test_an_elastic_run_has_the_numbers_of_one_that_nobody_disturbed(launcher, tmp_path):
    page, found = ELASTIC, []
    for name in ("disturbed", "whole"):
        place = tmp_path / name
        place.mkdir()
        if name == "whole":
            text = (
                (ROOT / page).read_text().replace("attempt == 0 and rank", "attempt > 9 and rank")
            )
            text = text.replace("assert attempt == 1", "assert attempt == 0")
            (place / "page.md").write_text(text)
            page = place / "page.md"
        code, _, err = launched(page, launcher, place)
        assert code == 0, err
        assert ("SIGKILL" in err or "signal 9" in err) == (name == "disturbed"), err
        found.append((place / "done").read_text())
    assert found[0] == found[1]
