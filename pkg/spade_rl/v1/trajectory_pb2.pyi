from spade_rl.v1 import validate_pb2 as _validate_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Arm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ARM_UNSPECIFIED: _ClassVar[Arm]
    ARM_PLAIN: _ClassVar[Arm]
    ARM_HINTED: _ClassVar[Arm]

class StopReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_REASON_UNSPECIFIED: _ClassVar[StopReason]
    STOP_REASON_TERMINATED: _ClassVar[StopReason]
    STOP_REASON_TRUNCATED: _ClassVar[StopReason]
    STOP_REASON_TURN_LIMIT: _ClassVar[StopReason]
    STOP_REASON_CONTEXT_LIMIT: _ClassVar[StopReason]
    STOP_REASON_TOKEN_LIMIT: _ClassVar[StopReason]
    STOP_REASON_NO_ACTION: _ClassVar[StopReason]
    STOP_REASON_ENVIRONMENT_ERROR: _ClassVar[StopReason]
    STOP_REASON_SANDBOX_ERROR: _ClassVar[StopReason]
    STOP_REASON_ENGINE_ERROR: _ClassVar[StopReason]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
ARM_UNSPECIFIED: Arm
ARM_PLAIN: Arm
ARM_HINTED: Arm
STOP_REASON_UNSPECIFIED: StopReason
STOP_REASON_TERMINATED: StopReason
STOP_REASON_TRUNCATED: StopReason
STOP_REASON_TURN_LIMIT: StopReason
STOP_REASON_CONTEXT_LIMIT: StopReason
STOP_REASON_TOKEN_LIMIT: StopReason
STOP_REASON_NO_ACTION: StopReason
STOP_REASON_ENVIRONMENT_ERROR: StopReason
STOP_REASON_SANDBOX_ERROR: StopReason
STOP_REASON_ENGINE_ERROR: StopReason
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason

class Segment(_message.Message):
    __slots__ = ("token_ids", "log_probs", "trained", "policy_version", "sampled")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    TRAINED_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    log_probs: _containers.RepeatedScalarFieldContainer[float]
    trained: bool
    policy_version: int
    sampled: bool
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., log_probs: _Optional[_Iterable[float]] = ..., trained: _Optional[bool] = ..., policy_version: _Optional[int] = ..., sampled: _Optional[bool] = ...) -> None: ...

class Sequence(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[Segment]
    def __init__(self, segments: _Optional[_Iterable[_Union[Segment, _Mapping]]] = ...) -> None: ...

class Turn(_message.Message):
    __slots__ = ("observation", "reply", "action", "reward")
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    observation: str
    reply: str
    action: str
    reward: float
    def __init__(self, observation: _Optional[str] = ..., reply: _Optional[str] = ..., action: _Optional[str] = ..., reward: _Optional[float] = ...) -> None: ...

class Trajectory(_message.Message):
    __slots__ = ("id", "environment_digest", "cycle", "arm", "seed", "play", "sequences", "turns", "episode_return", "stop_reason", "error", "seconds", "last_observation")
    ID_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    ARM_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    PLAY_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    EPISODE_RETURN_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    LAST_OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    id: str
    environment_digest: str
    cycle: int
    arm: Arm
    seed: int
    play: int
    sequences: _containers.RepeatedCompositeFieldContainer[Sequence]
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    episode_return: float
    stop_reason: StopReason
    error: str
    seconds: float
    last_observation: str
    def __init__(self, id: _Optional[str] = ..., environment_digest: _Optional[str] = ..., cycle: _Optional[int] = ..., arm: _Optional[_Union[Arm, str]] = ..., seed: _Optional[int] = ..., play: _Optional[int] = ..., sequences: _Optional[_Iterable[_Union[Sequence, _Mapping]]] = ..., turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ..., episode_return: _Optional[float] = ..., stop_reason: _Optional[_Union[StopReason, str]] = ..., error: _Optional[str] = ..., seconds: _Optional[float] = ..., last_observation: _Optional[str] = ...) -> None: ...
