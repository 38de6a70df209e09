#!/usr/bin/env bash
# Make the machine and `.venv` ready for Spade. Doing it again costs a second when nothing changed.
#
#   scripts/setup.sh [run|dev] [editable]
#
# run       what a run needs (the default)
# dev       and what the tests need
# editable  install the project so that the sources are used in place; remembered until `.venv` is removed
#
# System packages come from apt (as root, or with sudo): runsc, a compiler, Python's venv. Python packages are the ones
# that constraints.txt pins. What is installed is what is run and tested: without `editable`, the project is installed
# as any user would install it, again whenever a source changed.
set -euo pipefail
cd "$(dirname "$0")/.."

EXTRAS=all
for argument in "$@"; do
  case $argument in
    run) ;;
    dev) EXTRAS=dev ;;
    editable) EDITABLE=1 ;;
    *) echo "setup: unknown argument '$argument'; use run, dev or editable" >&2; exit 2 ;;
  esac
done
VENV=.venv

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# --- The machine ----------------------------------------------------------------------------------

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}

apt_updated=
apt_install() {
  command -v apt-get >/dev/null || return 1
  if [ -z "$apt_updated" ]; then
    say "reading the package lists"
    as_root apt-get update -qq || return 1
    apt_updated=1
  fi
  say "installing: $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

find_python() {
  for candidate in ${PYTHON:-python3.11 python3}; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# gVisor as the distribution packages it; where the release's own is older than its backports, from there.
install_runsc() {
  # shellcheck disable=SC1091
  . /etc/os-release
  if [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ]; then
    if ! apt-cache policy | grep -q "n=$VERSION_CODENAME-backports"; then
      local entry
      if entry=$("$PYTHON" scripts/apt_backports.py "$VERSION_CODENAME" /etc/apt); then
        say "adding $VERSION_CODENAME-backports for a current runsc (/etc/apt/sources.list.d/${entry%%$'\n'*})"
        printf '%s\n' "${entry#*$'\n'}" | as_root tee "/etc/apt/sources.list.d/${entry%%$'\n'*}" >/dev/null
        apt_updated=
      fi
    fi
    if apt_install -t "$VERSION_CODENAME-backports" runsc; then return 0; fi
    say "there is no runsc from backports; taking the release's own, which is older and slower"
  fi
  apt_install runsc
}

explain_runsc() {
  say "gVisor (runsc) is not installed, and this machine's package source has none."
  say "Spade runs the code that models write in gVisor, so \`spade train\` refuses to start without it."
  say "Follow the installation guide in gVisor's own documentation (section \"Installation\"; the binary alone is"
  say "enough, Docker is not needed), so that \`runsc --version\` answers, and run this command again."
  say "Going on: what does not run generated code works without it; \`spade doctor\` tells the state."
}

if ! PYTHON=$(find_python); then
  apt_install python3.11 python3.11-venv || die "Python 3.11 or newer is needed; install it, or name it: make setup PYTHON=/path/to/python3.11"
  PYTHON=$(find_python) || die "Python 3.11 was installed but does not start; name a working one: make setup PYTHON=/path/to/python3.11"
fi
VERSION=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
  apt_install "python$VERSION-venv" || die "the venv module of $PYTHON is missing; as root: apt-get install python$VERSION-venv"
fi
# DeepSpeed and torch compile small extensions when they are first used.
if ! command -v g++ >/dev/null; then
  apt_install g++ || die "a C++ compiler is needed; as root: apt-get install g++"
fi
if ! "$PYTHON" -c 'import sys, sysconfig, pathlib; sys.exit(not pathlib.Path(sysconfig.get_paths()["include"], "Python.h").exists())'; then
  apt_install "python$VERSION-dev" || die "the headers of $PYTHON are missing; as root: apt-get install python$VERSION-dev"
fi
if ! command -v runsc >/dev/null; then
  install_runsc || explain_runsc
fi

# The tests of the alert rules and dashboards need Prometheus' two programs: only they are taken out of the
# distribution's package, so that no service is started.
fetch_prometheus() {
  command -v apt-get >/dev/null || return 1
  local work
  work=$(mktemp -d)
  # A download leaves the system as it is, but needs package lists.
  (cd "$work" && { apt-get download -qq prometheus || { as_root apt-get update -qq && apt-get download -qq prometheus; }; }) >&2 \
    && dpkg-deb -x "$work"/prometheus_*.deb "$work" \
    && install -m 755 "$work/usr/bin/prometheus" "$work/usr/bin/promtool" $VENV/bin/
  local status=$?
  rm -rf "$work"
  return $status
}

# --- The virtual environment ----------------------------------------------------------------------

if [ ! -x $VENV/bin/python ] || ! $VENV/bin/python -m pip --version >/dev/null 2>&1; then
  say "making $VENV with $("$PYTHON" --version)"
  "$PYTHON" -m venv --clear $VENV
fi
[ -z "${EDITABLE:-}" ] || touch $VENV/spade-editable
[ ! -e $VENV/spade-editable ] || EDITABLE=1

export PIP_DISABLE_PIP_VERSION_CHECK=1
pip() { $VENV/bin/python -m pip --quiet "$@"; }
# A stamp is the digest of all that an installation depends on; it is written when the installation is complete.
digest() { sha256sum | cut -d' ' -f1; }
fresh() { [ "$(cat "$VENV/spade-$1" 2>/dev/null)" = "$2" ]; }

if [ "$EXTRAS" = dev ] && ! { [ -x $VENV/bin/promtool ] || command -v promtool >/dev/null; }; then
  say "fetching prometheus and promtool for the tests"
  fetch_prometheus || die "the tests need prometheus and promtool; put both on the PATH, or as root: apt-get install prometheus"
fi

dependencies=$({ cat constraints.txt pyproject.toml scripts/setup.sh; echo "$EXTRAS"; } | digest)
# A virtual environment with the tests' packages also serves a run.
with_tests=$({ cat constraints.txt pyproject.toml scripts/setup.sh; echo dev; } | digest)
if ! fresh dependencies "$dependencies" && ! fresh dependencies "$with_tests"; then
  say "installing Python packages (extras: $EXTRAS)"
  pip install -c constraints.txt setuptools wheel
  # torch comes first and by its exact version: the build that this machine's index offers for it is taken, and no
  # looser bound of another package can replace it afterwards.
  pip install "$(grep '^torch==' constraints.txt)"
  $VENV/bin/python scripts/requirements.py "$EXTRAS" | pip install -c constraints.txt -r /dev/stdin
  $VENV/bin/python -m pip check >&2 || die "the installed packages contradict each other; see above"
  echo "$dependencies" >$VENV/spade-dependencies
fi

project=$({
  echo "${EDITABLE:-}"
  cat pyproject.toml README.md LICENSE
  if [ -z "${EDITABLE:-}" ]; then
    find pkg services -type f ! -path '*/__pycache__/*' ! -path '*.egg-info/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
  fi
} | digest)
if ! fresh project "$project"; then
  say "installing spade-rl${EDITABLE:+ (editable)}"
  rm -rf build/lib build/bdist.*
  pip install --no-deps --no-build-isolation --force-reinstall ${EDITABLE:+-e} .
  rm -rf build/lib build/bdist.*
  echo "$project" >$VENV/spade-project
fi
say "ready"
