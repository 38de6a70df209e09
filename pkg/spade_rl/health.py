"""What an examination finds, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """What a finding means for a run."""

    GOOD = "ok"
    WARNING = "warning"
    BAD = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; ``advice`` says what to do about it and is empty when there is nothing to do."""

    name: str
    health: Health
    found: str
    advice: str = ""
