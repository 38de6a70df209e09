"""``python -m spade_rl.coordinator.probe``: ask the coordinator how its runs go, as a client with a certificate does.

Exit status 0 if it answers and its newest run has not failed; what it said goes to standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from spade_rl.config import RunConfig
from spade_rl.config_files import load_config
from spade_rl.errors import ConfigurationError, SpadeError
from spade_rl.rpc import calling, open_channel
from spade_rl.v1 import coordinator_pb2, coordinator_pb2_grpc

SECONDS = 60.0


async def ask(config: RunConfig) -> coordinator_pb2.ListRunsResponse:
    """Return what the coordinator says of its runs."""
    target = config.endpoints.coordinator
    if target is None:
        raise ConfigurationError("endpoints.coordinator is not set")
    async with open_channel(target, config.tls) as channel, calling("coordinator"):
        stub = coordinator_pb2_grpc.CoordinatorServiceStub(channel)
        return await stub.ListRuns(coordinator_pb2.ListRunsRequest(), timeout=SECONDS)


def main() -> int:
    """Ask, print, return the exit status."""
    parser = argparse.ArgumentParser(description="Ask the coordinator how its runs go.")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--preset", help="what the configuration builds on")
    arguments = parser.parse_args()
    try:
        answer = asyncio.run(ask(load_config(preset=arguments.preset, file=arguments.config)))
    except SpadeError as error:
        print(f"{error.boundary}: {error}", file=sys.stderr)
        return error.exit_code
    for run in answer.runs:
        state = coordinator_pb2.RunState.Name(run.state).removeprefix("RUN_STATE_").lower()
        print(f"{run.run_id}: {state}, cycle {run.cycle} of {run.cycles}, policy version {run.policy_version}")
        if run.error:
            print(run.error)
    return 1 if answer.runs and answer.runs[-1].state == coordinator_pb2.RUN_STATE_FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
