"""Runs a Python module or script with this project's packages as an ordinary user, started by root.

    .venv/bin/python scripts/ordinary_user.py MODULE|FILE.py [ARGUMENTS...]

The user is ``nobody``, without capabilities and with a home of its own, which is gone afterwards. An interpreter that
lies in somebody's home cannot be run by others: then the system's of the same version runs, with the same packages.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER = "nobody"
PROBE_SECONDS = 30.0
# A copy in a virtual environment may run, and yet what it was made from be out of reach.
_PROBE = "import os, sys; sys.exit(not os.access(sys._base_executable, os.X_OK))"
_RUN = """
import runpy, site, sys
site.addsitedir(sys.argv[1])
sys.argv[:] = sys.argv[2:]
if sys.argv[0].endswith('.py'):
    runpy.run_path(sys.argv[0], run_name='__main__')
else:
    runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)
"""


class NoUser(Exception):
    """Nothing can be run as another user here; the message says why."""


@contextmanager
def ordinary_python() -> Iterator[tuple[list[str], dict[str, str]]]:
    """Give a command, to be followed by a module or script and its arguments, and its environment. Raises NoUser."""
    if os.geteuid() != 0:
        raise NoUser("only root may become another user")
    user = pwd.getpwnam(USER)
    with tempfile.TemporaryDirectory(prefix="spade-user-", ignore_cleanup_errors=True) as home:
        os.chown(home, user.pw_uid, user.pw_gid)
        environment = os.environ | {"HOME": home, "XDG_CACHE_HOME": home, "TMPDIR": home}
        environment.pop("XDG_RUNTIME_DIR", None)
        become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--inh-caps=-all"]
        become += ["--bounding-set=-all", "--no-new-privs"]
        yield [*become, _interpreter(become), "-S", "-c", _RUN, sysconfig.get_path("purelib")], environment


def _interpreter(become: list[str]) -> str:
    system = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, system):
        try:
            done = subprocess.run(
                [*become, python, "-S", "-c", _PROBE], capture_output=True, timeout=PROBE_SECONDS, check=False
            )
        except OSError as error:
            raise NoUser(f"cannot become another user: {error}") from error
        if done.returncode == 0:
            return python
    raise NoUser(f"no interpreter that an ordinary user can run: install {Path(system).name}")


def main() -> int:
    """Run from the command line; return the exit status of what ran."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    try:
        with ordinary_python() as (command, environment):
            process = subprocess.Popen([*command, *sys.argv[1:]], env=environment)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda sent, _frame: process.send_signal(sent))
            return process.wait()
    except NoUser as reason:
        print(reason, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
