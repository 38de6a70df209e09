"""Which samples an optimizer step sees, and in which micro-batches.

Pure functions over indices. Nothing is trimmed and nothing is left over: every index that goes in comes out exactly
once. Which step a sample falls into depends on the seed and the samples alone, never on the number of processes.

The gradient does not depend on micro-batches at all (every token carries its own weight), so they may be shaped for
speed: rows of similar length, so that little is padded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from spade_rl.learner.samples import ROLES, Sample
from spade_rl.seeds import derive_seed


def deal(samples: Sequence[Sample], indices: Sequence[int], *, steps: int, seed: int) -> list[list[int]]:
    """Deal ``indices`` out among ``steps`` optimizer steps, each with its share of both roles' trained tokens.

    Groups stay whole where a role has at least one for each step, else its units are dealt; a unit is never split.
    The largest goes first, each to the step that has the fewest trained tokens of that role.
    """
    hands: list[list[int]] = [[] for _ in range(steps)]
    for role in ROLES:
        groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
        units: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for index in indices:
            sample = samples[index]
            if sample.role is role:
                groups[(sample.group,)].append(index)
                units[(sample.group, sample.unit)].append(index)
        blocks = groups if len(groups) >= steps else units
        size = {key: sum(samples[index].trained_tokens for index in block) for key, block in blocks.items()}
        load = [0] * steps
        for key in sorted(blocks, key=lambda key: (-size[key], derive_seed(seed, *key))):
            step = min(range(steps), key=lambda step: (load[step], derive_seed(seed, "step", step)))
            load[step] += size[key]
            hands[step] += blocks[key]
    return hands


def pack(lengths: Sequence[int], *, micro_tokens: int) -> list[list[int]]:
    """Group sequences of these lengths into micro-batches of at most ``micro_tokens`` tokens, padding included.

    Returns positions in ``lengths``, longest rows first, so that running out of memory shows at once. A sequence that
    is longer than the budget has a micro-batch of its own.
    """
    batches: list[list[int]] = []
    width = 0
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        if not batches or (len(batches[-1]) + 1) * width > micro_tokens:
            batches.append([])
            width = lengths[index]
        batches[-1].append(index)
    return batches
