"""What the designer makes: attempts, their verdicts, and slots that they fill."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from spade_rl.designer.corpus import Document
from spade_rl.designer.fitting import DesignPrompt

# Gates of the designer's own, around those of the sandbox.
GATE_REPLY = "reply"
GATE_DUPLICATE = "duplicate"
GATE_HINT = "hint"
MAX_SOURCE_BYTES = 262_144
MAX_REPLY_BYTES = 1_048_576


class Verdict(StrEnum):
    """What a gate says."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The verdict of one gate, with a message for the author."""

    gate: str
    verdict: Verdict
    message: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts on one source; ``isolation`` is the wire's number of the level at which it was tried."""

    digest: str
    admitted: bool
    verdicts: tuple[GateVerdict, ...]
    isolation: int = 0
    seconds: float = 0.0
    solution: tuple[str, ...] = ()
    observation: str = ""

    def refusal(self) -> GateVerdict | None:
        """Return the verdict that refused the source, if one did."""
        if self.admitted:
            return None
        failed = (verdict for verdict in self.verdicts if verdict.verdict is Verdict.FAILED)
        return next(failed, GateVerdict("unknown", Verdict.FAILED, "no gate says why"))

    def with_verdict(self, verdict: GateVerdict) -> Report:
        """Return the report with one more verdict, in the place of one of the same gate."""
        others = tuple(v for v in self.verdicts if v.gate != verdict.gate)
        return replace(self, verdicts=(*others, verdict))


@dataclass(frozen=True, slots=True)
class Reply:
    """What the policy sampled; ``cut`` if it reached its token limit before its end."""

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    policy_version: int
    cut: bool


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a source comes from."""

    run_id: str
    cycle: int
    document_id: str
    document_excerpt: str
    positive_seeds: tuple[str, ...]
    negative_seeds: tuple[str, ...]
    policy_version: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One reply of the designer and what became of it; ``source`` is empty if it held no program."""

    id: str
    skill: str
    provenance: Provenance
    prompt_ids: tuple[int, ...]
    reply: Reply
    text: str
    source: str
    report: Report
    normalised_digest: str = ""


@dataclass(frozen=True, slots=True)
class Designed:
    """A slot that is done: its attempts in order, the last one admitted if ``admitted``."""

    slot: int
    attempts: tuple[Attempt, ...]
    admitted: bool
    hint: str = ""


@dataclass(slots=True)
class Slot:
    """A slot at work. ``prompt`` is what its first attempt is asked with."""

    index: int
    skill: str
    document: Document | None
    prompt: DesignPrompt
    attempts: list[Attempt] = field(default_factory=list)


def clip_bytes(text: str, limit: int) -> str:
    """Return the longest beginning of ``text`` that takes at most ``limit`` bytes in UTF-8."""
    return text if len(text) * 4 <= limit else text.encode()[:limit].decode(errors="ignore")
