#!/usr/bin/env bash
# Checks the image, the manifests and the units of this folder with real tools: `deploy/check.sh [PART...]`, by default
# all parts. A part is a script in deploy/check: it says what it checked, and exits with 77 if a tool is missing. Needs
# `npm ci`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/node_modules/.bin:$PATH

parts=()
for script in deploy/check/*.sh; do parts+=("$(basename "$script" .sh)"); done
case ${1-} in
  -h | --help)
    sed -n '2,/^set/{/^#/s/^# //p}' "$0"
    echo "Parts: ${parts[*]}"
    exit
    ;;
esac
(($#)) && parts=("$@")

failed=0
for part in "${parts[@]}"; do
  if [[ ! -x deploy/check/$part.sh ]]; then
    echo "There is no part $part. See --help." >&2
    exit 1
  fi
  echo "== deploy: $part"
  "deploy/check/$part.sh"
  case $? in
    0) ;;
    77) echo "== deploy: $part: not checked, a tool is missing" ;;
    *)
      echo "== deploy: $part failed"
      failed=1
      ;;
  esac
done
exit $failed
