"""Laws of drawing: each document once an epoch, whatever the interruptions; a cursor continues exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spade_rl.config import GroundingSection
from spade_rl.designer import grounding as module
from spade_rl.designer.corpus import Document, FileCorpus
from spade_rl.designer.grounding import FileGrounding, Grounding, StreamGrounding, open_grounding
from spade_rl.errors import ConfigurationError

SIZE = 11


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for part, numbers in enumerate((range(4), range(4, 8), range(8, SIZE))):
        text = "".join(json.dumps({"id": f"d{n}", "text": f"document {n}"}) + "\n" for n in numbers)
        (folder / f"train-{part}.jsonl").write_text(text)
    return folder


@pytest.fixture(scope="module", params=["files", "stream"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    # Three blocks an epoch, the last one not full.
    monkeypatch.setattr(module, "BLOCK", 4)


def opened(kind: str, folder: Path) -> Grounding:
    if kind == "files":
        return FileGrounding(FileCorpus(folder, text_field=None, scratch=None))
    return StreamGrounding(str(folder), "train", text_field=None)


def drawn(grounding: Grounding, counts: list[int], run_seed: int = 5, cursor: str = "") -> tuple[list[Document], str]:
    documents: list[Document] = []
    for count in counts:
        more, cursor = grounding.draw(count, cursor=cursor, run_seed=run_seed)
        assert len(more) == count
        documents += more
    return documents, cursor


def check_epochs(kind: str, folder: Path, counts: list[int], seed: int, restarts: set[int]) -> None:
    """Draw in parts, from a corpus opened anew at ``restarts``, each part twice."""
    grounding, cursor, documents = opened(kind, folder), "", []
    for index, count in enumerate(counts):
        if index in restarts:
            grounding = opened(kind, folder)
        more, after = grounding.draw(count, cursor=cursor, run_seed=seed)
        assert grounding.draw(count, cursor=cursor, run_seed=seed)[0] == more
        cursor = after
        documents += more
    ids = [document.id for document in documents]
    for start in range(0, len(ids), SIZE):
        epoch = ids[start : start + SIZE]
        assert len(set(epoch)) == len(epoch)
        if len(epoch) == SIZE:
            assert set(epoch) == {f"d{n}" for n in range(SIZE)}
    assert drawn(opened(kind, folder), [len(ids)], run_seed=seed)[0] == documents


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    counts=st.lists(st.integers(0, 2 * SIZE), max_size=6),
    seed=st.integers(0, 2**63 - 1),
    restarts=st.sets(st.integers(0, 5)),
)
def test_every_document_once_an_epoch_whatever_the_interruptions(
    folder: Path, counts: list[int], seed: int, restarts: set[int]
) -> None:
    check_epochs("files", folder, counts, seed, restarts)


@pytest.mark.parametrize(
    ("counts", "restarts"),
    [([1, 1, 3, 7, 2], {2, 4}), ([4, 4, 3, 4, 8], {1, 3}), ([3, 0, 9, 25], {1, 2, 3}), ([30, 15, 4, 1], set())],
)
def test_every_document_of_a_stream_once_an_epoch(folder: Path, counts: list[int], restarts: set[int]) -> None:
    check_epochs("stream", folder, counts, len(counts), restarts)


def test_epochs_and_runs_have_their_own_order(kind: str, folder: Path) -> None:
    grounding = opened(kind, folder)
    first, cursor = drawn(grounding, [SIZE])
    second, _ = drawn(grounding, [SIZE], cursor=cursor)
    other, _ = drawn(grounding, [SIZE], run_seed=6)
    assert first != second
    assert first != other
    assert drawn(grounding, [SIZE])[0] == first


def test_a_changed_corpus_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"text": "one"}\n{"text": "two"}\n')
    _, cursor = drawn(opened("files", path), [1])
    path.write_text('{"text": "one"}\n{"text": "three"}\n')
    with pytest.raises(ConfigurationError, match="not the one that the run began with"):
        opened("files", path).draw(1, cursor=cursor, run_seed=5)


def test_a_damaged_cursor_is_refused(kind: str, folder: Path) -> None:
    for text in ("{", "[]", '{"unknown": 1}'):
        with pytest.raises(ConfigurationError, match="cursor is damaged"):
            opened(kind, folder).draw(1, cursor=text, run_seed=5)


def test_the_sample_corpus_is_shipped() -> None:
    grounding = open_grounding(GroundingSection())
    assert grounding is not None
    documents, cursor = grounding.draw(200, cursor="", run_seed=0)
    assert len({document.id for document in documents}) == 200
    assert min(len(document.text.split()) for document in documents) > 20
    assert len(cursor) < 1000
    grounding.close()


def test_grounding_that_is_off() -> None:
    assert open_grounding(GroundingSection(enabled=False, corpus="absent")) is None


def test_a_data_set_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot stream the data set .*absent.*give a file"):
        open_grounding(GroundingSection(corpus=f"hf:{tmp_path}/absent"))
