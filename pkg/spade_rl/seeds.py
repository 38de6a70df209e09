"""Stable seeds and identifiers.

Every random decision of a run is seeded from the run's seed and the names of the things
it is about, never from ``hash()`` (which changes with every process), so that a resumed
run draws what the uninterrupted one would have drawn.
"""

from __future__ import annotations

import hashlib

SEED_BITS = 63


def derive_seed(*parts: str | int) -> int:
    """Return a seed in ``[0, 2**63)`` that depends on every part and on their order."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        encoded = f"{type(part).__name__}:{part}".encode()
        digest.update(len(encoded).to_bytes(4, "big"))
        digest.update(encoded)
    return int.from_bytes(digest.digest(), "big") >> (64 - SEED_BITS)


def play_seeds(run_seed: int, digest: str, cycle: int, plays: int) -> list[int]:
    """Return the seeds of an environment's plays in one cycle; both arms of regret use the same."""
    return [derive_seed(run_seed, "play", digest, cycle, index) for index in range(plays)]


def source_digest(source: str) -> str:
    """Return the identity of an environment: the SHA-256 of its source, in hexadecimal."""
    return hashlib.sha256(source.encode()).hexdigest()
