"""What runs inside a sandbox: the zygote, and the workers that it forks. Standard library only.

    python guest/main.py SOCKET

The *zygote* is trusted. It connects to the host's socket, is told one environment's source, compiles it, imports
the allowed modules that the source needs, and forks a *worker* for every episode; it never runs the source. A worker
gets a connection of its own, gives up its rights (user, limits, descriptors, directory, in a pod also its namespaces)
and only then executes the source. After that it can no longer reach the socket, the zygote, or another worker.

Frames in both directions: a header (payload length, sequence number, nonce) and a JSON object. A worker answers
every operation of a script with one frame, or, for a long batch of steps, several. What a worker says is a claim:
the host checks all of it again.

Every fork copies what the zygote has touched, and gVisor copies in pieces of up to 2 MiB: what is imported here, and
what a worker does before the source runs, is kept to what is needed. That is why nothing here imports pathlib,
contextlib, json, signal or select.
"""
