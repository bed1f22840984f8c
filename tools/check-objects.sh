#!/bin/sh
# Every .c file under src/ must be in the lists of src/Makevars.in and of src/Makevars.win, and every object named
# there must have a source. Forgetting a new file is the one cost of explicit lists: this finds it before the linker
# does, or does not. Objects of CUDA are found by tools/cuda-rules.sh: each .cu file must have its rule.
set -eu
cd "$(dirname "$0")/.."

status=0
complain() { echo "$*"; status=1; }
sources() { (cd src && find . -name "$1" | sed 's|^\./||' | sort); }

for makevars in src/Makevars.in src/Makevars.win; do
  c="$(sources '*.c')"
  # words that end in .o on assignments, with continued lines joined; rules do not count
  listed="$(sed -e ':a' -e '/\\$/N; s/\\\n/ /; ta' "$makevars" | grep -E '^[A-Z_]+ *[:+]?=' |
    tr -s ' \t=' '\n' | grep -E '^[a-z0-9_/]+\.o$' | sort -u)"
  for source in $c; do
    echo "$listed" | grep -qx "${source%.*}.o" || complain "$makevars: src/$source is not listed"
  done
  for object in $listed; do
    echo "$c" | grep -qx "${object%.o}.c" || complain "$makevars: $object has no source"
  done
done

rules="$(sh tools/cuda-rules.sh)" || complain "tools/cuda-rules.sh fails"
for source in $(sources '*.cu'); do
  echo "$rules" | grep -q "^${source%.cu}.o: $source " || complain "tools/cuda-rules.sh: src/$source has no rule"
done
exit $status
