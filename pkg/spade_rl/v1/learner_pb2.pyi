from spade_rl.v1 import validate_pb2 as _validate_pb2
from spade_rl.v1 import trajectory_pb2 as _trajectory_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_AGENT: _ClassVar[Role]
    ROLE_DESIGNER: _ClassVar[Role]
ROLE_UNSPECIFIED: Role
ROLE_AGENT: Role
ROLE_DESIGNER: Role

class Sample(_message.Message):
    __slots__ = ("sequence", "role", "group", "unit", "reward")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    sequence: _trajectory_pb2.Sequence
    role: Role
    group: str
    unit: str
    reward: float
    def __init__(self, sequence: _Optional[_Union[_trajectory_pb2.Sequence, _Mapping]] = ..., role: _Optional[_Union[Role, str]] = ..., group: _Optional[str] = ..., unit: _Optional[str] = ..., reward: _Optional[float] = ...) -> None: ...

class TrainRequest(_message.Message):
    __slots__ = ("samples", "update", "total", "run_seed")
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    RUN_SEED_FIELD_NUMBER: _ClassVar[int]
    samples: _containers.RepeatedCompositeFieldContainer[Sample]
    update: int
    total: int
    run_seed: int
    def __init__(self, samples: _Optional[_Iterable[_Union[Sample, _Mapping]]] = ..., update: _Optional[int] = ..., total: _Optional[int] = ..., run_seed: _Optional[int] = ...) -> None: ...

class TrainResponse(_message.Message):
    __slots__ = ("policy_version", "uri", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    policy_version: int
    uri: str
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, policy_version: _Optional[int] = ..., uri: _Optional[str] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class SaveCheckpointRequest(_message.Message):
    __slots__ = ("uri",)
    URI_FIELD_NUMBER: _ClassVar[int]
    uri: str
    def __init__(self, uri: _Optional[str] = ...) -> None: ...

class SaveCheckpointResponse(_message.Message):
    __slots__ = ("policy_version",)
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    policy_version: int
    def __init__(self, policy_version: _Optional[int] = ...) -> None: ...

class LoadCheckpointRequest(_message.Message):
    __slots__ = ("uri",)
    URI_FIELD_NUMBER: _ClassVar[int]
    uri: str
    def __init__(self, uri: _Optional[str] = ...) -> None: ...

class LoadCheckpointResponse(_message.Message):
    __slots__ = ("policy_version", "uri")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    policy_version: int
    uri: str
    def __init__(self, policy_version: _Optional[int] = ..., uri: _Optional[str] = ...) -> None: ...

class GetPolicyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetPolicyResponse(_message.Message):
    __slots__ = ("policy_version", "uri", "engine")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    policy_version: int
    uri: str
    engine: str
    def __init__(self, policy_version: _Optional[int] = ..., uri: _Optional[str] = ..., engine: _Optional[str] = ...) -> None: ...
