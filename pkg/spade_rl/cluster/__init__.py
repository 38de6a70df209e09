"""Runs from outside: a release on a Kubernetes cluster, or a coordinator anywhere, as the command line talks to it."""
