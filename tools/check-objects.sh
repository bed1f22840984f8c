#!/bin/sh
# Every .c and .cu file under src/ must be in the lists of src/Makevars.in and every .c file in
# those of src/Makevars.win (Windows is CPU only); every object named there must have a source,
# and if that is a .cu file, a rule. Forgetting a new file is the one cost of explicit lists: this
# finds it before the linker does, or does not.
set -eu
cd "$(dirname "$0")/.."

status=0
complain() { echo "$*"; status=1; }
sources() { (cd src && find . -name "$1" | sed 's|^\./||' | sort); }

for makevars in src/Makevars.in src/Makevars.win; do
  c="$(sources '*.c')" cu=""
  [ "$makevars" = src/Makevars.win ] || cu="$(sources '*.cu')"
  # words that end in .o on assignments, with continued lines joined; rules do not count
  listed="$(sed -e ':a' -e '/\\$/N; s/\\\n/ /; ta' "$makevars" | grep -E '^[A-Z_]+ *[:+]?=' |
    tr -s ' \t=' '\n' | grep -E '^[a-z0-9_/]+\.o$' | sort -u)"
  for source in $c $cu; do
    echo "$listed" | grep -qx "${source%.*}.o" || complain "$makevars: src/$source is not listed"
  done
  for object in $listed; do
    stem="${object%.o}"
    if echo "$cu" | grep -qx "$stem.cu"; then
      grep -q "^$object: $stem.cu " "$makevars" || complain "$makevars: $object has no rule"
    elif ! echo "$c" | grep -qx "$stem.c"; then
      complain "$makevars: $object has no source"
    fi
  done
done
exit $status
