from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from spade_rl.learner.losses import LOSSES, Bounds, Terms, Tokens

BOUNDS = Bounds(clip_low=0.2, clip_high=0.28, importance_cap=2.0)


def evaluate(
    name: str,
    ratios: Sequence[float],
    advantages: Sequence[float],
    *,
    old: float = 0.1,
    sequences: Sequence[int] | None = None,
) -> tuple[Terms, list[float]]:
    """The loss and its gradient by the log-probability, for tokens that the sampler drew with probability ``old``."""
    base = torch.full((len(ratios),), math.log(old), dtype=torch.float64)
    new = (base + torch.tensor(ratios, dtype=torch.float64).log()).requires_grad_()
    tokens = Tokens(
        new=new,
        old=base,
        advantages=torch.tensor(advantages, dtype=torch.float64),
        sequences=torch.tensor(sequences if sequences is not None else list(range(len(ratios)))),
    )
    terms = LOSSES[name](tokens, BOUNDS)
    terms.loss.sum().backward()
    assert new.grad is not None
    return terms, new.grad.tolist()


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_equal_sampler_and_trainer_give_plain_reinforce(name: str) -> None:
    terms, gradient = evaluate(name, [1.0, 1.0, 1.0], [2.0, -1.5, 0.0])
    assert gradient == pytest.approx([-2.0, 1.5, 0.0])
    assert not terms.clipped.any()


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_gradient_of_a_toy_with_two_tokens(name: str) -> None:
    """A policy softmax([z, 0]) samples token 0 with advantage A: dL/dz = -A * w * (1 - p), by hand."""
    z = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    log_p = torch.log_softmax(torch.stack([z, torch.zeros_like(z)]), 0)[:1]
    p = float(log_p.detach().exp())
    old = log_p.detach() - math.log(1.1)
    tokens = Tokens(
        new=log_p, old=old, advantages=torch.tensor([0.7], dtype=torch.float64), sequences=torch.tensor([0])
    )
    LOSSES[name](tokens, BOUNDS).loss.sum().backward()
    weight = 1.0 if name == "reinforce" else 1.1
    assert float(z.grad or 0) == pytest.approx(-0.7 * weight * (1 - p))


def test_ppo_stops_where_the_advantage_pushes_out_of_the_region() -> None:
    ratios = [1.27, 1.29, 0.81, 0.79, 1.29, 0.79]
    advantages = [1.0, 1.0, -1.0, -1.0, -1.0, 1.0]
    terms, gradient = evaluate("ppo", ratios, advantages)
    assert gradient == pytest.approx([-1.27, 0, 0.81, 0, 1.29, -0.79])
    assert terms.clipped.tolist() == [False, True, False, True, False, False]
    expected = [-min(r * a, min(max(r, 0.8), 1.28) * a) for r, a in zip(ratios, advantages, strict=True)]
    assert terms.loss.tolist() == pytest.approx(expected)


def test_ppo_truncates_the_weight_of_a_token_that_became_likely() -> None:
    terms, gradient = evaluate("ppo", [3.0], [-1.0])
    assert gradient == pytest.approx([2.0])
    assert terms.clipped.tolist() == [True]


def test_cispo_bounds_the_weight_and_keeps_the_gradient() -> None:
    _, gradient = evaluate("cispo", [1.5, 5.0, 0.1], [1.0, 1.0, -1.0])
    assert gradient == pytest.approx([-1.5, -2.0, 0.1])


def test_dppo_measures_probability_not_ratio() -> None:
    rare, _ = evaluate("dppo_tv", [1.9], [1.0], old=0.01)
    common, gradient = evaluate("dppo_tv", [1.9], [1.0], old=0.5)
    assert not rare.clipped.any()
    assert common.clipped.all()
    assert gradient == [0.0]
    down, gradient = evaluate("dppo_tv", [0.5, 0.5], [-1.0, 1.0], old=0.5)
    assert down.clipped.tolist() == [True, False]
    assert gradient == pytest.approx([0.0, -0.5])


def test_gspo_has_one_ratio_a_sequence() -> None:
    terms, gradient = evaluate("gspo", [2.0, 0.5, 1.5, 1.5], [1.0, 1.0, 1.0, 1.0], sequences=[0, 0, 1, 1])
    assert gradient == pytest.approx([-1.0, -1.0, 0.0, 0.0])
    assert terms.clipped.tolist() == [False, False, True, True]


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_an_absurd_ratio_stays_finite(name: str) -> None:
    terms, gradient = evaluate(name, [1e30, 1e-30], [-1.0, 1.0])
    assert torch.isfinite(terms.loss).all()
    assert all(math.isfinite(value) and abs(value) <= 2.0 for value in gradient)
