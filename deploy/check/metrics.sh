#!/usr/bin/env bash
# Checks the boards and the metrics: Prometheus with the rules on a minute of torture. Each query of a board must return
# data, and each metric that a rule or a board names must exist. Needs `npm ci`, prometheus (Debian's package of this
# name) and redis-server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PATH=$PWD/node_modules/.bin:$PATH

if ! command -v prometheus >/dev/null; then
  echo "metrics: prometheus is missing (apt-get install prometheus)"
  exit 77
fi

folder=$(mktemp -d)
pids=()
stop() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$folder"
}
trap stop EXIT

cp deploy/prometheus/rules.yaml "$folder"
mkdir "$folder/targets"
sed 's/: 15s$/: 5s/' deploy/prometheus/prometheus.yaml >"$folder/prometheus.yaml"
port=$(node -e 'import("./src/start/ports.ts").then(async ({ freePort }) => console.log(await freePort("127.0.0.1")))')
prometheus --config.file="$folder/prometheus.yaml" --storage.tsdb.path="$folder/data" --log.level=warn \
  --web.listen-address="127.0.0.1:$port" >"$folder/prometheus.log" 2>&1 &
pids+=($!)

node torture/main.ts --minutes 1 --rate 10 --lenient --seed 1 --fault provider-500,provider-lost \
  --targets "$folder/targets" >"$folder/torture.log" 2>&1 &
torture=$!
pids+=("$torture")
until grep -q 'waiting until everything is settled' "$folder/torture.log"; do
  if ! kill -0 "$torture" 2>/dev/null; then
    tail -20 "$folder/torture.log"
    echo 'metrics: the torture ended before its load'
    exit 1
  fi
  sleep 1
done
node deploy/check/metrics.ts "http://127.0.0.1:$port"
if ! wait "$torture"; then
  tail -20 "$folder/torture.log"
  echo 'metrics: the torture found problems'
  exit 1
fi
