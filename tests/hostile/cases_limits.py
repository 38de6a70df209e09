"""Time, memory, processes, files, descriptors, output: each used up in more than one way."""

from __future__ import annotations

from case import Case, breaks, claims, contained, program

CASES: tuple[Case, ...] = (
    # --- time ---------------------------------------------------------------------------------------------------
    breaks("an endless loop", "while True: pass", "deadline", gate="step", says="endless loop"),
    breaks("a long sleep", "time.sleep(3600)", "deadline", gate="step", says="did not return"),
    breaks(
        "a catastrophic regular expression", "import re; re.match('(a+)+$', 'a' * 40 + 'b')", "deadline", gate="step"
    ),
    breaks("a power without end", "10 ** 10 ** 8", "deadline memory"),
    breaks("a sum over a huge range", "sum(range(10 ** 12))", "deadline"),
    breaks(
        "signals ignored and blocked",
        """
        import signal
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        while True: pass
        """,
        "deadline",
    ),
    breaks(
        "every exception swallowed",
        """
        while True:
            try:
                while True: pass
            except BaseException: pass
        """,
        "deadline",
    ),
    breaks(
        "a finaliser that loops",
        """
        class Loop:
            def __del__(self):
                while True: pass
        x = Loop()
        del x
        """,
        "deadline",
    ),
    breaks(
        "a callback of the garbage collector that loops",
        """
        import gc
        def loop(phase, info):
            while True: pass
        gc.callbacks.append(loop)
        gc.collect()
        """,
        "deadline",
    ),
    breaks("a process that stops itself", "import signal; os.kill(os.getpid(), signal.SIGSTOP)", "deadline"),
    breaks(
        "an exception whose text never ends",
        """
        class Slow(Exception):
            def __str__(self):
                while True: pass
        raise Slow
        """,
        "deadline",
    ),
    breaks(
        "a reward that takes forever to become a number",
        """
        class Slow(float):
            def __float__(self):
                while True: pass
        return '', Slow(1), True, False, {}
        """,
        "deadline",
    ),
    breaks(
        "an info whose items never end",
        """
        class Endless(dict):
            def items(self):
                while True: yield 'a', 1
        return '', 0.0, True, False, Endless(a=1)
        """,
        "info deadline memory",
    ),
    breaks(
        "a thread that never lets go",
        """
        import threading
        def spin():
            while True: pass
        sys.setswitchinterval(1000)
        threading.Thread(target=spin).start()
        time.sleep(0.01)
        """,
        "deadline",
    ),
    claims(
        "threads left running",
        """
        import threading
        def spin():
            while True: pass
        for _ in range(3):
            threading.Thread(target=spin, daemon=False).start()
        """,
    ),
    breaks("an alarm", "import signal; signal.alarm(1); time.sleep(3600)", "exit deadline"),
    breaks(
        "a timer whose handler raises wherever it can",
        """
        import signal
        def handler(*_): raise RuntimeError('alarm')
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        time.sleep(1)
        """,
        "exception exit protocol",
    ),
    # --- memory -------------------------------------------------------------------------------------------------
    breaks("one huge allocation", "x = bytearray(1 << 36)", "memory", gate="step"),
    breaks("many allocations", "x = []\nwhile True: x.append(bytearray(1 << 26))", "memory"),
    breaks("a text multiplied", "x = 'x' * (1 << 40)", "memory"),
    breaks("a shift without bounds", "x = 1 << (1 << 40)", "memory exception"),
    breaks(
        "a decompression bomb",
        """
        import zlib
        packer = zlib.compressobj(9, wbits=-15)
        chunk = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
        zlib.decompressobj(wbits=-15).decompress(chunk * 4096)
        """,
        "memory deadline",
    ),
    breaks("recursion", "def f(): f()\nf()", "exception", gate="step", says="RecursionError"),
    breaks(
        "recursion with its limit taken away",
        "sys.setrecursionlimit(1 << 30)\ndef f(): return [f()]\nf()",
        "memory exit exception deadline",
    ),
    breaks(
        "recursion in C with its limit taken away",
        "sys.setrecursionlimit(1 << 30)\nx = []\nfor _ in range(10 ** 6): x = [x]\nrepr(x)",
        "memory exit exception deadline",
    ),
    contained(
        "mapped memory",
        """
        import mmap
        found, maps = [], []
        try:
            mmap.mmap(-1, 1 << 40)
            found.append('a terabyte')
        except (OSError, MemoryError): pass
        try:
            for _ in range(64): maps.append(mmap.mmap(-1, 16 << 20))
            found.append('a gigabyte')
        except (OSError, MemoryError): pass
        """,
    ),
    Case(
        "memory in files without names",
        program("""
            self.kept = []
            while len(self.kept) < 48:
                self.kept.append(os.memfd_create('m'))
                os.write(self.kept[-1], b'x' * (15 << 20))
            time.sleep(3600)
            """),
        ends=frozenset({"memory", "exception", "deadline"}),
        strong=True,
    ),
    Case(
        "memory in the buffers of sockets",
        program("""
            import socket
            if os.fork() == 0:
                pairs = []
                try:
                    while True:
                        pairs.append(socket.socketpair())
                        pairs[-1][0].setblocking(False)
                        pairs[-1][0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
                        try:
                            while True: pairs[-1][0].send(b'x' * 65536)
                        except BlockingIOError: pass
                except OSError: pass
                time.sleep(3600)
            time.sleep(0.3)
            """),
        # In a pod a worker may not fork.
        ends=frozenset({"memory", "processes"}),
        batches=(("go",),) * 32,
        strong=True,
    ),
    # --- processes ----------------------------------------------------------------------------------------------
    breaks(
        "a fork bomb",
        """
        while True:
            try: os.fork()
            except OSError: pass
        """,
        "deadline",
        strong=True,
    ),
    contained(
        "children that leave the session",
        """
        found = 0
        try:
            for _ in range(200):
                if os.fork() == 0:
                    os.setsid()
                    time.sleep(3600)
                found += 1
        except OSError: pass
        found = [] if found < 64 else found
        """,
        # The second episode may start as many as the first: its children are gone.
        episodes=2,
    ),
    claims("two processes where one was", "os.fork()", strong=True),
    claims("the child plays on", "if os.fork(): os._exit(0)", strong=True),
    contained(
        "a thread bomb",
        """
        import threading
        started = 0
        try:
            for _ in range(500):
                threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
                started += 1
        except (RuntimeError, MemoryError): pass
        found = [] if 0 < started < 500 else started
        """,
    ),
    contained(
        "limits raised again",
        """
        import resource
        found = []
        for name in ('NPROC', 'AS', 'FSIZE', 'NOFILE', 'CORE'):
            which = getattr(resource, 'RLIMIT_' + name)
            try:
                resource.setrlimit(which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                found.append(name)
            except (OSError, ValueError): pass
        """,
    ),
    # --- the end of the process ---------------------------------------------------------------------------------
    breaks("sys.exit", "sys.exit(0)", "exception", gate="step", says="SystemExit"),
    breaks("an interrupt", "raise KeyboardInterrupt", "exception"),
    breaks("the end of a generator", "raise GeneratorExit", "exception"),
    breaks("os._exit", "os._exit(3)", "exit", gate="step", says="ended its process"),
    breaks("abort", "os.abort()", "exit"),
    breaks("a null pointer", "import ctypes; ctypes.string_at(0)", "exit", gate="step", says="ended by"),
    breaks(
        "handlers for the end that loop",
        """
        def loop():
            while True: pass
        __import__('atexit').register(loop)
        sys.exit()
        """,
        "exception",
    ),
    # --- files and descriptors ----------------------------------------------------------------------------------
    contained(
        "a full disk",
        """
        found, written = [], 0
        try:
            for n in range(256):
                with open(f'big{n}', 'wb') as f:
                    written += f.write(bytes(1 << 20))
            found.append(written)
        except OSError: pass
        """,
        episodes=2,
    ),
    contained(
        "a file with a hole",
        """
        found = []
        try:
            with open('sparse', 'wb') as f: f.truncate(1 << 40)
            found.append('a terabyte')
        except OSError: pass
        """,
    ),
    contained(
        "many files, deep folders, folders that nobody may enter",
        """
        found = [os.path.exists('f0'), os.path.exists('d')]
        for n in range(2000): open(f'f{n}', 'w').close()
        path = 'd'
        for _ in range(300):
            try: os.mkdir(path)
            except OSError: break
            path += '/d'
        os.mkdir('shut'); open('shut/x', 'w').close(); os.chmod('shut', 0)
        os.symlink('/', 'root'); os.symlink('/opt/python', 'python'); os.symlink('loop', 'loop')
        """,
        "[false, false]",
        episodes=2,
    ),
    contained(
        "all descriptors",
        """
        opened = []
        try:
            while len(opened) < 5000: opened.append(os.open('/dev/null', os.O_RDONLY))
        except OSError: pass
        found = [] if len(opened) < 1000 else len(opened)
        for each in opened: os.close(each)
        """,
    ),
    contained("noise on standard output", "print('x' * 1_000_000); sys.stderr.write('y' * 1_000_000); found = []"),
    contained("standard streams closed", "sys.stdout.close(); sys.stderr.close(); os.closerange(0, 3); found = []"),
)
