#!/bin/sh
# Are the errors of the grid engines' windows within src/grid/window_table.c, and envelopes what they are to be?
# Measured on other offsets than those that tools/window-table.sh takes. Exit 77: there is no compiler.
set -eu
cd "$(dirname "$0")/.."

command -v "${CC:-cc}" >/dev/null || { echo "no C compiler"; exit 77; }
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
${CC:-cc} -O2 -DVERIFY -o "$scratch/run" \
  tools/window-table.c src/grid/window.c src/grid/window_table.c src/core/status.c -lm
"$scratch/run"
