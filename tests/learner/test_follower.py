"""A process that follows answers probes for as long as it lives, though nobody calls it otherwise."""

from __future__ import annotations

import gc

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from spade_rl.learner.follower import answering_probes


def test_a_follower_answers_probes_until_it_ends():
    with answering_probes("127.0.0.1:0") as port:
        # What nobody holds is gone by then.
        gc.collect()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            for _ in range(3):
                assert stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status == 1
