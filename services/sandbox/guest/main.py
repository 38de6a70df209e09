"""The entry point: a script, so that starting it needs none of the modules that ``python -m`` loads."""

import sys

if __name__ == "__main__":
    # The package's parent is on the path only while it is imported: generated code must find nothing there.
    sys.path.insert(0, __file__.rsplit("/", 2)[0])
    run = __import__("guest.zygote", fromlist=["run"]).run
    del sys.path[0]
    run(*sys.argv[1:])
