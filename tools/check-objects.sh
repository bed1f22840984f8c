#!/bin/sh
# Checks that the objects of src/Makevars.win are those of tools/c-rules.sh, which lists all C files, and that each .cu
# file is compiled by a rule of tools/cuda-rules.sh.
set -eu
cd "$(dirname "$0")/.."

status=0
complain() { echo "$*"; status=1; }
sources() { (cd src && find . -name "$1" | sed 's|^\./||' | LC_ALL=C sort); }

list() { sed -n '/^C_OBJECTS =/,/[^\\]$/p'; }
c_rules="$(sh tools/c-rules.sh)" || complain "tools/c-rules.sh fails"
[ "$(printf '%s\n' "$c_rules" | list)" = "$(list <src/Makevars.win)" ] ||
  complain "src/Makevars.win: the list of objects is old; run tools/c-rules.sh --win"
for source in $(sources '*.c'); do
  printf '%s\n' "$c_rules" | grep -q "^${source%.*}.o: " || complain "src/$source has no rule"
done

rules="$(sh tools/cuda-rules.sh)" || complain "tools/cuda-rules.sh fails"
for source in $(sources '*.cu'); do
  echo "$rules" | grep -q "(NVCC).* $source " || complain "tools/cuda-rules.sh: src/$source is not compiled"
done
exit $status
