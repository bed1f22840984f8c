#!/usr/bin/env bash
# Compiles the C code for other systems, with all warnings, and links it against what R exports: Windows with mingw-w64,
# Linux on arm64 with gcc, macOS on both processors with zig's clang. Runs tools/exercise-sums.c, which needs no R, if
# an emulator is installed: qemu-user-static or wine. Not part of tools/check, because each system takes a minute.
#   apt-get install gcc-mingw-w64-x86-64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static wine64 wine
#   pip install ziglang                                      (FK_ZIG names a zig that is not on PATH)
#   tools/check-cross.sh [windows|arm64|macos-arm64|macos-x86_64 ...]      default: all
# Exit status 77: none of the compilers is installed.
set -uo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
include="$(R CMD config --cppflags)" libr="$(R RHOME)/lib/libR.so"
scratch="$(mktemp -d "${TMPDIR:-/tmp}/flashkernel-cross.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
have() { command -v "$1" >/dev/null 2>&1; }
passed=0 failed=0 skipped=0
zig="${FK_ZIG:-zig}"

# A library with R's names, and those of BLAS and LAPACK that we call; the system's libraries must have all others.
{
  if [ -r "$libr" ]; then nm -D --defined-only "$libr"; else nm -D --defined-only "$(R RHOME)/bin/exec/R"; fi |
    awk '{ print $3 }' | grep -E '^(R|SET|[A-Z]+(_|$))'
  grep -ohE 'F77_CALL\([a-z]+' "$root"/src/core/*.c | sed 's/.*(//; s/$/_/'
} | sort -u >"$scratch/names"
[ "$(wc -l <"$scratch/names")" -gt 500 ] || { echo "no list of what R exports: $libr"; exit 77; }
sed 's/.*/int &;/' "$scratch/names" >"$scratch/r.c"
{ echo 'LIBRARY R.dll'; echo EXPORTS; cat "$scratch/names"; } >"$scratch/r.def"

# compile TARGET COMPILER FLAGS...: compiles the objects of Makevars.win, which are all but those of CUDA.
compile() {
  local dir="$scratch/$1" cc="$2"
  shift 2
  mkdir "$dir"
  (cd "$root/src" && find . -name '*.[ch]' -o -name '*.in' -o -name Makevars.win | grep -v fk_config.h$ | tar -cf - -T -) | tar -C "$dir" -xf -
  cat >"$dir/cross.mk" <<'MK'
include Makevars.win
objects: $(OBJECTS)
	echo $(OBJECTS) >objects
%.o: %.c
	$(CC) $(CPPFLAGS) $(CFLAGS) $(PKG_CFLAGS) -c $< -o $@
$(OBJECTS): fk_config.h
MK
  # allow the uninitialized variable in cpu/tile_scales.h: the first chain of a family sets it
  make -C "$dir" -j2 -f cross.mk CC="$cc" CPPFLAGS="$include -DNDEBUG" \
    CFLAGS="-O2 -std=gnu11 -Wall -Wextra -Werror -Wno-unknown-warning-option -Wno-cast-function-type -Wno-maybe-uninitialized $*" objects
}

# exercise TARGET COMPILER FLAGS...: links the program from all objects but those that use R.
exercise() {
  local dir="$scratch/$1" cc="$2"
  shift 2
  # shellcheck disable=SC2046,SC2086
  (cd "$dir" && $cc -O1 -fno-builtin -Wall -Wextra "$root/tools/exercise-sums.c" \
    $(tr ' ' '\n' <objects | grep -vE '^(r/|init)') -pthread "$@" -o exercise)
}

# library TARGET COMPILER FLAGS...: links the library from all objects.
library() {
  local dir="$scratch/$1" cc="$2"
  shift 2
  # shellcheck disable=SC2046,SC2086
  (cd "$dir" && $cc -shared $(cat objects) "$@" -o flashkernel.so)
}

windows() {
  local cc=x86_64-w64-mingw32-gcc-posix
  have $cc || return 77
  x86_64-w64-mingw32-dlltool -d "$scratch/r.def" -l "$scratch/libR.a" &&
    compile windows $cc && library windows $cc -L"$scratch" -lR -static -pthread && exercise windows $cc -static || return 1
  if have wine; then WINEDEBUG=-all WINEPREFIX="$scratch/wine" wine "$scratch/windows/exercise.exe"; fi
}

arm64() {
  local cc=aarch64-linux-gnu-gcc
  have $cc || return 77
  $cc -shared -fPIC -fno-builtin "$scratch/r.c" -o "$scratch/libR-arm64.so" &&
    compile arm64 $cc -fPIC && library arm64 $cc -Wl,-z,defs -L"$scratch" -lR-arm64 -lm -pthread &&
    exercise arm64 $cc -static -lm || return 1
  if have qemu-aarch64-static; then qemu-aarch64-static "$scratch/arm64/exercise"; fi
}

macos() {
  $zig version >/dev/null 2>&1 || return 77
  local cc="$zig cc -target $1-macos"
  $cc -shared -fno-builtin "$scratch/r.c" -o "$scratch/libR-$1.dylib" &&
    compile "macos-$1" "$cc" -Wno-pass-failed && library "macos-$1" "$cc" "$scratch/libR-$1.dylib" && exercise "macos-$1" "$cc"
}

for target in "${@:-windows arm64 macos-arm64 macos-x86_64}"; do
  for one in $target; do
    case "$one" in
      windows | arm64) run=("$one") ;;
      macos-arm64) run=(macos aarch64) ;;
      macos-x86_64) run=(macos x86_64) ;;
      *) echo "error: unknown target '$one'" >&2; exit 2 ;;
    esac
    "${run[@]}" >"$scratch/log" 2>&1 </dev/null
    case $? in
      0) passed=$((passed + 1)); printf 'ok    %s: %s\n' "$one" "$(grep '^exercise-sums' "$scratch/log" || echo 'compiled and linked')" ;;
      77) skipped=$((skipped + 1)); printf 'skip  %s: no compiler\n' "$one" ;;
      *) failed=$((failed + 1)); printf 'FAIL  %s\n' "$one"; grep -vE ' -c [a-z/_0-9]+[.]c ' "$scratch/log" | tail -n 40 ;;
    esac
  done
done
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -gt 0 ] || exit 77
