"""``python -m spade_rl.agent``."""

import sys

from spade_rl.agent.server import serve
from spade_rl.serving import run_service

sys.exit(run_service("agent", serve))
