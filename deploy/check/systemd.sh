#!/usr/bin/env bash
# The units: no unit may have an exposure of 2.0 or more, by `systemd-analyze security`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../systemd"
if ! command -v systemd-analyze > /dev/null; then
  echo "systemd-analyze is not installed (Debian: systemd)"
  exit 77
fi
for unit in sluice-*.service; do
  systemd-analyze security --offline=true --threshold=19 "./$unit" | tail -n 1
  # The program is not installed on the machine that checks.
  problems=$(systemd-analyze verify "./$unit" 2>&1 | grep -F "$unit" | grep -v 'is not executable: No such' || true)
  if [[ -n $problems ]]; then
    echo "$problems" >&2
    exit 1
  fi
done
