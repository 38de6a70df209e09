"""Protobuf to and from the learner's own types."""

from __future__ import annotations

import numpy as np

from spade_rl.learner.learner import Update
from spade_rl.learner.samples import Role, Sample
from spade_rl.v1 import learner_pb2

_ROLES = {learner_pb2.ROLE_AGENT: Role.AGENT, learner_pb2.ROLE_DESIGNER: Role.DESIGNER}


def to_sample(message: learner_pb2.Sample) -> Sample:
    """Return a sample; context tokens get the log-probability NaN, so that a use of them cannot go unseen."""
    segments = message.sequence.segments
    return Sample(
        role=_ROLES[message.role],
        group=message.group,
        unit=message.unit,
        reward=message.reward,
        token_ids=np.concatenate([np.asarray(s.token_ids, dtype=np.int64) for s in segments]),
        trained=np.concatenate([np.full(len(s.token_ids), s.trained, dtype=np.bool_) for s in segments]),
        log_probs=np.concatenate(
            [np.asarray(s.log_probs if s.sampled else [np.nan] * len(s.token_ids), dtype=np.float32) for s in segments]
        ),
        policy_version=min((s.policy_version for s in segments if s.trained), default=0),
    )


def to_response(update: Update) -> learner_pb2.TrainResponse:
    """Return the answer to an update."""
    return learner_pb2.TrainResponse(policy_version=update.policy_version, uri=update.uri, metrics=dict(update.metrics))
