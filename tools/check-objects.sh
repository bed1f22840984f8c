#!/bin/sh
# The list of src/Makevars.win has to be that of tools/c-rules.sh, which lists all C files. Every .cu file under src/ must
# be in CUDA_OBJECTS of src/Makevars.in and have a rule, and every object named there must have a source.
set -eu
cd "$(dirname "$0")/.."

status=0
complain() { echo "$*"; status=1; }

list() { sed -n '/^C_OBJECTS =/,/[^\\]$/p'; }
[ "$(sh tools/c-rules.sh | list)" = "$(list <src/Makevars.win)" ] ||
  complain "src/Makevars.win: the list of objects is old; run tools/c-rules.sh --win"

cu="$(cd src && find . -name '*.cu' | sed 's|^\./||' | sort)"
listed="$(sed -n '/^CUDA_OBJECTS =/,/[^\\]$/p' src/Makevars.in | tr -s ' \t=' '\n' | grep -E '\.o$' | sort -u)"
for source in $cu; do
  echo "$listed" | grep -qx "${source%.*}.o" || complain "src/Makevars.in: src/$source is not listed"
done
for object in $listed; do
  stem="${object%.o}"
  echo "$cu" | grep -qx "$stem.cu" || complain "src/Makevars.in: $object has no source"
  grep -q "^$object: $stem.cu " src/Makevars.in || complain "src/Makevars.in: $object has no rule"
done
exit $status
