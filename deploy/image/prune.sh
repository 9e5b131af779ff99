#!/bin/sh
# Removes from node_modules what Node never loads there: TypeScript, source maps and documents. Licenses stay.
set -eu
cd "$(dirname "$0")/../../node_modules"
find . -type f \( -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.map' -o -name '*.tsbuildinfo' \
  -o -iname 'changelog*' -o -iname 'readme*' -o -iname 'history.md' \) -delete
find . -type d -empty -delete
