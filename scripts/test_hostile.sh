#!/usr/bin/env bash
# The hostile suite on both of gVisor's platforms; as root also as an ordinary user, who has no cgroups.
#
#   scripts/test_hostile.sh [ARGUMENTS OF PYTEST...]
#
# SPADE_TEST_PLATFORM=systrap or ptrace leaves out the other, SPADE_TEST_USER=self or ordinary the other user. With
# SPADE_TEST_SANDBOX=HOST:PORT, a service that runs already is tested instead, once.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
status=0
platforms=${SPADE_TEST_PLATFORM:-systrap ptrace}
users=${SPADE_TEST_USER:-self ordinary}

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
  home=$(mktemp -d /tmp/spade-user-XXXXXX)
  trap 'rm -rf "$home"' EXIT
  chown nobody: "$home"
  as_user() {
    setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
      env HOME="$home" XDG_CACHE_HOME="$home" TMPDIR="$home" "$@"
  }
  # An interpreter that lies in somebody's home cannot be run by others: then the system's, with the same packages.
  python=.venv/bin/python
  if ! as_user $python -c '' 2>/dev/null; then
    python=$(.venv/bin/python -c 'import sys; print("/usr/bin/python%d.%d" % sys.version_info[:2])')
    if ! as_user "$python" -c ''; then
      echo "no interpreter that an ordinary user can run: install ${python##*/}, or run this as an ordinary user" >&2
      exit 1
    fi
  fi
  packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  run_pytest='import site, sys, runpy; site.addsitedir(sys.argv.pop(1)); runpy.run_module("pytest", run_name="__main__")'
  for platform in $platforms; do
    attempt "$platform, an ordinary user" as_user env SPADE_TEST_PLATFORM="$platform" \
      "$python" -S -c "$run_pytest" "$packages" -p no:cacheprovider tests/hostile "$@"
  done
fi
exit $status
