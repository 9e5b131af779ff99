#!/bin/bash
# Runs once, when the volume of PostgreSQL is empty: creates the users, with the passwords of their secrets.
/postgres/create-users.sh /run/secrets -U "$POSTGRES_USER" -d "$POSTGRES_DB"
