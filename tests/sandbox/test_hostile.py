"""What hostile code tries in a sandbox, and what comes of it."""

from __future__ import annotations

import asyncio
import json

import pytest

from spade_rl.config import SandboxSection
from spade_rl.sandbox.episode import open_episode
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin
from spade_rl.sandbox.pool import Pool
from spade_rl.sandbox.server import open_pool

pytestmark = pytest.mark.asyncio(loop_scope="module")

HONEST = """
class Env:
    def reset(self, seed):
        return "hello", {}
    def step(self, action):
        return "you said " + action, 1.0, True, False, {}
"""


def attack(body: str) -> str:
    """A program whose step runs ``body``, which may set ``found``."""
    lines = "\n".join("        " + line for line in body.strip("\n").splitlines())
    return f"""
class Env:
    def reset(self, seed):
        return "ready", {{}}
    def step(self, action):
        import json, os, sys, time
        found = None
{lines}
        return json.dumps(found), 0.0, False, False, {{}}
"""


async def play(pool: Pool, source: str) -> object:
    """Play one step and return what the attack found."""
    async with open_episode(pool, source) as episode:
        await episode.reset(1)
        (step,) = await episode.step(["go"])
        return json.loads(step.observation)


async def broken(pool: Pool, source: str) -> EpisodeError:
    with pytest.raises(EpisodeError) as caught:
        await play(pool, source)
    return caught.value


async def lives(pool: Pool) -> None:
    """The service still runs honest environments."""
    async with open_episode(pool, HONEST) as episode:
        await episode.reset(1)
        (step,) = await episode.step(["x"])
        assert step.observation == "you said x"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("while True: pass", FaultKind.DEADLINE),
        ("time.sleep(3600)", FaultKind.DEADLINE),
        ("import re; re.match('(a+)+$', 'a' * 40 + 'b')", FaultKind.DEADLINE),
        (
            "signal = __import__('signal')\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass",
            FaultKind.DEADLINE,
        ),
        ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", FaultKind.DEADLINE),
        ("x = bytearray(1 << 36)", FaultKind.MEMORY),
        ("x = []\nwhile True: x.append(bytearray(1 << 26))", FaultKind.MEMORY),
        ("sys.exit(0)", FaultKind.EXCEPTION),
        ("raise KeyboardInterrupt", FaultKind.EXCEPTION),
        ("os._exit(3)", FaultKind.EXIT),
        ("os.abort()", FaultKind.EXIT),
        ("def f(): f()\nf()", FaultKind.EXCEPTION),
        ("os.closerange(0, 1000); time.sleep(3600)", FaultKind.EXIT),
        ("found = 'x' * 200_000", FaultKind.OBSERVATION),
        (
            "class T(str):\n    def __len__(self): return 1\nreturn T('x' * 10_000_000), 0.0, False, False, {}",
            FaultKind.OBSERVATION,
        ),
        ("return 'x', 0.0, False, False, {'deep': eval('[' * 60 + ']' * 60)}", FaultKind.INFO),
        ("return 'x', 0.0, False, False, {str(n): n for n in range(20_000)}", FaultKind.INFO),
        ("return 'x', float('nan'), True, False, {}", FaultKind.REWARD),
        ("return 'x', 10 ** 400, True, False, {}", FaultKind.REWARD),
        ("return 'x', 1.5, True, False, {}", FaultKind.REWARD),
        ("return 'x', 'win', True, False, {}", FaultKind.CONTRACT),
        ("return 'x', 1.0, None, False, {}", FaultKind.CONTRACT),
        ("return 7, 1.0, True, False, {}", FaultKind.CONTRACT),
        ("return (x for x in 'abcde')", FaultKind.CONTRACT),
    ],
)
async def test_the_environment_is_to_blame(pool: Pool, body: str, kind: FaultKind) -> None:
    error = await broken(pool, attack(body))
    assert (error.origin, error.kind) == (Origin.ENVIRONMENT, kind), error.message
    assert error.message
    await lives(pool)


async def test_forged_answers_end_the_worker(pool: Pool) -> None:
    body = """
for descriptor in range(3, 64):
    try:
        os.write(descriptor, b'\\0\\0\\0\\2\\0\\0\\0\\1\\0\\0\\0\\0\\0\\0\\0\\0{}')
    except OSError:
        pass
"""
    error = await broken(pool, attack(body))
    assert (error.origin, error.kind) == (Origin.ENVIRONMENT, FaultKind.PROTOCOL)


async def test_a_flood_is_read_no_further_than_one_frame(pool: Pool) -> None:
    body = """
for descriptor in range(3, 64):
    try:
        while True: os.write(descriptor, b'\\xff' * 65536)
    except OSError:
        pass
"""
    error = await broken(pool, attack(body))
    assert (error.origin, error.kind) == (Origin.ENVIRONMENT, FaultKind.PROTOCOL)
    await lives(pool)


async def test_noise_on_standard_output_is_dropped(pool: Pool) -> None:
    assert await play(pool, attack("print('x' * 1_000_000); sys.stderr.write('y' * 1_000_000); found = 1")) == 1


async def test_a_fork_bomb_is_bounded_and_gone(patient: Pool) -> None:
    body = """
found = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            os.setsid()
            time.sleep(3600)
        found += 1
except OSError:
    pass
"""
    source = attack(body)
    children = await play(patient, source)
    assert isinstance(children, int)
    assert 0 < children <= patient.limits.processes
    # Its children are gone: the next worker of the same sandbox may start as many.
    assert await play(patient, source) == children
    await lives(patient)


async def test_threads_are_bounded(patient: Pool) -> None:
    body = """
import threading
found = 0
try:
    for _ in range(500):
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
        found += 1
except (RuntimeError, MemoryError):
    pass
"""
    started = await play(patient, attack(body).replace("import threading", "threading = __import__('threading')"))
    assert isinstance(started, int)
    assert 0 < started < 500


async def test_nothing_of_another_worker_can_be_reached(gvisor: Pool) -> None:
    body = """
found = {}
mine = os.getpid()
others = [pid for pid in range(1, 64) if pid != mine]
self.secret = open('secret', 'w+')
def tried(name, act):
    for pid in others:
        try:
            act(pid)
        except (OSError, PermissionError):
            continue
        found.setdefault('done', []).append([name, pid])
tried('memory', lambda pid: open(f'/proc/{pid}/mem', 'rb').read(1))
tried('descriptors', lambda pid: os.listdir(f'/proc/{pid}/fd'))
tried('descriptor', lambda pid: open(f'/proc/{pid}/fd/4', 'rb').read(1))
tried('environment', lambda pid: open(f'/proc/{pid}/environ', 'rb').read(1))
tried('kill', lambda pid: os.kill(pid, 9))
tried('folder', lambda pid: os.listdir(f'/proc/{pid}/cwd'))
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def trace(pid):
    if libc.ptrace(16, pid, 0, 0): raise OSError
tried('trace', trace)
def refused(name, act):
    try:
        act()
    except OSError:
        return
    found.setdefault('done', []).append(name)
socket = __import__('socket')
def connect():
    socket.socket(socket.AF_UNIX).connect('/run/spade/host.sock')
refused('control socket', connect)
refused('processes', lambda: os.listdir('/spade/proc'))
refused('socket folder', lambda: os.listdir('/run/spade'))
refused('root', lambda: os.setuid(0))
refused('list of folders', lambda: os.listdir('/tmp'))
refused('write to the library', lambda: open('/opt/python/x', 'w'))
refused('write to the temporary root', lambda: open('/tmp/x', 'w'))
refused('mount', lambda: libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) and (_ for _ in ()).throw(OSError()))
"""
    source = attack(body).replace("import ctypes", "ctypes = __import__('ctypes')")
    async with open_episode(gvisor, source) as victim, open_episode(gvisor, source) as attacker:
        await victim.reset(1)
        await attacker.reset(1)
        (step,) = await attacker.step(["go"])
        found = json.loads(step.observation)
        assert "done" not in found
        (step,) = await victim.step(["go"])
        assert "done" not in json.loads(step.observation)


async def test_killing_everything_harms_nobody_else(gvisor: Pool) -> None:
    source = attack("""
found = 0
for pid in (-1, 0, *range(1, 64)):
    try:
        if pid == 0 or pid == os.getpid(): continue
        os.kill(pid, 9)
        found += 1
    except OSError:
        pass
""")
    async with open_episode(gvisor, source) as bystander:
        await bystander.reset(1)
        assert await play(gvisor, source) == 0
        (step,) = await bystander.step(["go"])
        assert step.observation == "0"


async def test_there_is_no_network_and_no_host(gvisor: Pool) -> None:
    body = """
found = []
socket = __import__('socket')
for family, kind, target in [(2, 1, ('1.1.1.1', 53)), (2, 2, ('8.8.8.8', 53)), (2, 1, ('127.0.0.1', 22))]:
    s = socket.socket(family, kind)
    s.settimeout(0.5)
    try:
        s.connect(target)
        s.send(b'x')
        found.append(str(target))
    except OSError:
        pass
try:
    socket.socket(2, 3, 1)
    found.append('raw socket')
except OSError:
    pass
found += [n for n in os.listdir('/') if n in ('home', 'root', 'usr', 'var', 'work')]
found += [k for k in os.environ if k not in (
    'PYTHONHASHSEED', 'PYTHONHOME', 'LD_LIBRARY_PATH', 'PATH', 'LANG', 'LC_CTYPE', 'TMPDIR', 'HOME',
    'OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS')]
"""
    assert await play(gvisor, attack(body)) == []


async def test_files_are_private_bounded_and_gone_with_the_episode(patient: Pool) -> None:
    body = """
found = os.path.exists('left')
open('left', 'w').write('behind')
written = 0
try:
    for n in range(64):
        with open(f'big{n}', 'wb') as f:
            for _ in range(16):
                written += f.write(b'x' * (1 << 20))
except OSError:
    pass
found = [found, written < 64 << 20]
"""
    source = attack(body)
    assert await play(patient, source) == [False, True]
    assert await play(patient, source) == [False, True]


async def test_the_memory_of_a_whole_sandbox_is_bounded(gvisor_section: SandboxSection) -> None:
    section = gvisor_section.model_copy(update={"sandbox_memory_mb": 128, "call_seconds": 20.0})
    source = attack("self.x = bytearray(b'x') * (40 << 20)")
    async with open_pool(section) as pool:

        async def one() -> None:
            async with open_episode(pool, source) as episode:
                await episode.reset(1)
                while True:  # Every worker stays below its own limit.
                    await episode.step(["go"])

        outcomes = await asyncio.gather(*(one() for _ in range(5)), return_exceptions=True)
        assert all(isinstance(outcome, EpisodeError) for outcome in outcomes), outcomes
        faults = [o for o in outcomes if isinstance(o, EpisodeError)]
        # An episode that was only starting when its sandbox was killed is not told why.
        assert {o.kind for o in faults} <= {FaultKind.MEMORY, FaultKind.SANDBOX}
        blamed = [o for o in faults if o.kind is FaultKind.MEMORY]
        assert blamed
        assert all(o.origin is Origin.ENVIRONMENT and "together" in o.message for o in blamed)
        await lives(pool)


async def test_no_state_goes_from_one_episode_to_the_next(pool: Pool) -> None:
    source = """
count = 0
class Env:
    total = 0
    def reset(self, seed):
        global count
        count += 1
        Env.total += 1
        import json
        json.leftover = getattr(json, "leftover", 0) + 1
        return f"{count} {Env.total} {json.leftover}", {}
    def step(self, action):
        return "", 0.0, True, False, {}
"""
    for _ in range(3):
        async with open_episode(pool, source) as episode:
            assert (await episode.reset(1)).observation == "1 1 1"


async def test_unseeded_randomness_differs_between_workers(pool: Pool) -> None:
    source = """
class Env:
    def reset(self, seed):
        return f"{random.random()} {np.random.random()}", {}
    def step(self, action):
        return "", 0.0, True, False, {}
"""
    seen = set()
    for _ in range(2):
        async with open_episode(pool, source) as episode:
            seen |= set((await episode.reset(1)).observation.split())
    assert len(seen) == 4
