#!/usr/bin/env bash
# compose.yaml and the configuration of its proxy, each read by the program that will read it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
if docker compose version > /dev/null 2>&1; then compose=(docker compose)
elif command -v docker-compose > /dev/null; then compose=(docker-compose)
else
  echo "neither docker compose nor docker-compose is installed"
  exit 77
fi
"${compose[@]}" config --quiet
"${compose[@]}" --env-file deploy/compose/demo.env --profile monitoring config --quiet
echo "compose.yaml: read by ${compose[0]}, without and with the demo's variables"
if command -v caddy > /dev/null; then
  caddy validate --config deploy/compose/Caddyfile --adapter caddyfile > "$folder/caddy.log" 2>&1 ||
    { cat "$folder/caddy.log" >&2; exit 1; }
  echo "Caddyfile: valid"
else
  echo "Caddyfile: not checked, caddy is not installed"
fi
