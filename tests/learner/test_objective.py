"""The gradient that reaches the weights, on the tiny model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from learner_cases import VOCABULARY, make_samples, write_model

from spade_rl.config import RunConfig
from spade_rl.errors import ConfigurationError
from spade_rl.learner import policy as policy_module
from spade_rl.learner.advantages import credit
from spade_rl.learner.batch import collate, filler, to_device
from spade_rl.learner.losses import LOSSES
from spade_rl.learner.objective import RATIO, TOKENS, Objective
from spade_rl.learner.packing import pack
from spade_rl.learner.policy import Policy, load_policy
from spade_rl.learner.samples import ROLES, Role, Sample

CPU = torch.device("cpu")


def gradient(
    objective: Objective, samples: Sequence[Sample], *, micro_tokens: int = 10**6, order: Sequence[int] | None = None
) -> torch.Tensor:
    """The whole gradient of one optimizer step, without clipping."""
    shares = credit(samples, window=2, cap=50).advantages
    used = [index for index in (order or range(len(samples))) if shares[index] is not None]
    tokens = {role: sum(samples[i].trained_tokens for i in used if samples[i].role is role) for role in ROLES}
    objective.zero_grad()
    for places in pack([len(samples[i].token_ids) for i in used], micro_tokens=micro_tokens):
        batch = collate(
            [samples[used[p]] for p in places],
            [shares[used[p]] or 0.0 for p in places],
            weights={role: 1 / max(1, tokens[role]) for role in ROLES},
            temperatures={Role.AGENT: 0.8, Role.DESIGNER: 1.1},
        )
        objective(to_device(batch, CPU)).backward()
    return torch.cat([p.grad.flatten() for p in objective.parameters() if p.grad is not None])


@pytest.fixture(scope="module")
def policy(model_folder: Path) -> Policy:
    return load_policy(str(model_folder), "float32").double()


@pytest.fixture
def objective(policy: Policy, make_config: Callable[..., RunConfig]) -> Objective:
    return Objective(policy, make_config().learner)


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal up to the rounding of the head, which is float32 in a model that is float64."""
    return float((a - b).norm()) <= 1e-6 * float(b.norm())


def test_log_probabilities_are_the_models_own_at_the_temperature(model_folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    policy = load_policy(str(model_folder), "float32")
    samples = make_samples(0)[-4:]
    batch = to_device(
        collate(samples, [0.0] * 4, weights=dict.fromkeys(ROLES, 1.0), temperatures=dict.fromkeys(ROLES, 0.7)), CPU
    )
    with torch.no_grad():
        scores = policy.score(
            policy.hidden(batch.token_ids, batch.rows, batch.columns), batch.targets, batch.temperatures
        )
        reference = AutoModelForCausalLM.from_pretrained(model_folder)
        expected = []
        for sample in samples:
            logits = reference(input_ids=torch.from_numpy(sample.token_ids)[None]).logits[0].float() / 0.7
            log_p = torch.log_softmax(logits, -1)
            expected += [float(log_p[t - 1, sample.token_ids[t]]) for t in np.flatnonzero(sample.trained)]
    assert scores.log_probs.tolist() == pytest.approx(expected, abs=1e-5)
    assert ((scores.entropy > 0) & (scores.entropy < np.log(VOCABULARY))).all()


@pytest.mark.parametrize("entropy", [0.0, 0.1])
def test_logits_piece_by_piece_change_nothing(
    policy: Policy, make_config: Callable[..., RunConfig], monkeypatch: pytest.MonkeyPatch, entropy: float
) -> None:
    objective = Objective(policy, make_config(entropy=entropy).learner)
    whole = gradient(objective, make_samples(0))
    monkeypatch.setattr(policy_module, "LOGITS", VOCABULARY * 3)
    assert close(gradient(objective, make_samples(0)), whole)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_micro_batches_and_order_change_nothing(
    policy: Policy, make_config: Callable[..., RunConfig], name: str
) -> None:
    objective = Objective(policy, make_config(loss=name).learner)
    samples = make_samples(0)
    whole = gradient(objective, samples)
    assert float(whole.abs().max()) > 0
    order = np.random.default_rng(1).permutation(len(samples)).tolist()
    assert close(gradient(objective, samples, micro_tokens=64), whole)
    assert close(gradient(objective, samples, micro_tokens=1, order=order), whole)


def test_designer_samples_never_change_the_agents_gradient(objective: Objective) -> None:
    samples = make_samples(0)
    agent = [sample for sample in samples if sample.role is Role.AGENT]
    both = gradient(objective, samples)
    scale = credit(samples, window=2, cap=50).designer_scale
    rest = [sample for sample in samples if sample.role is Role.DESIGNER]
    # Alone, the designer's scale is that of a ratio of 1: the window.
    designer = gradient(objective, rest) * (scale / 2)
    assert close(both, gradient(objective, agent) + designer)


def test_masked_positions_count_nothing_whatever_they_hold(objective: Objective) -> None:
    samples = make_samples(0)
    assert all(np.isnan(sample.log_probs[~sample.trained]).all() for sample in samples)
    changed = [
        replace(sample, log_probs=np.where(sample.trained, sample.log_probs, np.float32(np.inf))) for sample in samples
    ]
    before = gradient(objective, samples)
    assert torch.isfinite(before).all()
    assert torch.equal(before, gradient(objective, changed))


def test_a_sequence_without_trained_tokens_adds_nothing(objective: Objective) -> None:
    samples = make_samples(0)
    silent = [*samples, replace(samples[0], trained=np.zeros_like(samples[0].trained))]
    assert close(gradient(objective, silent), gradient(objective, samples))


def test_a_filler_adds_no_gradient_and_no_token(objective: Objective) -> None:
    objective.zero_grad()
    objective(to_device(filler(), CPU)).backward()
    assert all(not p.grad.any() for p in objective.parameters() if p.grad is not None)
    assert not objective.tally.sums.any()
    assert not objective.tally.peaks.any()


def test_the_tally_counts_by_role(objective: Objective) -> None:
    samples = make_samples(0)
    used = [s for s, a in zip(samples, credit(samples, window=2, cap=50).advantages, strict=True) if a is not None]
    gradient(objective, samples)
    for role in ROLES:
        assert objective.tally.sums[role.row, TOKENS] == sum(s.trained_tokens for s in used if s.role is role)
        mean = objective.tally.sums[role.row, RATIO] / objective.tally.sums[role.row, TOKENS]
        assert objective.tally.peaks[role.row] >= mean > 0


def test_the_divergence_is_zero_at_the_start_and_pulls_back_afterwards(
    policy: Policy, make_config: Callable[..., RunConfig], tmp_path: Path
) -> None:
    settings = make_config(kl=0.5).learner
    same = Objective(policy, settings, reference=policy)
    plain = Objective(policy, make_config().learner)
    assert close(gradient(same, make_samples(0)), gradient(plain, make_samples(0)))
    other = load_policy(str(write_model(tmp_path, seed=9)), "float32").double()
    pulled = Objective(policy, settings, reference=other)
    assert not close(gradient(pulled, make_samples(0)), gradient(plain, make_samples(0)))
    assert float(pulled.tally.sums[:, 5].min()) > 0


def test_the_entropy_bonus_raises_entropy(policy: Policy, make_config: Callable[..., RunConfig]) -> None:
    samples = make_samples(0)
    bonus = gradient(Objective(policy, make_config(entropy=1.0).learner), samples)
    bonus = bonus - gradient(Objective(policy, make_config().learner), samples)
    state = {name: value.clone() for name, value in policy.state_dict().items()}
    objective = Objective(policy, make_config().learner)
    before = entropy(objective, samples)
    offset = 0
    with torch.no_grad():
        for p in policy.parameters():
            p -= 1e-2 * bonus[offset : offset + p.numel()].view_as(p) / bonus.norm()
            offset += p.numel()
    after = entropy(objective, samples)
    policy.load_state_dict(state)
    assert after > before


def entropy(objective: Objective, samples: Sequence[Sample]) -> float:
    gradient(objective, samples)
    row = objective.tally.sums
    return float((row[:, 4] / row[:, 0]).sum())


def test_a_model_with_more_than_a_head_is_refused(tmp_path: Path) -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    config = Gemma2Config(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=16,
        final_logit_softcapping=0.01,
    )
    Gemma2ForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(ConfigurationError, match="soft capping"):
        load_policy(str(tmp_path), "float32")
