"""``python -m spade_rl.learner``; under ``torchrun``, the first process serves and all others follow it."""

import os
import sys

from spade_rl.learner.follower import run_follower
from spade_rl.learner.server import serve
from spade_rl.serving import run_service

if __name__ == "__main__":
    sys.exit(run_follower() if int(os.environ.get("RANK", "0")) else run_service("learner", serve))
