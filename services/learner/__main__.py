"""``python -m spade_rl.learner``; under ``torchrun``, all but the first process follow the first."""

import sys

from spade_rl.learner.server import serve
from spade_rl.serving import run_service

if __name__ == "__main__":
    sys.exit(run_service("learner", serve))
