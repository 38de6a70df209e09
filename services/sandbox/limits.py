"""The limits of a worker and a sandbox, resolved from the configuration, and the names of what goes wrong.

``FaultKind`` is the documented list of ``EpisodeFault.kind``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from spade_rl.config import SandboxSection

# Users of workers inside gVisor, where nothing else has them.
FIRST_USER = 20_000
USERS = 100_000


class Origin(StrEnum):
    """Whose fault a broken episode is."""

    ENVIRONMENT = "environment"
    SANDBOX = "sandbox"


class FaultKind(StrEnum):
    """What broke."""

    # The source is no program: it does not parse, imports what is not allowed, or has no environment class.
    PROGRAM = "program"
    # A module that the source imports is not there.
    IMPORT = "import"
    # The code raised.
    EXCEPTION = "exception"
    # The code returned something else than the contract says.
    CONTRACT = "contract"
    # A reward is not finite or outside of [-1, 1].
    REWARD = "reward"
    # An observation is too long.
    OBSERVATION = "observation"
    # An info is too large or too deep.
    INFO = "info"
    # A solution is too long.
    BOUNDS = "bounds"
    # A call did not return in time.
    DEADLINE = "deadline"
    # The code used too much memory.
    MEMORY = "memory"
    # A process of the worker used too much CPU time.
    CPU = "cpu"
    # The code started too many processes or threads.
    PROCESSES = "processes"
    # The code opened too many files.
    FILES = "files"
    # The code wrote too long a file, or too many of them.
    DISK = "disk"
    # The answers to one call are too long together.
    OUTPUT = "output"
    # The process ended by itself.
    EXIT = "exit"
    # The process sent what the protocol does not know: an attack, or a write to a foreign descriptor.
    PROTOCOL = "protocol"
    # The episode, played again with the same seed and actions, came out differently.
    REPLAY = "replay"
    # An earlier episode of the environment broke the protocol or did not repeat itself; it is played no more.
    QUARANTINE = "quarantine"
    # The episode was open for too long.
    EPISODE_TIME = "episode_time"
    # The sandbox could not start, or was lost.
    SANDBOX = "sandbox"
    # No room in time.
    CAPACITY = "capacity"


class EpisodeError(Exception):
    """A worker cannot go on; the episode is void."""

    def __init__(self, origin: Origin, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.origin = origin
        self.kind = kind

    @property
    def message(self) -> str:
        """What happened, for people."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one worker may use; sizes in bytes unless the name says otherwise, times in seconds."""

    call_seconds: float
    episode_seconds: float
    memory_mb: int
    sandbox_memory_mb: int
    processes: int
    observation_bytes: int
    info_bytes: int
    solution_steps: int
    cpu_seconds: int = 120
    file_mb: int = 16
    tmp_mb: int = 32
    files: int = 64
    # Of all answers to one call of the service: a long batch of steps has many.
    output_bytes: int = 32 << 20

    @property
    def frame_bytes(self) -> int:
        """The longest honest answer: JSON may need six bytes for one character, and twelve for a wide one."""
        return (1 << 20) + 12 * (2 * self.observation_bytes + 2 * self.info_bytes)

    def for_guest(self) -> dict[str, Any]:
        """Return what the zygote must know."""
        return {
            "processes": self.processes,
            "observation_bytes": self.observation_bytes,
            "info_bytes": self.info_bytes,
            "solution_steps": self.solution_steps,
            "cpu_seconds": self.cpu_seconds,
            "file_mb": self.file_mb,
            "files": self.files,
            "memory_mb": self.memory_mb,
            "tmp_mb": self.tmp_mb,
        }


def limits_of(section: SandboxSection) -> Limits:
    """Return the limits that a configuration asks for."""
    return Limits(
        call_seconds=section.call_seconds,
        episode_seconds=section.episode_seconds,
        memory_mb=section.worker_memory_mb,
        sandbox_memory_mb=section.sandbox_memory_mb,
        processes=section.worker_processes,
        cpu_seconds=section.worker_cpu_seconds,
        observation_bytes=section.max_observation_bytes,
        info_bytes=section.max_info_bytes,
        solution_steps=section.max_solution_steps,
    )
