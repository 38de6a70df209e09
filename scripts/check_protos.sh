#!/usr/bin/env bash
# Check the wire format, or take a changed one over.
#
#   scripts/check_protos.sh         stubs current, formatted, linted, compatible with the baseline
#   scripts/check_protos.sh accept  write stubs and format; extend the baseline by what is new, if nothing old broke
#
# protos/baseline.binpb is the wire as last accepted: what some peer, archive or checkpoint may already speak. It is a
# file, and not a commit looked up in the history, so that a shallow clone and a source archive check the same thing.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin
baseline=protos/baseline.binpb
image=build/wire.binpb
mkdir -p build

if [ "${1:-}" = accept ]; then
  "$bin/buf" format -w --path protos/spade_rl .
  "$bin/python" protos/generate.py
else
  "$bin/python" protos/generate.py --check
  "$bin/buf" format --diff --exit-code --path protos/spade_rl .
fi
"$bin/python" protos/generate.py --image $image
"$bin/buf" lint $image
if [ -e $baseline ] || [ "${1:-}" != accept ]; then
  "$bin/buf" breaking $image --against $baseline || {
    echo "The wire no longer fits what was accepted before ($baseline): messages already written or sent could not be" >&2
    echo "read. Add fields instead of changing them. To break it knowingly, delete the baseline and run \`make protos\`." >&2
    exit 1
  }
fi
if [ "${1:-}" = accept ]; then
  "$bin/buf" build $image --exclude-source-info -o $baseline
fi
