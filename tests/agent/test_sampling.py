"""Drawing tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.agent.engine.sampling import sample, uniforms

seeds = st.integers(0, 2**63 - 1)


def test_uniform_numbers_are_uniform_along_seeds_and_along_positions():
    for numbers in (uniforms(range(20_000), [3] * 20_000), uniforms([11] * 20_000, range(20_000))):
        assert 0 < numbers.min() < numbers.max() < 1
        counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
        # Chi squared with 19 degrees of freedom: beyond 50 once in ten thousand.
        assert ((counts - 1000) ** 2 / 1000).sum() < 50
        assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03


@given(seed=seeds, position=st.integers(0, 10_000), others=st.lists(seeds, max_size=5))
def test_a_draw_depends_on_its_own_seed_and_position_alone(seed, position, others):
    alone = uniforms([seed], [position])[0]
    assert uniforms([*others, seed], [0] * len(others) + [position])[-1] == alone
    assert uniforms([seed + 1], [position])[0] != alone != uniforms([seed], [position + 1])[0]


@given(
    rows=st.lists(st.tuples(st.sampled_from([0.0, 0.3, 1.0, 2.0]), seeds, st.integers(0, 99)), min_size=1, max_size=8),
    noise=st.integers(0, 1000),
)
def test_log_probabilities_are_of_the_tempered_distribution(rows, noise):
    logits = torch.randn(len(rows), 50, generator=torch.Generator().manual_seed(noise)) * 4
    temperatures, row_seeds, positions = zip(*rows, strict=True)
    tokens, log_probs = sample(logits, temperatures, row_seeds, positions)
    for row, (token, log_prob, temperature) in enumerate(zip(tokens, log_probs, temperatures, strict=True)):
        expected = torch.log_softmax(logits[row].double() / (temperature or 1.0), -1)[token]
        assert abs(float(expected) - log_prob) < 1e-4
        if temperature == 0:
            assert token == int(logits[row].argmax())


def test_a_forbidden_token_is_never_drawn():
    logits = torch.full((4000, 5), float("-inf"))
    logits[:, 1], logits[:, 3] = 0.0, 1.0
    tokens, _ = sample(logits, [1.0] * 4000, range(4000), [0] * 4000)
    assert set(tokens) == {1, 3}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_refused(bad):
    logits = torch.zeros(3, 5)
    logits[1, 2] = bad
    for temperature in (0.0, 1.0):
        with pytest.raises(ValueError, match="not finite"):
            sample(logits, [temperature] * 3, [1, 2, 3], [0, 0, 0])
