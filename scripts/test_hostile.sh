#!/usr/bin/env bash
# The hostile suite on both of gVisor's platforms; as root also as an ordinary user, who has no cgroups, and with a
# service that itself runs under gVisor, as in a pod.
#
#   scripts/test_hostile.sh [ARGUMENTS OF PYTEST...]
#
# SPADE_TEST_PLATFORM=systrap or ptrace leaves out the other, SPADE_TEST_USER names some of self, ordinary and pod. With
# SPADE_TEST_SANDBOX=ADDRESS, a service that runs already is tested instead, once.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
status=0
platforms=${SPADE_TEST_PLATFORM:-systrap ptrace}
users=${SPADE_TEST_USER:-self ordinary pod}

attempt() {
  printf '\n== hostile suite: %s\n' "$1" >&2
  shift
  "$@" || status=1
}

if [ -n "${SPADE_TEST_SANDBOX:-}" ]; then
  exec .venv/bin/pytest tests/hostile "$@"
fi
if [[ $users == *self* ]]; then
  for platform in $platforms; do
    attempt "$platform, $(id -un)" env SPADE_TEST_PLATFORM="$platform" .venv/bin/pytest tests/hostile "$@"
  done
fi

if [[ $users == *ordinary* && $(id -u) = 0 ]]; then
  for platform in $platforms; do
    attempt "$platform, an ordinary user" env SPADE_TEST_PLATFORM="$platform" \
      .venv/bin/python scripts/ordinary_user.py pytest -p no:cacheprovider tests/hostile "$@"
  done
fi

if [[ $users == *pod* && $(id -u) = 0 ]]; then
  in_pod() {
    local platform=$1 folder pod result=0
    shift
    folder=$(mktemp -d /tmp/spade-pod-XXXXXX)
    chmod 777 "$folder"
    cp tests/hostile/service.yaml "$folder"
    .venv/bin/python scripts/gvisor_pod.py --platform "$platform" "$folder" "$PWD/.venv/bin/python" -m spade_rl.sandbox \
      --config "$folder/service.yaml" --run-dir "$folder" --address "unix:$folder/s" --log-level WARNING &
    pod=$!
    SPADE_TEST_SANDBOX="unix:$folder/s" .venv/bin/pytest tests/hostile "$@" || result=1
    # It drains, and ends well.
    kill -TERM $pod
    wait $pod || result=1
    rm -rf "$folder"
    return $result
  }
  for platform in $platforms; do
    attempt "$platform, in a pod" in_pod "$platform" "$@"
  done
fi
exit $status
