#!/usr/bin/env bash
# The image: builds it on a base of Debian packages and the Node of package-lock.json, measures it, and takes a payment
# with containers that have no rights. Needs root, and the network for packages. SLUICE_CHECK_DIR keeps the base and
# the layers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
missing=()
for tool in buildah podman runc mmdebstrap npm psql redis-server; do
  command -v "$tool" > /dev/null || missing+=("$tool")
done
if ((${#missing[@]})); then
  echo "not installed: ${missing[*]}"
  exit 77
fi
if ((EUID != 0)); then
  echo "not root, which mmdebstrap and the build need"
  exit 77
fi

work=${SLUICE_CHECK_DIR:-$(mktemp -d)}
mkdir -p "$work"
export CONTAINERS_STORAGE_CONF=$work/storage.conf
printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/layers"\nrunroot = "%s/run"\n' "$work" "$work" \
  > "$work/storage.conf"
cleanup() {
  podman rm --all --force > /dev/null 2>&1 || true
  buildah rm --all > /dev/null 2>&1 || true
  umount "$work/layers/overlay" 2> /dev/null || true
  [[ -n ${SLUICE_CHECK_DIR-} ]] || rm -rf "$work"
}
trap cleanup EXIT

BASE=localhost/sluice-base
IMAGE=localhost/sluice

make_base() {
  [[ -s $work/base.tar ]] ||
    mmdebstrap --quiet --variant=minbase --include=ca-certificates,libatomic1,libstdc++6 bookworm "$work/base.tar"
  local container npm
  npm=$(dirname "$(readlink -f "$(command -v npm)")")/..
  container=$(buildah from scratch)
  buildah add -q "$container" "$work/base.tar" / > /dev/null
  buildah copy -q "$container" "$(readlink -f node_modules/.bin/node)" /usr/local/bin/node > /dev/null
  buildah copy -q "$container" "$npm" /usr/local/lib/node_modules/npm > /dev/null
  mkdir -p "$work/bin"
  ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$work/bin/npm"
  buildah copy -q "$container" "$work/bin" /usr/local/bin > /dev/null
  # A machine may reach the registry only with certificates of its own.
  if [[ -n ${NODE_EXTRA_CA_CERTS-} ]]; then
    buildah copy -q "$container" "$NODE_EXTRA_CA_CERTS" /usr/local/etc/certificates.pem > /dev/null
    buildah config --env NODE_EXTRA_CA_CERTS=/usr/local/etc/certificates.pem "$container"
  fi
  buildah config --cmd node "$container"
  buildah commit -q --rm "$container" "$BASE" > /dev/null
}

make_base
build() {
  buildah bud --quiet --layers --isolation chroot --format docker --build-arg "NODE_IMAGE=$BASE" "$@" . > /dev/null
}
build -t "$IMAGE"
build -t "$IMAGE-emulators" --target emulators

size() { podman image inspect --format '{{.Size}}' "$1"; }
own_mb=$((($(size "$IMAGE") - $(size "$BASE")) / 1000000))
echo "own layers: $own_mb MB"
if ((own_mb >= 150)); then
  echo "the limit is 150 MB" >&2
  exit 1
fi

node deploy/check/image.ts "$IMAGE" "$IMAGE-emulators"
