"""``python -m spade_rl.regret``."""

import sys

from spade_rl.regret.server import serve
from spade_rl.serving import run_service

sys.exit(run_service("regret", serve))
