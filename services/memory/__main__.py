"""``python -m spade_rl.memory``: the memory service as a process."""

import sys

from spade_rl.memory.server import serve
from spade_rl.serving import run_service

if __name__ == "__main__":
    sys.exit(run_service("memory", serve))
