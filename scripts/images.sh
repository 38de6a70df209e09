#!/usr/bin/env bash
# Build the images of all services, or of the ones that are named, with buildah or docker.
#
#   scripts/images.sh [--save ARCHIVE] [SERVICE...]
#
#   TAG, BASE     localhost/spade-SERVICE:dev by default: BASE=registry.example/spade TAG=0.1.0 scripts/images.sh
#   BUILDER       buildah or docker; by default the one that is installed
#   BUILD_ARGS    more arguments for every build
#   --save        write the images to one archive as well (what a node without a registry can import)
#
# pip inside the builds uses this machine's settings: PIP_* of the environment, the folder that PIP_FIND_LINKS names, and
# the certificates that the machine trusts. None of it stays in an image.
set -euo pipefail
cd "$(dirname "$0")/.."

BASE=${BASE:-localhost/spade} TAG=${TAG:-dev}
BUILDER=${BUILDER:-$(command -v buildah >/dev/null && echo buildah || echo docker)}
command -v "$BUILDER" >/dev/null || { echo "images: neither buildah nor docker is installed" >&2; exit 2; }

save=
if [ "${1:-}" = --save ]; then
  save=$2
  mkdir -p "$(dirname "$save")"
  shift 2
fi
services=("$@")
[ ${#services[@]} -gt 0 ] || services=(memory sandbox regret designer coordinator agent learner)

read -ra arguments <<<"${BUILD_ARGS:-}"
# pip takes an empty setting for none.
for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_CERT PIP_DEFAULT_TIMEOUT PIP_CONSTRAINT; do
  arguments+=(--build-arg "$name=${!name:-}")
done
mounts=(-v /etc/ssl/certs:/etc/ssl/certs:ro)
if [ "$BUILDER" = buildah ] && [ -d "${PIP_FIND_LINKS:-}" ]; then
  # Where every image has an empty folder, so that none is left behind.
  mounts+=(-v "$PIP_FIND_LINKS:/mnt:ro")
  arguments+=(--build-arg PIP_FIND_LINKS=/mnt)
fi

bases=()
for target in build core project model; do
  bases+=(--build-arg "${target^^}=$BASE-$target:$TAG")
done

build() { # FILE NAME [TARGET]
  local file=$1 name=$2 target=()
  [ -z "${3:-}" ] || target=(--target "$3")
  echo "images: $name" >&2
  if [ "$BUILDER" = buildah ]; then
    buildah bud -q --layers --format docker "${mounts[@]}" "${arguments[@]}" "${target[@]}" \
      "${bases[@]}" -f "$file" -t "$name" . >/dev/null
  else
    docker build -q "${arguments[@]}" "${target[@]}" "${bases[@]}" -f "$file" -t "$name" . >/dev/null
  fi
}

for target in build core project; do
  build services/Dockerfile.base "$BASE-$target:$TAG" $target
done
case " ${services[*]} " in
  *" agent "* | *" learner "*) build services/Dockerfile.base "$BASE-model:$TAG" model ;;
esac
names=()
for service in "${services[@]}"; do
  build "services/$service/Dockerfile" "$BASE-$service:$TAG"
  names+=("$BASE-$service:$TAG")
done

[ -n "$save" ] || exit 0
echo "images: $save" >&2
if [ "$BUILDER" = buildah ]; then
  layout=$(mktemp -d "$save.XXXX")
  trap 'rm -rf "$layout"' EXIT
  for name in "${names[@]}"; do
    buildah push -q --format oci --compression-format zstd --compression-level 1 "$name" "oci:$layout:$name"
  done
  python3 scripts/image_archive.py "$layout" "$save"
else
  docker save -o "$save" "${names[@]}"
fi
