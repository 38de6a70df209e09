#!/bin/sh
# Install what the project and some of its extras need into /opt/spade of the image that is being built.
#
#   /build/install [EXTRA...]
#
# Runs in the build of an image, where /build is the stage `build`. pip stays there: it starts under the image's own Python.
set -eu
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
cd /build
install() { tools/bin/python -m pip --python /opt/spade/bin/python install -q -c constraints.txt "$@"; }

requirements=$(mktemp)
trap 'rm -f "$requirements"' EXIT
python3 scripts/requirements.py "$@" >"$requirements"
case " $* " in
  *" deepspeed "*)
    # DeepSpeed's package looks at the torch that is there; it compiles nothing on CPUs, nor here.
    install setuptools wheel
    DS_BUILD_OPS=0 install --no-build-isolation -r "$requirements"
    ;;
  *) install -r "$requirements" ;;
esac
