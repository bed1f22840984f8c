#!/bin/sh
# Every .c file under src/ must be in OBJECTS of src/Makevars.in (and of src/Makevars.win where
# there is one), and every object named there must have a source. Forgetting a new file is the
# one cost of an explicit list: this finds it before the linker does, or does not.
set -eu
cd "$(dirname "$0")/.."

status=0
on_disk="$(cd src && find . -name '*.c' | sed 's|^\./||; s|\.c$|.o|' | sort)"
for makevars in src/Makevars.in src/Makevars.win; do
  [ -f "$makevars" ] || continue
  # words that end in .o on assignments, with continued lines joined; rules do not count
  listed="$(sed -e ':a' -e '/\\$/N; s/\\\n/ /; ta' "$makevars" | grep -E '^[A-Z_]+ *[:+]?=' |
    tr ' \t=' '\n\n\n' | grep -E '^[a-z0-9_/]+\.o$' | sort -u)"
  for object in $on_disk; do
    if ! printf '%s\n' "$listed" | grep -qx "$object"; then
      echo "$makevars: src/${object%.o}.c is not listed"
      status=1
    fi
  done
  for object in $listed; do
    stem="src/${object%.o}"
    if [ ! -f "$stem.c" ] && [ ! -f "$stem.cu" ]; then
      echo "$makevars: $object has no source"
      status=1
    fi
  done
done
exit $status
