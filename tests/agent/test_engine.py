"""The transformers engine: what it samples is what plain transformers would."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from functools import lru_cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from spade_rl.agent.engine.interface import FinishReason, Generation, Prompt, generate_one
from spade_rl.errors import ConfigurationError, DeadlineError, EngineError


def prompts_of_many_lengths(count: int, *, seed: int = 0, longest: int = 60, tokens: int = 24) -> list[Prompt]:
    draw = random.Random(seed)
    return [
        Prompt(
            token_ids=tuple(draw.randrange(3, 300) for _ in range(draw.randint(1, longest))),
            temperature=draw.choice([0.0, 0.6, 1.0, 1.3]),
            max_tokens=draw.randint(1, tokens),
            seed=draw.randrange(2**63),
        )
        for _ in range(count)
    ]


async def all_of(engine, prompts: list[Prompt], seconds: float = 60) -> list[Generation]:
    done = [generation async for generation in engine.generate(prompts, seconds=seconds)]
    assert sorted(generation.index for generation in done) == list(range(len(prompts)))
    return sorted(done, key=lambda generation: generation.index)


@lru_cache(4)
def reference(folder: Path):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def reference_log_probs(folder: Path, prompt: Prompt, generation: Generation) -> torch.Tensor:
    """Log-probabilities [sampled, vocabulary] by one plain forward pass over the whole sequence."""
    ids = torch.tensor([[*prompt.token_ids, *generation.token_ids]])
    with torch.inference_mode():
        logits = reference(folder)(ids).logits[0, len(prompt.token_ids) - 1 : -1].float()
    return torch.log_softmax(logits / (prompt.temperature or 1.0), dim=-1)


def assert_sampled_from(folder: Path, prompts: list[Prompt], generations: list[Generation]) -> None:
    for prompt, generation in zip(prompts, generations, strict=True):
        expected = reference_log_probs(folder, prompt, generation)
        chosen = expected.gather(-1, torch.tensor(generation.token_ids)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(generation.log_probs), chosen, atol=1e-4, rtol=0)
        if prompt.temperature == 0:
            assert list(generation.token_ids) == expected.argmax(-1).tolist()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("slots", [1, 3, 16])
async def test_log_probabilities_equal_a_plain_forward_pass(make_policy, open_engine, tied, slots):
    folder = make_policy(tied=tied)
    engine = await open_engine(folder, slots=slots)
    prompts = prompts_of_many_lengths(16, seed=slots)
    assert_sampled_from(folder, prompts, await all_of(engine, prompts))


@pytest.mark.parametrize("tied_after", [False, True])
@pytest.mark.parametrize("tied_before", [False, True])
async def test_log_probabilities_are_right_after_new_weights(make_policy, open_engine, tied_before, tied_after):
    engine = await open_engine(make_policy(0, tied=tied_before))
    prompts = prompts_of_many_lengths(12)
    await all_of(engine, prompts)
    folder = make_policy(1, tied=tied_after)
    await engine.load(7, str(folder), seconds=60)
    generations = await all_of(engine, prompts)
    assert {generation.policy_version for generation in generations} == {7}
    assert_sampled_from(folder, prompts, generations)


async def test_draws_do_not_depend_on_what_else_is_in_flight(policy, open_engine):
    prompts = prompts_of_many_lengths(16, seed=3)
    alone = await open_engine(policy, slots=1)
    together = await open_engine(policy, slots=16)
    expected = [generation.token_ids for generation in await all_of(alone, prompts)]
    calls = [generate_one(together, prompt, seconds=60) for prompt in prompts]
    assert [generation.token_ids for generation in await asyncio.gather(*calls)] == expected


async def test_draws_follow_the_tempered_distribution(policy, open_engine):
    engine = await open_engine(policy, slots=64)
    prompts = [Prompt((5, 6, 7), 1.0, 1, seed) for seed in range(4000)]
    generations = await all_of(engine, prompts)
    probabilities = reference_log_probs(policy, prompts[0], generations[0])[0].exp()
    counts = torch.bincount(torch.tensor([g.token_ids[0] for g in generations]), minlength=len(probabilities))
    # The total variation distance of 4,000 draws from their distribution stays below sqrt(V / n) / 2.
    assert float((counts / 4000 - probabilities).abs().sum() / 2) < (len(probabilities) / 4000) ** 0.5 / 2


async def test_a_reply_ends_with_its_end_token_or_at_a_limit(policy, open_engine, tokenizer):
    engine = await open_engine(policy, slots=16, context_tokens=64)
    (end,) = tokenizer.end_tokens()
    prompts = [Prompt(tuple(range(3, 3 + n)), 1.5, 40, n * 1000 + s) for n in (1, 30, 60, 63) for s in range(30)]
    generations = await all_of(engine, prompts)
    assert {generation.finish_reason for generation in generations} == set(FinishReason)
    for prompt, generation in zip(prompts, generations, strict=True):
        limit = min(prompt.max_tokens, 64 - len(prompt.token_ids))
        assert len(generation.log_probs) == len(generation.token_ids) <= limit
        assert end not in generation.token_ids[:-1]
        if generation.finish_reason is FinishReason.STOP:
            assert generation.token_ids[-1] == end
        else:
            assert len(generation.token_ids) == limit


async def test_bfloat16_has_a_float32_head(policy, open_engine):
    engine = await open_engine(policy, dtype="bfloat16")
    prompts = prompts_of_many_lengths(4)
    generations = await all_of(engine, prompts)
    for prompt, generation in zip(prompts, generations, strict=True):
        expected = reference_log_probs(policy, prompt, generation)
        chosen = expected.gather(-1, torch.tensor(generation.token_ids)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(generation.log_probs), chosen, atol=0.5, rtol=0)
    assert engine._loop.runner._model.get_output_embeddings().weight.dtype is torch.float32


async def test_sequences_in_flight_end_on_the_version_they_began_with(make_policy, open_engine, eventually):
    old, new = make_policy(0), make_policy(1)
    engine = await open_engine(old, slots=2, context_tokens=200)
    prompts = [Prompt((5, 6), 0.7, 60, seed) for seed in range(8)]
    running = asyncio.create_task(all_of(engine, prompts))
    await eventually(lambda: started(engine))
    await engine.load(1, str(new), seconds=60)
    assert (await engine.status()).policy_version == 1
    generations = await running
    assert {generation.policy_version for generation in generations} == {0, 1}
    for generation, prompt in zip(generations, prompts, strict=True):
        assert_sampled_from(new if generation.policy_version else old, [prompt], [generation])


async def test_unpublished_or_broken_weights_are_refused_and_the_old_stay(make_policy, open_engine, policy, tmp_path):
    engine = await open_engine(policy)
    with pytest.raises(EngineError, match="COMPLETE"):
        await engine.load(1, str(make_policy(1, complete=False)), seconds=60)
    (tmp_path / "COMPLETE").touch()
    with pytest.raises(EngineError):
        await engine.load(1, str(tmp_path), seconds=60)
    broken = make_policy(1)
    (broken / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(EngineError):
        await engine.load(1, str(broken), seconds=60)
    lacking = make_policy(1)
    tensors = load_file(lacking / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, lacking / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EngineError, match=r"model\.norm\.weight"):
        await engine.load(1, str(lacking), seconds=60)
    assert (await engine.status()).policy_version == 0
    prompts = prompts_of_many_lengths(2)
    assert_sampled_from(policy, prompts, await all_of(engine, prompts))


async def started(engine) -> bool:
    return (await engine.status()).generated_tokens > 0


async def idle(engine) -> bool:
    return (await engine.status()).in_flight == 0


async def test_leaving_early_frees_the_slots(policy, open_engine, eventually):
    engine = await open_engine(policy, slots=2, context_tokens=500)
    async with aclosing(engine.generate([Prompt((5,), 0.0, 490, s) for s in range(50)], seconds=60)) as generations:
        reading = asyncio.ensure_future(anext(generations))
        await eventually(lambda: started(engine))
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    await eventually(lambda: idle(engine))
    assert (await engine.status()).generated_tokens < 50 * 490
    assert len(await all_of(engine, prompts_of_many_lengths(4))) == 4


async def test_a_deadline_ends_a_generation_and_frees_its_slot(policy, open_engine, eventually):
    engine = await open_engine(policy, context_tokens=500)
    with pytest.raises(DeadlineError):
        await all_of(engine, [Prompt((5,), 0.0, 490, 0)] * 200, seconds=0.05)
    await eventually(lambda: idle(engine))


async def test_a_failing_step_fails_everyone_who_waits_and_the_engine_goes_on(policy, open_engine, monkeypatch):
    engine = await open_engine(policy, slots=2)
    runner = engine._loop.runner
    model, runner._model = runner._model, None
    with pytest.raises(EngineError, match="the engine failed"):
        await all_of(engine, prompts_of_many_lengths(9))
    runner._model = model
    prompts = prompts_of_many_lengths(3)
    assert_sampled_from(policy, prompts, await all_of(engine, prompts))


async def test_logits_that_are_not_finite_are_an_error_not_a_token(policy, make_policy, open_engine):
    engine = await open_engine(policy)
    await engine.load(1, str(make_policy(broken=True)), seconds=60)
    with pytest.raises(EngineError, match="not finite"):
        await all_of(engine, prompts_of_many_lengths(2))


async def test_closing_fails_who_waits_and_who_comes_later(policy, open_engine, eventually):
    engine = await open_engine(policy, context_tokens=500)
    waiting = asyncio.create_task(all_of(engine, [Prompt((5,), 0.0, 490, s) for s in range(100)]))
    await eventually(lambda: started(engine))
    await asyncio.get_running_loop().run_in_executor(None, engine._loop.close, 30)
    with pytest.raises(EngineError, match="stopped"):
        await waiting
    with pytest.raises(EngineError, match="stopped"):
        await all_of(engine, [Prompt((5,), 0.0, 5, 0)])


@pytest.mark.parametrize("token_ids", [(), tuple(range(3, 131)), (5, 100_000), (5, -1)])
async def test_a_prompt_that_cannot_be_continued_is_refused(policy, open_engine, token_ids):
    engine = await open_engine(policy)
    with pytest.raises(ConfigurationError):
        await all_of(engine, [Prompt(token_ids, 1.0, 5, 0)])


async def test_a_context_beyond_the_model_is_refused(policy, open_engine):
    with pytest.raises(ConfigurationError, match="context_tokens"):
        await open_engine(policy, context_tokens=513)
