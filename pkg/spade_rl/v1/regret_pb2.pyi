from spade_rl.v1 import validate_pb2 as _validate_pb2
from spade_rl.v1 import environment_pb2 as _environment_pb2
from spade_rl.v1 import trajectory_pb2 as _trajectory_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EvaluateRequest(_message.Message):
    __slots__ = ("environments", "plays", "hinted", "run_seed", "cycle", "run_id")
    ENVIRONMENTS_FIELD_NUMBER: _ClassVar[int]
    PLAYS_FIELD_NUMBER: _ClassVar[int]
    HINTED_FIELD_NUMBER: _ClassVar[int]
    RUN_SEED_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    environments: _containers.RepeatedCompositeFieldContainer[_environment_pb2.Environment]
    plays: int
    hinted: bool
    run_seed: int
    cycle: int
    run_id: str
    def __init__(self, environments: _Optional[_Iterable[_Union[_environment_pb2.Environment, _Mapping]]] = ..., plays: _Optional[int] = ..., hinted: _Optional[bool] = ..., run_seed: _Optional[int] = ..., cycle: _Optional[int] = ..., run_id: _Optional[str] = ...) -> None: ...

class EvaluateResponse(_message.Message):
    __slots__ = ("digest", "trajectories", "plain_return", "hinted_return", "regret", "regret_standard_error", "pairs", "void_episodes", "quarantine_reason", "void_trajectories")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORIES_FIELD_NUMBER: _ClassVar[int]
    PLAIN_RETURN_FIELD_NUMBER: _ClassVar[int]
    HINTED_RETURN_FIELD_NUMBER: _ClassVar[int]
    REGRET_FIELD_NUMBER: _ClassVar[int]
    REGRET_STANDARD_ERROR_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    VOID_EPISODES_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_REASON_FIELD_NUMBER: _ClassVar[int]
    VOID_TRAJECTORIES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    trajectories: _containers.RepeatedCompositeFieldContainer[_trajectory_pb2.Trajectory]
    plain_return: float
    hinted_return: float
    regret: float
    regret_standard_error: float
    pairs: int
    void_episodes: int
    quarantine_reason: str
    void_trajectories: _containers.RepeatedCompositeFieldContainer[_trajectory_pb2.Trajectory]
    def __init__(self, digest: _Optional[str] = ..., trajectories: _Optional[_Iterable[_Union[_trajectory_pb2.Trajectory, _Mapping]]] = ..., plain_return: _Optional[float] = ..., hinted_return: _Optional[float] = ..., regret: _Optional[float] = ..., regret_standard_error: _Optional[float] = ..., pairs: _Optional[int] = ..., void_episodes: _Optional[int] = ..., quarantine_reason: _Optional[str] = ..., void_trajectories: _Optional[_Iterable[_Union[_trajectory_pb2.Trajectory, _Mapping]]] = ...) -> None: ...

class ScoreRequest(_message.Message):
    __slots__ = ("inputs", "variant")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[EnvironmentScoreInput]
    variant: str
    def __init__(self, inputs: _Optional[_Iterable[_Union[EnvironmentScoreInput, _Mapping]]] = ..., variant: _Optional[str] = ...) -> None: ...

class EnvironmentScoreInput(_message.Message):
    __slots__ = ("digest", "mean_return", "regret", "skill_average", "quarantined")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MEAN_RETURN_FIELD_NUMBER: _ClassVar[int]
    REGRET_FIELD_NUMBER: _ClassVar[int]
    SKILL_AVERAGE_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    digest: str
    mean_return: float
    regret: float
    skill_average: float
    quarantined: bool
    def __init__(self, digest: _Optional[str] = ..., mean_return: _Optional[float] = ..., regret: _Optional[float] = ..., skill_average: _Optional[float] = ..., quarantined: _Optional[bool] = ...) -> None: ...

class ScoreResponse(_message.Message):
    __slots__ = ("rewards",)
    REWARDS_FIELD_NUMBER: _ClassVar[int]
    rewards: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, rewards: _Optional[_Iterable[float]] = ...) -> None: ...
