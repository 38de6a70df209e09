"""``python -m spade_rl.designer``: the designer service as a process."""

import sys

from spade_rl.designer.server import serve
from spade_rl.serving import run_service

if __name__ == "__main__":
    sys.exit(run_service("designer", serve))
