#!/bin/bash
# Runs once, when the volume of PostgreSQL is empty: creates the users, with the passwords of their secrets.
set -euo pipefail

options=()
for user in owner api webhooks worker dashboard reports; do
  url=$(<"/run/secrets/database_url_$user")
  password=${url#*://*:}
  options+=(-v "${user}_password=${password%%@*}")
done
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" "${options[@]}" -f /users.sql
