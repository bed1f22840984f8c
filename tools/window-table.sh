#!/bin/sh
# Writes src/grid/window_table.c: the errors of the grid engines' windows, measured. A minute or two.
set -eu
cd "$(dirname "$0")/.."

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
${CC:-cc} -O2 -o "$scratch/run" tools/window-table.c src/grid/window.c src/core/status.c -lm
"$scratch/run" >"$scratch/table.c"
mv "$scratch/table.c" src/grid/window_table.c
