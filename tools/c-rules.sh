#!/bin/sh
# Writes the lists of objects and the make rules of the C files of src: C_OBJECTS, TEST_OBJECTS (src/tests), and a rule
# that makes each object depend on all headers it includes. configure puts them into src/Makevars.
#   tools/c-rules.sh          to standard output
#   tools/c-rules.sh --win    the objects only, into src/Makevars.win, since configure does not run on Windows
set -eu
cd "$(dirname "$0")/../src"

objects() {
  printf '%s =' "$1"
  shift
  find "$@" -name '*.c' | sed 's|^\./||' | LC_ALL=C sort | sed 's|\.c$|.o|' | while read -r object; do
    printf ' \\\n  %s' "$object"
  done
  printf '\n'
}
c_objects() { objects C_OBJECTS init.c r core cpu fast grid; }

if [ "${1:-}" = --win ]; then
  { c_objects; sed '/^C_OBJECTS =/,/[^\\]$/d' Makevars.win; } >Makevars.win.new
  mv Makevars.win.new Makevars.win
  exit
fi
c_objects
objects TEST_OBJECTS tests

# FK_BODY names a file that a header of cpu/simd includes, relative to that folder
find . -name '*.[ch]' ! -name fk_config.h | sed 's|^\./||' | LC_ALL=C sort |
  xargs grep -E '^ *# *(include|define FK_BODY) *"' /dev/null |
  awk '
    {
      at = index($0, ":")
      file = substr($0, 1, at - 1)
      split($0, quoted, "\"")
      path = file
      sub(/[^\/]*$/, "", path)
      if ($0 ~ /FK_BODY/) path = "cpu/simd/"
      path = path quoted[2]
      while (path ~ /[^\/.]+\/\.\.\//) sub(/[^\/.]+\/\.\.\//, "", path)
      includes[file] = includes[file] " " path
      if (file ~ /\.c$/ && !(file in known)) {
        known[file] = 1
        files[++count] = file
      }
    }
    function visit(file,    own, n, i) {
      n = split(includes[file], own, " ")
      for (i = 1; i <= n; i++)
        if (!(own[i] in seen)) {
          seen[own[i]] = 1
          all = all " " own[i]
          visit(own[i])
        }
    }
    END {
      for (i = 1; i <= count; i++) {
        split("", seen)
        all = ""
        visit(files[i])
        object = substr(files[i], 1, length(files[i]) - 1) "o"
        print object ": " files[i] all
        # inlined vector operations: tools/m4/fk_loops.m4
        if (files[i] ~ /_(portable|avx2|avx512)\.c$/)
          print "\t$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(LOOPS_FLAGS) -c " files[i] " -o $@"
      }
    }'
