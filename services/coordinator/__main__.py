"""Serve the coordinator as a process of its own."""

import sys

from spade_rl.coordinator.server import serve
from spade_rl.serving import run_service

sys.exit(run_service("coordinator", serve))
