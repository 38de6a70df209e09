from spade_rl.v1 import validate_pb2 as _validate_pb2
from spade_rl.v1 import environment_pb2 as _environment_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FaultOrigin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAULT_ORIGIN_UNSPECIFIED: _ClassVar[FaultOrigin]
    FAULT_ORIGIN_ENVIRONMENT: _ClassVar[FaultOrigin]
    FAULT_ORIGIN_SANDBOX: _ClassVar[FaultOrigin]
FAULT_ORIGIN_UNSPECIFIED: FaultOrigin
FAULT_ORIGIN_ENVIRONMENT: FaultOrigin
FAULT_ORIGIN_SANDBOX: FaultOrigin

class AdmitRequest(_message.Message):
    __slots__ = ("source", "kind", "seed", "known_normalised_digests")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    KNOWN_NORMALISED_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    source: str
    kind: _environment_pb2.EnvironmentKind
    seed: int
    known_normalised_digests: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, source: _Optional[str] = ..., kind: _Optional[_Union[_environment_pb2.EnvironmentKind, str]] = ..., seed: _Optional[int] = ..., known_normalised_digests: _Optional[_Iterable[str]] = ...) -> None: ...

class AdmitResponse(_message.Message):
    __slots__ = ("report", "normalised_digest")
    REPORT_FIELD_NUMBER: _ClassVar[int]
    NORMALISED_DIGEST_FIELD_NUMBER: _ClassVar[int]
    report: _environment_pb2.AdmissionReport
    normalised_digest: str
    def __init__(self, report: _Optional[_Union[_environment_pb2.AdmissionReport, _Mapping]] = ..., normalised_digest: _Optional[str] = ...) -> None: ...

class EpisodeRequest(_message.Message):
    __slots__ = ("reset", "step")
    RESET_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    reset: ResetRequest
    step: StepRequest
    def __init__(self, reset: _Optional[_Union[ResetRequest, _Mapping]] = ..., step: _Optional[_Union[StepRequest, _Mapping]] = ...) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ("source", "seed")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    source: str
    seed: int
    def __init__(self, source: _Optional[str] = ..., seed: _Optional[int] = ...) -> None: ...

class StepRequest(_message.Message):
    __slots__ = ("actions",)
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    actions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, actions: _Optional[_Iterable[str]] = ...) -> None: ...

class EpisodeResponse(_message.Message):
    __slots__ = ("reset", "step", "fault")
    RESET_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    reset: ResetResponse
    step: StepResponse
    fault: EpisodeFault
    def __init__(self, reset: _Optional[_Union[ResetResponse, _Mapping]] = ..., step: _Optional[_Union[StepResponse, _Mapping]] = ..., fault: _Optional[_Union[EpisodeFault, _Mapping]] = ...) -> None: ...

class ResetResponse(_message.Message):
    __slots__ = ("observation", "info_json")
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    INFO_JSON_FIELD_NUMBER: _ClassVar[int]
    observation: str
    info_json: str
    def __init__(self, observation: _Optional[str] = ..., info_json: _Optional[str] = ...) -> None: ...

class StepResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[StepResult]
    def __init__(self, results: _Optional[_Iterable[_Union[StepResult, _Mapping]]] = ...) -> None: ...

class StepResult(_message.Message):
    __slots__ = ("observation", "reward", "terminated", "truncated", "info_json")
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    INFO_JSON_FIELD_NUMBER: _ClassVar[int]
    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info_json: str
    def __init__(self, observation: _Optional[str] = ..., reward: _Optional[float] = ..., terminated: _Optional[bool] = ..., truncated: _Optional[bool] = ..., info_json: _Optional[str] = ...) -> None: ...

class EpisodeFault(_message.Message):
    __slots__ = ("origin", "kind", "message")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    origin: FaultOrigin
    kind: str
    message: str
    def __init__(self, origin: _Optional[_Union[FaultOrigin, str]] = ..., kind: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("isolation", "runtime", "live_sandboxes", "live_workers", "waiting", "quarantined", "limits")
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    LIVE_SANDBOXES_FIELD_NUMBER: _ClassVar[int]
    LIVE_WORKERS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    isolation: _environment_pb2.IsolationLevel
    runtime: str
    live_sandboxes: int
    live_workers: int
    waiting: int
    quarantined: _containers.RepeatedCompositeFieldContainer[QuarantinedEnvironment]
    limits: _containers.RepeatedCompositeFieldContainer[LimitCheck]
    def __init__(self, isolation: _Optional[_Union[_environment_pb2.IsolationLevel, str]] = ..., runtime: _Optional[str] = ..., live_sandboxes: _Optional[int] = ..., live_workers: _Optional[int] = ..., waiting: _Optional[int] = ..., quarantined: _Optional[_Iterable[_Union[QuarantinedEnvironment, _Mapping]]] = ..., limits: _Optional[_Iterable[_Union[LimitCheck, _Mapping]]] = ...) -> None: ...

class QuarantinedEnvironment(_message.Message):
    __slots__ = ("digest", "kind", "message")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    digest: str
    kind: str
    message: str
    def __init__(self, digest: _Optional[str] = ..., kind: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class LimitCheck(_message.Message):
    __slots__ = ("name", "held")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    name: str
    held: bool
    def __init__(self, name: _Optional[str] = ..., held: _Optional[bool] = ...) -> None: ...
