#!/usr/bin/env bash
# Build the images of all services, or of the ones that are named, with buildah or docker.
#
#   scripts/images.sh [--save FOLDER] [SERVICE...]
#
#   TAG, BASE     localhost/spade-SERVICE:dev by default: BASE=registry.example/spade TAG=0.1.0 scripts/images.sh
#   BUILDER       buildah or docker; by default the one that is installed
#   BUILD_ARGS    more arguments for every build
#   --save        write each image to FOLDER/SERVICE.tar as well (what a node without a registry can import)
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
  mkdir -p "$save"
  shift 2
fi
services=("$@")
[ ${#services[@]} -gt 0 ] || services=(memory sandbox regret designer coordinator agent learner)

read -ra arguments <<<"${BUILD_ARGS:-}"
while IFS='=' read -r name value; do
  arguments+=(--build-arg "$name=$value")
done < <(env | grep -E '^PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|CERT|DEFAULT_TIMEOUT|CONSTRAINT)=' || true)

bases=()
for target in runtime build project model; do
  bases+=(--build-arg "${target^^}=$BASE-$target:$TAG")
done

build() { # FILE NAME [TARGET]
  local file=$1 name=$2 target=()
  [ -z "${3:-}" ] || target=(--target "$3")
  echo "images: $name" >&2
  if [ "$BUILDER" = buildah ]; then
    local mounts=(-v /etc/ssl/certs:/etc/ssl/certs:ro)
    [ ! -d "${PIP_FIND_LINKS:-}" ] || mounts+=(-v "$PIP_FIND_LINKS:$PIP_FIND_LINKS:ro")
    buildah bud -q --layers --format docker "${mounts[@]}" "${arguments[@]}" "${target[@]}" \
      "${bases[@]}" -f "$file" -t "$name" . >/dev/null
  else
    docker build -q "${arguments[@]}" "${target[@]}" "${bases[@]}" -f "$file" -t "$name" . >/dev/null
  fi
}

for target in runtime build project; do
  build services/Dockerfile.base "$BASE-$target:$TAG" $target
done
case " ${services[*]} " in
  *" agent "* | *" learner "*) build services/Dockerfile.base "$BASE-model:$TAG" model ;;
esac
for service in "${services[@]}"; do
  build "services/$service/Dockerfile" "$BASE-$service:$TAG"
  [ -n "$save" ] || continue
  rm -f "$save/$service.tar"
  if [ "$BUILDER" = buildah ]; then
    buildah push -q "$BASE-$service:$TAG" "docker-archive:$save/$service.tar:$BASE-$service:$TAG"
  else
    docker save -o "$save/$service.tar" "$BASE-$service:$TAG"
  fi
done
