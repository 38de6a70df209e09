from spade_rl.v1 import validate_pb2 as _validate_pb2
from spade_rl.v1 import environment_pb2 as _environment_pb2
from spade_rl.v1 import trajectory_pb2 as _trajectory_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Play(_message.Message):
    __slots__ = ("trajectory_id", "environment", "arm", "seed", "play")
    TRAJECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    ARM_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    PLAY_FIELD_NUMBER: _ClassVar[int]
    trajectory_id: str
    environment: int
    arm: _trajectory_pb2.Arm
    seed: int
    play: int
    def __init__(self, trajectory_id: _Optional[str] = ..., environment: _Optional[int] = ..., arm: _Optional[_Union[_trajectory_pb2.Arm, str]] = ..., seed: _Optional[int] = ..., play: _Optional[int] = ...) -> None: ...

class RolloutRequest(_message.Message):
    __slots__ = ("environments", "plays", "cycle", "temperature", "returns_only")
    ENVIRONMENTS_FIELD_NUMBER: _ClassVar[int]
    PLAYS_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    RETURNS_ONLY_FIELD_NUMBER: _ClassVar[int]
    environments: _containers.RepeatedCompositeFieldContainer[_environment_pb2.Environment]
    plays: _containers.RepeatedCompositeFieldContainer[Play]
    cycle: int
    temperature: float
    returns_only: bool
    def __init__(self, environments: _Optional[_Iterable[_Union[_environment_pb2.Environment, _Mapping]]] = ..., plays: _Optional[_Iterable[_Union[Play, _Mapping]]] = ..., cycle: _Optional[int] = ..., temperature: _Optional[float] = ..., returns_only: _Optional[bool] = ...) -> None: ...

class RolloutResponse(_message.Message):
    __slots__ = ("trajectory",)
    TRAJECTORY_FIELD_NUMBER: _ClassVar[int]
    trajectory: _trajectory_pb2.Trajectory
    def __init__(self, trajectory: _Optional[_Union[_trajectory_pb2.Trajectory, _Mapping]] = ...) -> None: ...
