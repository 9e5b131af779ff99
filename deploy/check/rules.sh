#!/usr/bin/env bash
# Checks the rules of Prometheus and their tests, the Prometheus of compose.yaml, and the example of Alertmanager. Needs
# promtool (Debian's package prometheus), and amtool (prometheus-alertmanager) for the example.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if ! command -v promtool >/dev/null; then
  echo "rules: promtool is missing (apt-get install prometheus)"
  exit 77
fi

# promtool prints its findings on standard output.
promtool check config deploy/prometheus/prometheus.yaml
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cp deploy/compose/prometheus.yaml deploy/prometheus/rules.yaml "$folder"
promtool check config "$folder/prometheus.yaml"
promtool test rules deploy/prometheus/rules.test.yaml
if command -v amtool >/dev/null; then amtool check-config deploy/prometheus/alertmanager.yaml; fi
