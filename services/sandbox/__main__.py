"""Run the sandbox service: ``python -m spade_rl.sandbox``."""

import sys

from spade_rl.sandbox.server import serve
from spade_rl.serving import run_service

if __name__ == "__main__":
    sys.exit(run_service("sandbox", serve))
