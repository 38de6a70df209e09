"""A build of a few seconds goes the whole way and replaces a folder only when the new one stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from spade_rl.nano.build import ASSETS, build, write_folder
from spade_rl.nano.model import NanoModel
from spade_rl.nano.sampling import Sampler
from spade_rl.nano.tokenizer import load_tokenizer


@pytest.mark.timeout(300)
def test_build_writes_a_folder_that_loads_and_replaces_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "model"
    out.mkdir()
    (out / "stale.txt").write_text("old")
    stages: list[tuple[str, float]] = []
    result = build(out, 0.05, seed=3, report=lambda stage, share, _line: stages.append((stage, share)))

    assert result.steps >= 1
    assert not (out / "stale.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert list(dict.fromkeys(stage for stage, _ in stages)) == ["demonstrations", "training", "evaluation"]
    facts = json.loads((out / "evaluation.json").read_text())
    assert facts["held_out_plain"]["overall"]["plays"] == result.plain.overall.plays >= 1000
    model = AutoModelForCausalLM.from_pretrained(out)
    assert model.num_parameters() == result.parameters
    assert len(AutoTokenizer.from_pretrained(out)) == model.config.vocab_size


def test_a_failed_write_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "model"
    out.mkdir()
    (out / "kept.txt").write_text("old")

    def full_disk(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    sampler = Sampler(NanoModel(), load_tokenizer(ASSETS))
    with pytest.raises(OSError, match="No space"):
        write_folder(out, sampler, {})
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (out / "kept.txt").read_text() == "old"


@pytest.mark.parametrize("minutes", [0, -1.0])
def test_time_must_be_positive(tmp_path: Path, minutes: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        build(tmp_path / "model", minutes)
