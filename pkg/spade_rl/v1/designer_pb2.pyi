from spade_rl.v1 import validate_pb2 as _validate_pb2
from spade_rl.v1 import environment_pb2 as _environment_pb2
from spade_rl.v1 import trajectory_pb2 as _trajectory_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DesignRequest(_message.Message):
    __slots__ = ("run_id", "run_seed", "cycle", "skills", "grounding_cursor")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_SEED_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    SKILLS_FIELD_NUMBER: _ClassVar[int]
    GROUNDING_CURSOR_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    run_seed: int
    cycle: int
    skills: _containers.RepeatedScalarFieldContainer[str]
    grounding_cursor: str
    def __init__(self, run_id: _Optional[str] = ..., run_seed: _Optional[int] = ..., cycle: _Optional[int] = ..., skills: _Optional[_Iterable[str]] = ..., grounding_cursor: _Optional[str] = ...) -> None: ...

class DesignResponse(_message.Message):
    __slots__ = ("slot", "done")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    slot: DesignedSlot
    done: DesignDone
    def __init__(self, slot: _Optional[_Union[DesignedSlot, _Mapping]] = ..., done: _Optional[_Union[DesignDone, _Mapping]] = ...) -> None: ...

class DesignedSlot(_message.Message):
    __slots__ = ("slot", "attempts", "environment")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    slot: int
    attempts: _containers.RepeatedCompositeFieldContainer[DesignAttempt]
    environment: _environment_pb2.Environment
    def __init__(self, slot: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[DesignAttempt, _Mapping]]] = ..., environment: _Optional[_Union[_environment_pb2.Environment, _Mapping]] = ...) -> None: ...

class DesignDone(_message.Message):
    __slots__ = ("grounding_cursor",)
    GROUNDING_CURSOR_FIELD_NUMBER: _ClassVar[int]
    grounding_cursor: str
    def __init__(self, grounding_cursor: _Optional[str] = ...) -> None: ...

class DesignAttempt(_message.Message):
    __slots__ = ("id", "skill", "provenance", "source", "report", "normalised_digest", "sequence", "reply")
    ID_FIELD_NUMBER: _ClassVar[int]
    SKILL_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    NORMALISED_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    id: str
    skill: str
    provenance: _environment_pb2.Provenance
    source: str
    report: _environment_pb2.AdmissionReport
    normalised_digest: str
    sequence: _trajectory_pb2.Sequence
    reply: str
    def __init__(self, id: _Optional[str] = ..., skill: _Optional[str] = ..., provenance: _Optional[_Union[_environment_pb2.Provenance, _Mapping]] = ..., source: _Optional[str] = ..., report: _Optional[_Union[_environment_pb2.AdmissionReport, _Mapping]] = ..., normalised_digest: _Optional[str] = ..., sequence: _Optional[_Union[_trajectory_pb2.Sequence, _Mapping]] = ..., reply: _Optional[str] = ...) -> None: ...
