from __future__ import annotations

from pathlib import Path

import pytest
import torch
from learner_cases import write_model

from spade_rl.errors import ConfigurationError, LearnerError
from spade_rl.learner.files import TEMPORARY, local_path, whole_folder
from spade_rl.learner.policy import load_policy
from spade_rl.learner.publish import COMPLETE, Publisher
from spade_rl.learner.weights import exported
from spade_rl.models import ChatTokenizer


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", tied=request.param)


def test_a_published_version_gives_the_same_logits_untied(source: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM

    policy = load_policy(str(source), "float32")
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    publisher = Publisher(tmp_path / "weights", location=str(source), dtype="float32", keep=2)
    folder = Path(publisher.publish(3, exported(policy.model, torch.Tensor.detach, torch.float32)))
    assert folder.name == "000003"
    assert (folder / COMPLETE).exists()
    assert AutoConfig.from_pretrained(folder).tie_word_embeddings is False
    assert "lm_head.weight" in load_file(folder / "model.safetensors")
    ids = torch.arange(20)[None]
    with torch.no_grad():
        got = AutoModelForCausalLM.from_pretrained(folder)(input_ids=ids).logits
        assert torch.equal(got, policy.model(input_ids=ids).logits)
    messages = [{"role": "user", "content": "w1 w2 </s>"}]
    assert ChatTokenizer(str(folder)).encode_chat(messages) == ChatTokenizer(str(source)).encode_chat(messages)


def test_the_newest_versions_are_kept_and_those_of_a_rewound_run_go(source: Path, tmp_path: Path) -> None:
    tensors = exported(load_policy(str(source), "float32").model, torch.Tensor.detach, torch.float32)
    publisher = Publisher(tmp_path, location=str(source), dtype="float32", keep=2)
    for version in range(4):
        publisher.publish(version, tensors)
        publisher.prune(version)
    assert publisher.versions() == [2, 3]
    publisher.publish(2, tensors)
    publisher.prune(2)
    assert publisher.versions() == [2]


def test_a_killed_publication_is_no_version_and_is_swept(source: Path, tmp_path: Path) -> None:
    half = tmp_path / f"{TEMPORARY}000001-x"
    half.mkdir()
    publisher = Publisher(tmp_path, location=str(source), dtype="float32", keep=2)
    assert publisher.versions() == []
    assert not half.exists()


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    with whole_folder(target) as folder:
        (folder / "file").write_text("old")
    with pytest.raises(LearnerError, match="No space left"), whole_folder(target) as folder:
        (folder / "file").write_text("new")
        raise OSError(28, "No space left on device")
    assert (target / "file").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_uris() -> None:
    assert local_path("/a/b") == Path("/a/b")
    assert local_path("file:///a/b%20c") == Path("/a/b c")
    with pytest.raises(ConfigurationError, match="not a local path"):
        local_path("s3://bucket/x")
