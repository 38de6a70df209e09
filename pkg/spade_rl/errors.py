"""What can fail, by the boundary at which it failed.

Each class is one boundary and maps to one gRPC status code; ``rpc`` carries errors over the wire and back
without losing the class. The message of an error says what to do next. Errors stay picklable: they are made
of their message alone.
"""

from __future__ import annotations

from typing import ClassVar

import grpc


class SpadeError(Exception):
    """Something failed at a known boundary. ``exit_code`` is what a command ends with."""

    boundary: ClassVar[str] = "internal"
    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL
    exit_code: ClassVar[int] = 1


class ConfigurationError(SpadeError):
    """What the user asked for is unknown, contradictory or not there."""

    boundary = "configuration"
    code = grpc.StatusCode.INVALID_ARGUMENT
    exit_code = 2


class EnvironmentFault(SpadeError):
    """An environment's own code failed or broke a limit."""

    boundary = "environment"
    code = grpc.StatusCode.FAILED_PRECONDITION


class SandboxError(SpadeError):
    """The sandbox itself failed; no environment is to blame."""

    boundary = "sandbox"
    code = grpc.StatusCode.UNAVAILABLE


class EngineError(SpadeError):
    """The inference engine failed."""

    boundary = "engine"
    code = grpc.StatusCode.ABORTED


class MemoryStoreError(SpadeError):
    """The archive could not be read or written."""

    boundary = "memory"
    code = grpc.StatusCode.DATA_LOSS


class LearnerError(SpadeError):
    """An update, a checkpoint or the publication of weights failed."""

    boundary = "learner"
    code = grpc.StatusCode.OUT_OF_RANGE


class CapacityError(SpadeError):
    """A bounded resource is used up for now; trying again later may succeed."""

    boundary = "capacity"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class UnavailableError(SpadeError):
    """A service is shutting down and begins nothing new, or nobody serves; another instance may answer, or this one later."""

    boundary = "shutdown"
    code = grpc.StatusCode.UNAVAILABLE


class DeadlineError(SpadeError):
    """Something did not answer in time."""

    boundary = "deadline"
    code = grpc.StatusCode.DEADLINE_EXCEEDED


BY_BOUNDARY: dict[str, type[SpadeError]] = {
    cls.boundary: cls
    for cls in (
        SpadeError,
        ConfigurationError,
        EnvironmentFault,
        SandboxError,
        EngineError,
        MemoryStoreError,
        LearnerError,
        CapacityError,
        UnavailableError,
        DeadlineError,
    )
}
