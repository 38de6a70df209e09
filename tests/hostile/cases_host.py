"""Everything outside of a worker: the host, the network, other workers, the zygote, what the kernel offers."""

from __future__ import annotations

from dataclasses import replace

from case import Case, contained, program

# ``tried(name, act)`` notes what worked although it must not.
_TRIED = """
found = []
def tried(name, act):
    try: result = act()
    except (OSError, PermissionError, ValueError, AttributeError, OverflowError): return
    if result not in (-1, False, None): found.append(name)
"""
_C = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
{_TRIED}
"""


def _tries(name: str, body: str, *, c: bool = False, batches: tuple[tuple[str, ...], ...] = (("go",),)) -> Case:
    lines = (_C if c else _TRIED) + "\n" + body
    return Case(name, program(lines), finds="[]", batches=batches, watched=True, strong=True)


CASES: tuple[Case, ...] = (
    _tries(
        "files of the host",
        """
for path in ('/etc/shadow', '/etc/hostname', '/root', '/home', '/usr', '/var', '/work', '/dev/mem', '/dev/kmsg', '/dev/sda',
             '/boot', '/proc/1/root', '/proc/kcore', '/var/run/docker.sock', '/run/secrets'):
    tried(path, lambda: os.stat(path) and True)
""",
    ),
    _tries(
        "writing where nobody may",
        """
# In a pod /tmp is a worker's own.
for path in ('/x', '/opt/python/x', '/spade/x', '/tmp/x', '/run/x', '/run/spade/x', '/etc/x', '/dev/x', '/proc/x'):
    if os.path.dirname(path) == os.getcwd(): continue
    tried(path, lambda: open(path, 'w') and True)
""",
    ),
    _tries(
        "the folder of the socket",
        """
import socket
def connect():
    socket.socket(socket.AF_UNIX).connect('/run/spade/host.sock')
    return True
tried('connect', connect)
tried('list', lambda: bool(os.listdir('/run/spade')))
tried('unlink', lambda: os.unlink('/run/spade/host.sock') or True)
tried('rename', lambda: os.rename('/run/spade/host.sock', 'x') or True)
tried('link', lambda: os.link('/run/spade/host.sock', 'x') or True)
tried('chmod', lambda: os.chmod('/run/spade/host.sock', 0o777) or True)
def bind():
    socket.socket(socket.AF_UNIX).bind('/run/spade/mine.sock')
    return True
tried('bind', bind)
""",
    ),
    _tries(
        "/proc of everybody",
        """
for pid in [*range(1, 64), 'self', 'thread-self']:
    if pid in (os.getpid(), 'self', 'thread-self'): continue
    for name in ('mem', 'maps', 'environ', 'cmdline', 'status'):
        tried(f'{pid}/{name}', lambda: open(f'/proc/{pid}/{name}', 'rb').read(1) and True)
    for name in ('fd', 'cwd', 'root', 'task'):
        tried(f'{pid}/{name}', lambda: os.listdir(f'/proc/{pid}/{name}') or True)
tried('other processes', lambda: any(n.isdigit() for n in os.listdir('/proc')))
tried('folders of others', lambda: bool(os.listdir('/tmp')) or os.getcwd() != '/tmp')
""",
    ),
    _tries(
        "its own memory through /proc",
        """
tried('mem', lambda: open('/proc/self/mem', 'r+b', 0).read(1) and True)
tried('oom', lambda: open('/proc/self/oom_score_adj', 'w').write('-1000'))
tried('setgroups', lambda: open('/proc/self/setgroups', 'w').write('allow'))
tried('sysctl', lambda: open('/proc/sys/kernel/core_pattern', 'w').write('|x'))
""",
    ),
    _tries(
        "the environment's variables",
        """
known = {'PYTHONHASHSEED', 'PYTHONHOME', 'LD_LIBRARY_PATH', 'PATH', 'LANG', 'LC_CTYPE', 'TMPDIR', 'HOME',
         'OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'PYTHONPATH', 'LD_BIND_NOW'}
found = sorted(set(os.environ) - known)
""",
    ),
    # --- network ------------------------------------------------------------------------------------------------
    _tries(
        "connections",
        """
import socket
def reach(family, kind, target):
    s = socket.socket(family, kind)
    s.settimeout(0.2)
    s.connect(target)
    return s.send(b'x')
for target in (('1.1.1.1', 53), ('127.0.0.1', 22), ('169.254.169.254', 80), ('10.0.0.1', 443)):
    tried(f'tcp {target}', lambda: reach(socket.AF_INET, socket.SOCK_STREAM, target))
    if target[0] != '127.0.0.1': tried(f'udp {target}', lambda: reach(socket.AF_INET, socket.SOCK_DGRAM, target))
tried('tcp6', lambda: reach(socket.AF_INET6, socket.SOCK_STREAM, ('2606:4700:4700::1111', 53)))
tried('abstract', lambda: reach(socket.AF_UNIX, socket.SOCK_STREAM, '\\0/tmp/.X11-unix/X0'))
tried('docker', lambda: reach(socket.AF_UNIX, socket.SOCK_STREAM, '/var/run/docker.sock'))
tried('a name', lambda: socket.gethostbyname('example.com') and True)
""",
    ),
    _tries(
        "raw and strange sockets",
        """
import socket
for family, kind, number in ((2, 3, 1), (2, 3, 255), (10, 3, 58), (17, 3, 768), (17, 2, 0), (40, 1, 0), (38, 5, 0), (31, 3, 1)):
    tried(f'{family} {kind}', lambda: socket.socket(family, kind, number) and True)
tried('broadcast', lambda: socket.socket(2, 2).sendto(b'x', ('255.255.255.255', 9)))
""",
    ),
    # --- processes ----------------------------------------------------------------------------------------------
    _tries(
        "killing everything",
        """
for pid in (-1, *range(1, 64)):
    if pid == os.getpid(): continue
    tried(str(pid), lambda: os.kill(pid, 9) or True)
    tried(f'group {pid}', lambda: pid > 1 and os.killpg(pid, 9) or True)
found = [each for each in found if each != '-1' and not each.startswith('group') or each.startswith('group') and int(each[6:]) > 1]
""",
    ),
    _tries(
        "stopping the parent",
        """
import signal
# In a pod there is none, and 0 would stand for the process's own group.
parent = os.getppid()
for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGUSR1, signal.SIGSEGV):
    tried(str(number), lambda: parent and (os.kill(parent, number) or True))
tried('scheduler', lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)) or True)
tried('group', lambda: parent and (os.setpgid(0, parent) or True))
""",
    ),
    _tries(
        "tracing and reading other processes",
        """
others = [pid for pid in range(1, 64) if pid != os.getpid()]
for pid in others:
    tried(f'attach {pid}', lambda: libc.ptrace(16, pid, 0, 0) == 0)
    tried(f'seize {pid}', lambda: libc.ptrace(0x4206, pid, 0, 0) == 0)
    tried(f'pidfd {pid}', lambda: os.pidfd_open(pid) and libc.syscall(438, os.pidfd_open(pid), 3, 0) >= 0)
buffer = ctypes.create_string_buffer(16)
class Vec(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]
local = Vec(ctypes.addressof(buffer), 16)
remote = Vec(0x400000, 16)
for pid in others:
    tried(f'read {pid}', lambda: libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) > 0)
""",
        c=True,
    ),
    # --- rights -------------------------------------------------------------------------------------------------
    _tries(
        "another user",
        """
for user in (0, 1, 65534, 20000):
    if user == os.getuid(): continue
    tried(f'user {user}', lambda: os.setuid(user) or True)
    tried(f'group {user}', lambda: os.setgid(user) or True)
    tried(f'saved {user}', lambda: os.setresuid(-1, user, -1) or True)
tried('groups', lambda: os.setgroups([0]) or True)
tried('owner', lambda: os.chown('.', 0, 0) or True)
tried('capabilities', lambda: libc.prctl(47, 2, 21, 0, 0) == 0)
""",
        c=True,
    ),
    _tries(
        "mounts",
        """
none = b'none'
for target in (b'/tmp', b'/proc', b'/', b'/run/spade', b'.'):
    tried(f'mount {target}', lambda: libc.mount(none, target, b'tmpfs', 0, None) == 0)
    tried(f'bind {target}', lambda: libc.mount(b'/', target, None, 4096, None) == 0)
    tried(f'umount {target}', lambda: libc.umount2(target, 2) == 0)
tried('proc', lambda: libc.mount(b'proc', b'.', b'proc', 0, None) == 0)
tried('chroot', lambda: os.chroot('.') or True)
tried('pivot', lambda: libc.syscall(155, b'.', b'.') == 0)
tried('device', lambda: os.mknod('mem', 0o20666, os.makedev(1, 1)) or open('mem', 'rb').read(1))
tried('name', lambda: libc.sethostname(b'x', 1) == 0)
tried('reboot', lambda: libc.syscall(169, 0xfee1dead, 672274793, 0, None) == 0)
tried('clock', lambda: time.clock_settime(time.CLOCK_REALTIME, 0) or True)
tried('swap', lambda: libc.swapon(b'/tmp', 0) == 0)
""",
        c=True,
    ),
    _tries(
        "a user namespace as a way up",
        """
if libc.unshare(0x10000000 | 0x20000) == 0 or libc.unshare(0x10000000) == 0:
    try: open('/proc/self/uid_map', 'w').write(f'0 {os.getuid()} 1')
    except OSError: pass
    tried('processes', lambda: any(n.isdigit() for n in os.listdir('/proc')))
    tried('socket', lambda: os.listdir('/run/spade') or True)
    tried('folders', lambda: os.listdir('/tmp') or True)
    tried('parent', lambda: os.kill(os.getppid(), 0) or True)
    tried('unmount', lambda: libc.umount2(b'/proc', 2) == 0 and any(n.isdigit() for n in os.listdir('/proc')))
    tried('write', lambda: open('/opt/python/x', 'w') and True)
    tried('root', lambda: os.setuid(0) or os.listdir('/run/spade') or True)
""",
        c=True,
    ),
    _tries(
        "what kernels are attacked through",
        """
for name, number in (('bpf', 321), ('perf_event_open', 298), ('keyctl', 250), ('add_key', 248), ('userfaultfd', 323),
                     ('init_module', 175), ('finit_module', 313), ('kexec_load', 246), ('iopl', 172), ('ioperm', 173),
                     ('open_by_handle_at', 304), ('fanotify_init', 300), ('quotactl', 179), ('acct', 163),
                     ('lookup_dcookie', 212), ('fsopen', 430), ('open_tree', 428), ('move_mount', 429)):
    tried(name, lambda: libc.syscall(number, 1, 1, 1, 1, 1) >= 0)
""",
        c=True,
    ),
    _tries(
        "links out of the folder",
        """
os.symlink('/', 'root')
os.symlink('/run/spade/host.sock', 'sock')
tried('through a link', lambda: os.listdir('root/root') or True)
tried('hard link', lambda: os.link('/opt/python/bin/python', 'python') or True)
tried('hard link to the library', lambda: os.link(os.__file__, 'os.py') or True)
os.mkdir('sub')
tried('above', lambda: os.getcwd() != '/tmp' and (os.listdir('..') or True))
tried('sibling', lambda: [each for each in range(20000, 20100) if each != os.getuid() and os.path.exists(f'../{each}') and os.listdir(f'../{each}')] or None)
""",
    ),
    replace(
        _tries(
            "the runner's own files",
            """
os.symlink('/spade', 'spade')
tried('a link', lambda: os.listdir('spade') or True)
tried('the folder', lambda: os.listdir('/spade/guest') or True)
tried('a module', lambda: open('/spade/guest/zygote.py').read() and True)
""",
        ),
        own=True,
    ),
    contained(
        "programs of its own making",
        """
        found = []
        with open('run', 'wb') as f: f.write(b'#!/opt/python/bin/python\\nprint(1)')
        os.chmod('run', 0o6777)
        try:
            if os.spawnv(os.P_WAIT, './run', ['run']) == 0: found.append('run')
        except OSError: pass
        """,
    ),
    contained("a shell", "found = [] if os.system('true') != 0 else ['shell']"),
    contained(
        "modules of its own before those of the library",
        """
        open('random.py', 'w').write('raise ValueError')
        sys.path.insert(0, os.getcwd())
        sys.modules['environment_helper'] = sys
        found = []
        """,
        episodes=2,
    ),
    Case(
        "a daemon that outlives its episode",
        program("""
            found = [os.path.exists('/tmp/alive')]
            try:
                if os.fork() == 0:
                    os.setsid()
                    if os.fork() == 0:
                        while True: time.sleep(0.01)
                    os._exit(0)
                os.wait()
            except OSError: pass  # In a pod a worker is one process.
            """),
        finds="[false]",
        episodes=3,
        strong=True,
    ),
)
