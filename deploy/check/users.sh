#!/usr/bin/env bash
# The database users: creates them in a PostgreSQL that logs every statement, and migrates as their owner. No password may
# be in the log.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ! command -v psql > /dev/null; then
  echo "psql is not installed (Debian: postgresql-client)"
  exit 77
fi
node deploy/check/users.ts
