#!/usr/bin/env bash
# Type-check the sources as the packages that they are installed as; arguments are modules (default: all).
#
# services/NAME is installed as spade_rl.NAME and pkg/spade_rl as spade_rl. mypy does not read that mapping from the
# build's configuration, so it is shown a tree of links that has the installed shape.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=build/types/spade_rl
mkdir -p build
rm -rf build/types
mkdir -p $tree
for part in pkg/spade_rl/* services/*; do
  case $part in
    *__pycache__) ;;
    *) ln -s "../../../$part" $tree/ ;;
  esac
done
export MYPYPATH=build/types
if [ $# -gt 0 ]; then
  exec .venv/bin/mypy "${@/#/-p=}"
fi
.venv/bin/mypy -p spade_rl
.venv/bin/mypy scripts/*.py protos/generate.py
