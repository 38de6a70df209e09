#!/usr/bin/env bash
# Write constraints.txt anew: the newest versions that pyproject.toml's bounds admit, resolved together in a virtual
# environment of their own. torch keeps its version unless a new one is named: scripts/lock.sh [TORCH]
set -euo pipefail
cd "$(dirname "$0")/.."

torch=${1:-$(sed -n 's/^torch==//p' constraints.txt)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3.11}" -m venv "$work/venv"
pip() { "$work/venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }

echo "torch==$torch" >"$work/torch.txt"
pip install --upgrade setuptools wheel
pip install -r "$work/torch.txt"
"$work/venv/bin/python" scripts/requirements.py dev | pip install -c "$work/torch.txt" -r /dev/stdin
{
  echo "# Every package that Spade is tested with, exactly. Written by \`make lock\`; do not edit."
  # A local version (torch's +cpu) says where a build came from: left out, each machine takes the build it is offered.
  pip freeze --all | grep -v '^pip==' | sed 's/+[a-z0-9.]*$//'
} >"$work/constraints.txt"
mv "$work/constraints.txt" constraints.txt
