from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from learner_cases import make_sample, make_samples

from spade_rl.learner.batch import collate
from spade_rl.learner.packing import deal, pack
from spade_rl.learner.samples import ROLES, Role


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(64, 256))
def test_packing_loses_nothing_and_keeps_the_budget(lengths: list[int], budget: int) -> None:
    batches = pack(lengths, micro_tokens=budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= budget or len(batch) == 1


def test_similar_lengths_share_a_micro_batch() -> None:
    assert pack([40, 5, 40, 5, 200], micro_tokens=100) == [[4], [0, 2], [1, 3]]


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(0, 3))
def test_dealing_loses_nothing_and_splits_no_unit(seed: int, steps: int, draw: int) -> None:
    samples = make_samples(draw)
    indices = [index for index in range(len(samples)) if index % 7]
    hands = deal(samples, indices, steps=steps, seed=seed)
    assert sorted(index for hand in hands for index in hand) == indices
    places: dict[tuple[str, str], set[int]] = {}
    for step, hand in enumerate(hands):
        for index in hand:
            places.setdefault((samples[index].group, samples[index].unit), set()).add(step)
    assert all(len(steps) == 1 for steps in places.values())
    assert hands == deal(samples, indices, steps=steps, seed=seed)


def test_groups_stay_whole_where_there_are_enough_and_both_roles_are_everywhere() -> None:
    rng = np.random.default_rng(0)
    samples = [make_sample(rng, group=f"e{g}", unit=f"{g}/{u}") for g in range(8) for u in range(4)]
    samples += [
        make_sample(rng, role=Role.DESIGNER, group=f"s{g}", unit=f"{g}/{u}") for g in range(2) for u in range(6)
    ]
    hands = deal(samples, range(len(samples)), steps=4, seed=3)
    for hand in hands:
        count = Counter(samples[index].role for index in hand)
        assert count == {Role.AGENT: 8, Role.DESIGNER: 3}
    homes = {samples[i].group: {s for s, hand in enumerate(hands) if i in hand} for i in range(32)}
    assert all(len(home) == 1 for home in homes.values())


def test_the_seed_decides_who_meets_whom() -> None:
    rng = np.random.default_rng(0)
    samples = [make_sample(rng, group=f"e{g}", unit=f"{g}") for g in range(16)]
    assert len({str(deal(samples, range(16), steps=4, seed=seed)) for seed in range(10)}) > 5


def test_collating_places_every_trained_token_at_its_predecessor() -> None:
    samples = make_samples(1)[-3:] + make_samples(1)[:3]
    batch = collate(
        samples,
        [float(index) for index in range(len(samples))],
        weights={role: 1.0 + role.row for role in ROLES},
        temperatures={Role.AGENT: 0.5, Role.DESIGNER: 2.0},
    )
    assert batch.token_ids.shape == (6, max(len(s.token_ids) for s in samples))
    place = 0
    for row, sample in enumerate(samples):
        for position in np.flatnonzero(sample.trained):
            assert batch.rows[place] == row
            assert batch.columns[place] == position - 1
            assert batch.targets[place] == sample.token_ids[position]
            assert batch.sampler[place] == sample.log_probs[position]
            assert batch.advantages[place] == row
            assert batch.weights[place] == 1.0 + sample.role.row
            assert batch.temperatures[place] == (0.5 if sample.role is Role.AGENT else 2.0)
            place += 1
    assert place == len(batch.targets) == sum(s.trained_tokens for s in samples)
    assert np.isfinite(batch.sampler).all()
