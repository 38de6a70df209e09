from spade_rl.v1 import validate_pb2 as _validate_pb2
from spade_rl.v1 import designer_pb2 as _designer_pb2
from spade_rl.v1 import environment_pb2 as _environment_pb2
from spade_rl.v1 import trajectory_pb2 as _trajectory_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RecordRequest(_message.Message):
    __slots__ = ("run_id", "cycle", "attempts", "environments", "trajectories", "statistics")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENTS_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORIES_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    cycle: int
    attempts: _containers.RepeatedCompositeFieldContainer[_designer_pb2.DesignAttempt]
    environments: _containers.RepeatedCompositeFieldContainer[_environment_pb2.Environment]
    trajectories: _containers.RepeatedCompositeFieldContainer[_trajectory_pb2.Trajectory]
    statistics: _containers.RepeatedCompositeFieldContainer[_environment_pb2.EnvironmentStatistics]
    def __init__(self, run_id: _Optional[str] = ..., cycle: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[_designer_pb2.DesignAttempt, _Mapping]]] = ..., environments: _Optional[_Iterable[_Union[_environment_pb2.Environment, _Mapping]]] = ..., trajectories: _Optional[_Iterable[_Union[_trajectory_pb2.Trajectory, _Mapping]]] = ..., statistics: _Optional[_Iterable[_Union[_environment_pb2.EnvironmentStatistics, _Mapping]]] = ...) -> None: ...

class RecordResponse(_message.Message):
    __slots__ = ("new_attempts", "new_environments", "new_trajectories")
    NEW_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    NEW_ENVIRONMENTS_FIELD_NUMBER: _ClassVar[int]
    NEW_TRAJECTORIES_FIELD_NUMBER: _ClassVar[int]
    new_attempts: int
    new_environments: int
    new_trajectories: int
    def __init__(self, new_attempts: _Optional[int] = ..., new_environments: _Optional[int] = ..., new_trajectories: _Optional[int] = ...) -> None: ...

class SampleSeedsRequest(_message.Message):
    __slots__ = ("run_id", "skill", "seed", "before_cycle", "positives", "negatives")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SKILL_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    BEFORE_CYCLE_FIELD_NUMBER: _ClassVar[int]
    POSITIVES_FIELD_NUMBER: _ClassVar[int]
    NEGATIVES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    skill: str
    seed: int
    before_cycle: int
    positives: int
    negatives: int
    def __init__(self, run_id: _Optional[str] = ..., skill: _Optional[str] = ..., seed: _Optional[int] = ..., before_cycle: _Optional[int] = ..., positives: _Optional[int] = ..., negatives: _Optional[int] = ...) -> None: ...

class SampleSeedsResponse(_message.Message):
    __slots__ = ("positives", "negatives")
    POSITIVES_FIELD_NUMBER: _ClassVar[int]
    NEGATIVES_FIELD_NUMBER: _ClassVar[int]
    positives: _containers.RepeatedCompositeFieldContainer[MemorySeed]
    negatives: _containers.RepeatedCompositeFieldContainer[MemorySeed]
    def __init__(self, positives: _Optional[_Iterable[_Union[MemorySeed, _Mapping]]] = ..., negatives: _Optional[_Iterable[_Union[MemorySeed, _Mapping]]] = ...) -> None: ...

class MemorySeed(_message.Message):
    __slots__ = ("environment", "statistics", "reason")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    environment: _environment_pb2.Environment
    statistics: _environment_pb2.EnvironmentStatistics
    reason: str
    def __init__(self, environment: _Optional[_Union[_environment_pb2.Environment, _Mapping]] = ..., statistics: _Optional[_Union[_environment_pb2.EnvironmentStatistics, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class ListEnvironmentsRequest(_message.Message):
    __slots__ = ("run_id", "skill", "digest_prefix")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SKILL_FIELD_NUMBER: _ClassVar[int]
    DIGEST_PREFIX_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    skill: str
    digest_prefix: str
    def __init__(self, run_id: _Optional[str] = ..., skill: _Optional[str] = ..., digest_prefix: _Optional[str] = ...) -> None: ...

class ListEnvironmentsResponse(_message.Message):
    __slots__ = ("environment", "statistics")
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    environment: _environment_pb2.Environment
    statistics: _environment_pb2.EnvironmentStatistics
    def __init__(self, environment: _Optional[_Union[_environment_pb2.Environment, _Mapping]] = ..., statistics: _Optional[_Union[_environment_pb2.EnvironmentStatistics, _Mapping]] = ...) -> None: ...

class ListAttemptsRequest(_message.Message):
    __slots__ = ("run_id", "first_cycle")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_CYCLE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    first_cycle: int
    def __init__(self, run_id: _Optional[str] = ..., first_cycle: _Optional[int] = ...) -> None: ...

class ListAttemptsResponse(_message.Message):
    __slots__ = ("cycle", "attempt")
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    cycle: int
    attempt: _designer_pb2.DesignAttempt
    def __init__(self, cycle: _Optional[int] = ..., attempt: _Optional[_Union[_designer_pb2.DesignAttempt, _Mapping]] = ...) -> None: ...

class ListTrajectoriesRequest(_message.Message):
    __slots__ = ("run_id", "environment_digest", "trajectory_id", "text_only", "limit")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_ONLY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    environment_digest: str
    trajectory_id: str
    text_only: bool
    limit: int
    def __init__(self, run_id: _Optional[str] = ..., environment_digest: _Optional[str] = ..., trajectory_id: _Optional[str] = ..., text_only: _Optional[bool] = ..., limit: _Optional[int] = ...) -> None: ...

class ListTrajectoriesResponse(_message.Message):
    __slots__ = ("trajectory",)
    TRAJECTORY_FIELD_NUMBER: _ClassVar[int]
    trajectory: _trajectory_pb2.Trajectory
    def __init__(self, trajectory: _Optional[_Union[_trajectory_pb2.Trajectory, _Mapping]] = ...) -> None: ...

class ListNormalisedDigestsRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class ListNormalisedDigestsResponse(_message.Message):
    __slots__ = ("digests",)
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    digests: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, digests: _Optional[_Iterable[str]] = ...) -> None: ...

class RollbackRequest(_message.Message):
    __slots__ = ("run_id", "last_cycle")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_CYCLE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    last_cycle: int
    def __init__(self, run_id: _Optional[str] = ..., last_cycle: _Optional[int] = ...) -> None: ...

class RollbackResponse(_message.Message):
    __slots__ = ("environments", "trajectories")
    ENVIRONMENTS_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORIES_FIELD_NUMBER: _ClassVar[int]
    environments: int
    trajectories: int
    def __init__(self, environments: _Optional[int] = ..., trajectories: _Optional[int] = ...) -> None: ...
