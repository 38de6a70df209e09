from spade_rl.v1 import validate_pb2 as _validate_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EnvironmentKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENVIRONMENT_KIND_UNSPECIFIED: _ClassVar[EnvironmentKind]
    ENVIRONMENT_KIND_GAME: _ClassVar[EnvironmentKind]
    ENVIRONMENT_KIND_TOOL_USE: _ClassVar[EnvironmentKind]

class IsolationLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ISOLATION_LEVEL_UNSPECIFIED: _ClassVar[IsolationLevel]
    ISOLATION_LEVEL_PROCESS: _ClassVar[IsolationLevel]
    ISOLATION_LEVEL_BUBBLEWRAP: _ClassVar[IsolationLevel]
    ISOLATION_LEVEL_GVISOR: _ClassVar[IsolationLevel]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_PASSED: _ClassVar[Verdict]
    VERDICT_FAILED: _ClassVar[Verdict]
    VERDICT_SKIPPED: _ClassVar[Verdict]
ENVIRONMENT_KIND_UNSPECIFIED: EnvironmentKind
ENVIRONMENT_KIND_GAME: EnvironmentKind
ENVIRONMENT_KIND_TOOL_USE: EnvironmentKind
ISOLATION_LEVEL_UNSPECIFIED: IsolationLevel
ISOLATION_LEVEL_PROCESS: IsolationLevel
ISOLATION_LEVEL_BUBBLEWRAP: IsolationLevel
ISOLATION_LEVEL_GVISOR: IsolationLevel
VERDICT_UNSPECIFIED: Verdict
VERDICT_PASSED: Verdict
VERDICT_FAILED: Verdict
VERDICT_SKIPPED: Verdict

class Document(_message.Message):
    __slots__ = ("id", "title", "text")
    ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    id: str
    title: str
    text: str
    def __init__(self, id: _Optional[str] = ..., title: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Provenance(_message.Message):
    __slots__ = ("run_id", "cycle", "document_id", "document_excerpt", "positive_seeds", "negative_seeds", "policy_version", "attempts")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_EXCERPT_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_SEEDS_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_SEEDS_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    cycle: int
    document_id: str
    document_excerpt: str
    positive_seeds: _containers.RepeatedScalarFieldContainer[str]
    negative_seeds: _containers.RepeatedScalarFieldContainer[str]
    policy_version: int
    attempts: int
    def __init__(self, run_id: _Optional[str] = ..., cycle: _Optional[int] = ..., document_id: _Optional[str] = ..., document_excerpt: _Optional[str] = ..., positive_seeds: _Optional[_Iterable[str]] = ..., negative_seeds: _Optional[_Iterable[str]] = ..., policy_version: _Optional[int] = ..., attempts: _Optional[int] = ...) -> None: ...

class Environment(_message.Message):
    __slots__ = ("digest", "source", "kind", "skill", "hint", "provenance")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SKILL_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    digest: str
    source: str
    kind: EnvironmentKind
    skill: str
    hint: str
    provenance: Provenance
    def __init__(self, digest: _Optional[str] = ..., source: _Optional[str] = ..., kind: _Optional[_Union[EnvironmentKind, str]] = ..., skill: _Optional[str] = ..., hint: _Optional[str] = ..., provenance: _Optional[_Union[Provenance, _Mapping]] = ...) -> None: ...

class GateVerdict(_message.Message):
    __slots__ = ("gate", "verdict", "message")
    GATE_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    gate: str
    verdict: Verdict
    message: str
    def __init__(self, gate: _Optional[str] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., message: _Optional[str] = ...) -> None: ...

class AdmissionReport(_message.Message):
    __slots__ = ("digest", "admitted", "verdicts", "isolation", "seconds", "solution", "observation")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    SOLUTION_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    digest: str
    admitted: bool
    verdicts: _containers.RepeatedCompositeFieldContainer[GateVerdict]
    isolation: IsolationLevel
    seconds: float
    solution: _containers.RepeatedScalarFieldContainer[str]
    observation: str
    def __init__(self, digest: _Optional[str] = ..., admitted: _Optional[bool] = ..., verdicts: _Optional[_Iterable[_Union[GateVerdict, _Mapping]]] = ..., isolation: _Optional[_Union[IsolationLevel, str]] = ..., seconds: _Optional[float] = ..., solution: _Optional[_Iterable[str]] = ..., observation: _Optional[str] = ...) -> None: ...

class EnvironmentStatistics(_message.Message):
    __slots__ = ("digest", "plain_plays", "hinted_plays", "win_rate", "hinted_win_rate", "regret", "regret_standard_error", "designer_reward", "void_episodes", "quarantined", "quarantine_reason", "closed")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PLAIN_PLAYS_FIELD_NUMBER: _ClassVar[int]
    HINTED_PLAYS_FIELD_NUMBER: _ClassVar[int]
    WIN_RATE_FIELD_NUMBER: _ClassVar[int]
    HINTED_WIN_RATE_FIELD_NUMBER: _ClassVar[int]
    REGRET_FIELD_NUMBER: _ClassVar[int]
    REGRET_STANDARD_ERROR_FIELD_NUMBER: _ClassVar[int]
    DESIGNER_REWARD_FIELD_NUMBER: _ClassVar[int]
    VOID_EPISODES_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_REASON_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    digest: str
    plain_plays: int
    hinted_plays: int
    win_rate: float
    hinted_win_rate: float
    regret: float
    regret_standard_error: float
    designer_reward: float
    void_episodes: int
    quarantined: bool
    quarantine_reason: str
    closed: bool
    def __init__(self, digest: _Optional[str] = ..., plain_plays: _Optional[int] = ..., hinted_plays: _Optional[int] = ..., win_rate: _Optional[float] = ..., hinted_win_rate: _Optional[float] = ..., regret: _Optional[float] = ..., regret_standard_error: _Optional[float] = ..., designer_reward: _Optional[float] = ..., void_episodes: _Optional[int] = ..., quarantined: _Optional[bool] = ..., quarantine_reason: _Optional[str] = ..., closed: _Optional[bool] = ...) -> None: ...
