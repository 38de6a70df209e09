"""The fused model computes what transformers' Qwen3 computes, and starts with heads that copy."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from spade_rl.nano.build import ASSETS
from spade_rl.nano.initial import initialise
from spade_rl.nano.model import NanoModel, export, load
from spade_rl.nano.sampling import END_ID, Sampler
from spade_rl.nano.tokenizer import VOCABULARY, load_tokenizer


@pytest.fixture(scope="module")
def model() -> NanoModel:
    torch.manual_seed(0)
    made = NanoModel()
    initialise(made)
    with torch.no_grad():
        for value in made.parameters():
            value.add_(torch.randn_like(value) * 0.02)
    return made


@torch.no_grad()
def test_logits_equal_those_of_transformers(model: NanoModel) -> None:
    ids = torch.randint(5, VOCABULARY, (3, 40))
    theirs = export(model)(input_ids=ids).logits
    torch.testing.assert_close(model.logits(model.hidden(ids)), theirs, atol=2e-4, rtol=1e-4)


@torch.no_grad()
def test_cached_decoding_equals_the_whole_pass(model: NanoModel) -> None:
    ids = torch.randint(5, VOCABULARY, (3, 24))
    lengths = torch.tensor([20, 20, 11])
    whole = model.logits(model.hidden(ids))
    logits, caches = model.prefill(ids[:, :20], lengths, 32)
    torch.testing.assert_close(logits, whole[torch.arange(3), lengths - 1], atol=2e-4, rtol=1e-4)
    for _ in range(3):
        logits = model.decode(ids[torch.arange(3), lengths], lengths, caches)
        torch.testing.assert_close(logits, whole[torch.arange(3), lengths], atol=2e-4, rtol=1e-4)
        lengths = lengths + 1


def test_export_and_load_are_inverse(model: NanoModel, tmp_path: Path) -> None:
    export(model).save_pretrained(tmp_path)
    again = load(tmp_path)
    for (name, ours), (_, theirs) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(ours, theirs), name


@torch.no_grad()
def test_first_weights_copy_a_repeated_sequence() -> None:
    torch.manual_seed(1)
    fresh = NanoModel()
    initialise(fresh)
    sequence, between = torch.randint(5, VOCABULARY, (16, 15)), torch.randint(5, VOCABULARY, (16, 60))
    ids = torch.cat([sequence, between, sequence], 1)
    start = ids.shape[1] - sequence.shape[1]
    guesses = fresh.logits(fresh.hidden(ids)[:, start:-1]).argmax(-1)
    assert (guesses == ids[:, start + 1 :]).float().mean() > 0.75


@torch.no_grad()
def test_shipped_folder_loads_as_any_model_does_and_is_small() -> None:
    shipped = AutoModelForCausalLM.from_pretrained(ASSETS)
    assert shipped.config.model_type == "qwen3"
    assert shipped.dtype == torch.float32
    assert (ASSETS / "model.safetensors").stat().st_size <= 8_000_000
    ids = torch.randint(5, VOCABULARY, (2, 30))
    torch.testing.assert_close(
        load(ASSETS).logits(load(ASSETS).hidden(ids)), shipped(input_ids=ids).logits, atol=1e-3, rtol=1e-3
    )


def test_sampling_is_reproducible_and_its_log_probabilities_are_the_models() -> None:
    sampler = Sampler(load(ASSETS), load_tokenizer(ASSETS))
    prompts = [
        sampler.encode_prompt([{"role": "user", "content": text}]) for text in ("job 1 / 3 table", "up page 3 / 9")
    ]
    replies = [sampler.sample(prompts, 8, 1.0, torch.Generator().manual_seed(4)) for _ in range(2)]
    assert replies[0] == replies[1]
    for prompt, (ids, scores) in zip(prompts, replies[0], strict=True):
        assert END_ID not in ids[:-1]
        assert len(ids) == len(scores) <= 8
        with torch.no_grad():
            logits = sampler.model.logits(sampler.model.hidden(torch.tensor([prompt + ids])))[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(scores), expected, atol=1e-3, rtol=1e-3)
