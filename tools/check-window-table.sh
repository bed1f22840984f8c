#!/bin/sh
# Checks that the errors of the grid engines' windows are within the bounds of src/grid/window_table.c, and that the
# envelopes are correct. Measures at other offsets than tools/window-table.sh. Exit status 77: there is no compiler.
set -eu
cd "$(dirname "$0")/.."

command -v "${CC:-cc}" >/dev/null || { echo "no C compiler"; exit 77; }
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
${CC:-cc} -O2 -DVERIFY -o "$scratch/run" \
  tools/window-table.c src/grid/window.c src/grid/window_table.c src/core/status.c -lm
"$scratch/run"
