"""What a peer without an environment server runs in its process: one environment, one message a line.

The first message is ``{"source", "seed"}`` and is answered with the first observation; every other one is a list of
actions and is answered with the list of results. Messages come as arguments, or, if there are none, on stdin.
It is given to an interpreter as text (``python -c``), so that nothing need be mounted.
"""

import json
import sys


def main() -> None:
    """Answer messages until there are no more."""
    messages = iter(sys.argv[1:] or sys.stdin)
    first = json.loads(next(messages))
    scope = {"__name__": "environment"}
    exec(compile(first["source"], "<environment>", "exec"), scope)
    environment = scope["Env"]()  # type: ignore[operator]
    print(json.dumps(environment.reset(first["seed"])[0]), flush=True)
    for message in messages:
        results = []
        for action in json.loads(message):
            results.append(environment.step(action))
            if results[-1][2] or results[-1][3]:
                break
        print(json.dumps(results), flush=True)


main()
