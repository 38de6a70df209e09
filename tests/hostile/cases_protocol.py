"""Lies towards the host: forged frames, falsified results, the runner's own tools turned against it.

Code that shares a process with the runner can make it say anything. So the reward of an environment is a claim, and
what is asked here is that a claim stays within bounds, and that whatever no honest worker sends ends the worker.
"""

from __future__ import annotations

from case import CLAIM, Case, breaks, claims, contained, program

# Finds, from inside a step, the descriptor of the connection and what the host expects in the next answer.
_FIND = """
import stat
import struct
frame, seen = sys._getframe(), {}
while frame is not None:
    for name, value in [*frame.f_locals.items(), *frame.f_globals.items()]: seen.setdefault(name, value)
    frame = frame.f_back
def is_link(descriptor):
    try: return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError: return False
link = next(filter(is_link, range(3, 64)))
header = struct.Struct('!IIQ')
def say(payload, sequence=seen['sequence'], nonce=seen['nonce'], length=None):
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    os.write(link, header.pack(len(data) if length is None else length, sequence, nonce) + data)
won = ['forged', 1.0, True, False, '{}']
"""
# Finds the runner's own object around the environment.
_RUNNER = """
frame, runner = sys._getframe(), None
while frame is not None:
    for value in frame.f_locals.values():
        if type(value).__name__ == 'Environment' and type(value) is not type(self): runner = value
    frame = frame.f_back
"""


def _forged(name: str, body: str, ends: str) -> Case:
    """A frame with the right sequence number and nonce, after which the worker does nothing any more."""
    source = program(f"{_FIND}\n{body}\ntime.sleep(3600)")
    return Case(name, source, ends=frozenset(ends.split()), batches=(("go",), ("on",)))


CASES: tuple[Case, ...] = (
    breaks(
        "a frame on every descriptor",
        """
        for descriptor in range(3, 64):
            try: os.write(descriptor, b'\\0\\0\\0\\2\\0\\0\\0\\1\\0\\0\\0\\0\\0\\0\\0\\0{}')
            except OSError: pass
        """,
        "protocol",
        gate="step",
        says="protocol",
    ),
    breaks(
        "a flood on every descriptor",
        """
        for descriptor in range(3, 64):
            try:
                while True: os.write(descriptor, b'\\xff' * 65536)
            except OSError: pass
        """,
        "protocol",
    ),
    breaks(
        "text on every descriptor",
        """
        for descriptor in range(3, 64):
            try: os.write(descriptor, b'HTTP/1.1 200 OK\\r\\n\\r\\n')
            except OSError: pass
        """,
        "protocol",
    ),
    breaks(
        "signals written to the connection",
        f"""
        import signal
        {_FIND.replace(chr(10), chr(10) + "        ")}
        os.set_blocking(link, False)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.set_wakeup_fd(link)
        for _ in range(64): os.kill(os.getpid(), signal.SIGUSR1)
        os.set_blocking(link, True)
        time.sleep(3600)
        """,
        "protocol deadline",
    ),
    _forged("the wrong nonce", "say({'results': [won]}, nonce=7)", "protocol"),
    _forged("the wrong sequence number", "say({'results': [won]}, sequence=0)", "protocol"),
    _forged(
        "the answer twice", "say({'results': [['a', 0.0, False, False, '{}']]})\nsay({'results': [won]})", "protocol"
    ),
    _forged("more results than actions", "say({'results': [won, won]})", "protocol"),
    _forged("no results", "say({'results': []})", "protocol"),
    _forged("an empty part", "say({'results': [], 'more': True})", "protocol"),
    _forged("an endless row of parts", "while True: say({'results': [won], 'more': True})", "protocol"),
    _forged("a fault that only the host finds", "say({'fault': 'sandbox', 'message': 'not mine'})", "protocol"),
    _forged("a fault that nobody knows", "say({'fault': 'bad luck', 'message': ''})", "protocol"),
    _forged("a fault with a long story", "say({'fault': 'exception', 'message': 'x' * 100_000})", "protocol"),
    _forged("a fault of its own", "say({'fault': 'exception', 'message': 'as it pleases'})", "exception"),
    _forged("the answer to another question", "say({'observation': 'x', 'info': '{}'})", "protocol"),
    _forged("a list instead of an object", "say([1, 2, 3])", "protocol"),
    _forged("no JSON", "say(b'{\"results\":')", "protocol"),
    _forged("no text", "say(b'\\xff\\xfe{}')", "protocol"),
    _forged("nesting without end", "say(b'[' * 500_000)", "protocol"),
    _forged("a number of many digits", "say(b'{\"results\": ' + b'9' * 500_000 + b'}')", "protocol"),
    _forged("a frame of four gigabytes", "say({}, length=0xffffffff)", "protocol"),
    _forged("half a frame", "say(b'{', length=100)", "deadline"),
    _forged(
        "a frame drop by drop",
        "say(b'{', length=100000)\nwhile True: time.sleep(0.05); os.write(link, b' ')",
        "deadline",
    ),
    _forged("a reward that is a whole number", "say({'results': [['', 1, True, False, '{}']]})", "protocol"),
    _forged("a reward that is text", "say({'results': [['', '1.0', True, False, '{}']]})", "protocol"),
    _forged("a reward that is no number", 'say(b\'{"results": [["", NaN, true, false, "{}"]]}\')', "reward protocol"),
    _forged("an infinite reward", 'say(b\'{"results": [["", 1e999, true, false, "{}"]]}\')', "reward protocol"),
    _forged("a high reward", "say({'results': [['', 1e9, True, False, '{}']]})", "reward"),
    _forged("an end that is a number", "say({'results': [['', 1.0, 1, 0, '{}']]})", "protocol"),
    _forged("a long observation", "say({'results': [['x' * 70_000, 0.0, False, False, '{}']]})", "observation"),
    _forged("an info that is a list", "say({'results': [['', 0.0, False, False, '[]']]})", "protocol"),
    _forged("an info that does not end", "say({'results': [['', 0.0, False, False, '{' * 1000]]})", "protocol"),
    _forged(
        "an info that is too long",
        "say({'results': [['', 0.0, False, False, json.dumps({'a': 'x' * 70_000})]]})",
        "info",
    ),
    # The claim itself cannot be told from an honest one; the next message finds the worker asleep.
    Case(
        "a win as a claim",
        program(f"{_FIND}\nsay({{'results': [won]}})\ntime.sleep(3600)"),
        finds="forged",
        batches=(("go",),),
    ),
    breaks(
        "a descriptor handed over",
        f"""
        import socket
        {_FIND.replace(chr(10), chr(10) + "        ")}
        s = socket.socket(fileno=os.dup(link))
        null = os.open('/dev/null', os.O_RDONLY)
        s.sendmsg([b'\\xff' * 64], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, null.to_bytes(4, 'little'))])
        time.sleep(3600)
        """,
        "protocol deadline exception",
    ),
    # --- the connection taken away ------------------------------------------------------------------------------
    breaks(
        "every descriptor closed", "os.closerange(0, 1000); time.sleep(3600)", "exit", gate="step", says="connection"
    ),
    breaks(
        "nothing in place of every descriptor",
        "n = os.open('/dev/null', os.O_RDWR)\nfor d in range(3, 64): d == n or os.dup2(n, d)",
        "exit",
    ),
    breaks(
        "the connection copied, then closed",
        f"""
        {_FIND.replace(chr(10), chr(10) + "        ")}
        copy = os.dup(link)
        os.close(link)
        """,
        "exit exception deadline protocol",
    ),
    breaks(
        "half of the connection shut",
        f"""
        import socket
        {_FIND.replace(chr(10), chr(10) + "        ")}
        socket.socket(fileno=os.dup(link)).shutdown(socket.SHUT_WR)
        """,
        "exit exception deadline",
    ),
    # --- the runner falsified -----------------------------------------------------------------------------------
    claims(
        "json that always says won",
        """
        forged = '{"results": [["forged", 1.0, true, false, "{}"]]}'
        json.dumps = lambda *_, **__: forged
        json.JSONEncoder.encode = lambda *_, **__: forged
        """,
    ),
    claims("json that says what no honest worker says", "json.dumps = lambda *_, **__: '{\"results\": [[[[[1]]]]]}'"),
    claims("json that gives bytes", "json.dumps = lambda *_, **__: b'x'"),
    claims("json that raises", "json.dumps = lambda *_, **__: 1 / 0"),
    claims(
        "json that reads what was never sent",
        "json.loads = lambda *_, **__: {'operations': [['load']] * 99, 'go_on': True}",
    ),
    claims(
        "headers of another format",
        f"{_FIND}\nfor module in list(sys.modules.values()):\n    if hasattr(module, 'HEADER'): module.HEADER = struct.Struct('<QQQ')",
    ),
    claims(
        "builtins that agree to everything",
        """
        import builtins
        builtins.isinstance = lambda *_: True
        builtins.len = lambda *_: 2
        builtins.float = builtins.bool = builtins.str = lambda *_: 'x'
        """,
    ),
    claims("builtins that are gone", "import builtins\nfor name in list(vars(builtins)): delattr(builtins, name)"),
    claims("modules that are gone", "for name in list(sys.modules): del sys.modules[name]"),
    claims("traces that raise", "def trace(*_): raise ValueError\nsys.setprofile(trace)"),
    claims("an audit that forbids everything", "def audit(*_): raise ValueError\nsys.addaudithook(audit)"),
    Case(
        "a runner that always pays",
        program(f"{_RUNNER}\ntype(runner).step = lambda self, action: ('paid', 1.0, True, False, '{{}}')"),
        # The first step of a process is honest; every later action wins.
        gates=frozenset({"trivial", "determinism", "solution", "replay"}),
        ends=frozenset({CLAIM}),
        batches=(("go",), ("on",)),
    ),
    Case(
        "a runner without limits",
        program(
            f"{_RUNNER}\nfor name in vars(runner):\n    if 'limit' in name: setattr(runner, name, 1 << 60)\nreturn 'x' * 1_000_000, 0.0, False, False, {{}}"
        ),
        ends=frozenset({"observation"}),
    ),
    Case(
        "an exception that is the runner's own",
        program(f"{_FIND}\nraise seen['Fault']('capacity', 'please try again')"),
        ends=frozenset({"protocol"}),
    ),
    breaks(
        "an exception of a class without a name",
        """
        class Meta(type):
            def __getattribute__(cls, name): raise ValueError(name)
        class Nameless(Exception, metaclass=Meta): pass
        raise Nameless
        """,
        "exit exception",
    ),
    breaks(
        "an exception whose text cannot be made",
        """
        class Mute(Exception):
            def __str__(self): raise ValueError
        raise Mute
        """,
        "exception",
        gate="step",
        says="cannot be read",
    ),
    breaks("an exception with a long text", "raise ValueError('x' * 10_000_000)", "exception"),
    breaks("an exception with surrogates", "raise ValueError('\\udc97')", "exception"),
    breaks(
        "an exception whose text is not what it seems",
        """
        class Text(str):
            def __getitem__(self, key): return 'x' * 100_000
        class Liar(Exception):
            def __str__(self): return Text('short')
        raise Liar
        """,
        "exception protocol",
    ),
    breaks(
        "a chain of exceptions that is a ring",
        "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a",
        "exception",
    ),
    breaks(
        "a group of exceptions", "raise BaseExceptionGroup('many', [SystemExit(), KeyboardInterrupt()])", "exception"
    ),
    contained("objects of the runner counted", "import gc\ngc.collect()\nfound = []"),
)
