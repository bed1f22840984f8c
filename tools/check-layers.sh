#!/bin/sh
# Checks the layers of src/: which folder may include which, no circular includes, and that only src/r/ and src/init.c
# use R. Other code, including CUDA kernels, must not include R's headers, call its API, print, or end the process.
set -eu
cd "$(dirname "$0")/../src"

# Each folder, and what its files may include besides that folder, fk.h and fk_config.h: other folders, or some of their
# headers.
rules='
  .           core r cpu/tile.h
  tests       core r cpu/tile.h cpu/direct/spatial_order.h fast grid
  r           core cpu/loops fast/stream.h fast/check_rows.h cpu/tile.h cpu/line/line.h
  core
  grid        core
  cpu/simd
  cpu         core grid cpu/simd
  cpu/loops   core cpu
  cpu/grid    core grid cpu/simd cpu/tile.h cpu/direct/check.h
  cpu/line    core
  cpu/direct  core grid cpu/simd cpu/tile.h
  cuda/device core
  cuda/fma    core cuda/device
  cuda/tensor core cuda/device
  cuda/algebra core cuda/device cuda/tensor
  cuda/points core cuda/device cuda/tensor
  cuda/near   core cuda/device cuda/tensor cuda/points
  cuda/exact  core cuda/device cuda/fma cuda/tensor cuda/points cuda/near
  cuda/normal core cuda/device cuda/fma cuda/tensor cuda/points cuda/exact
  cuda/grid   core grid cuda/device cuda/exact/kept.cuh
  cuda/dense  core cuda/device
  cuda        core grid/backend.h cuda/device cuda/exact/exact.cuh cuda/normal/normal.cuh
  fast        core grid cpu/grid/grid.h cpu/grid/envelope.h cpu/direct/direct.h cpu/direct/check.h
'

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
find . -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) | sed 's|^\./||' | sort >"$scratch/files"

# ---- includes as pairs "file included", relative to src/; FK_BODY names a file that a header of cpu/simd includes

while read -r file; do
  awk -v file="$file" '
    /^ *# *(include|define FK_BODY) *"/ {
      split($0, quoted, "\"")
      base = file
      sub(/[^\/]*$/, "", base)
      # FK_BODY is relative to cpu/simd
      path = ($0 ~ /FK_BODY/ ? "cpu/simd/" : base) quoted[2]
      while (path ~ /[^\/]+\/\.\.\//) sub(/[^\/]+\/\.\.\//, "", path)
      print file, path
    }' "$file"
done <"$scratch/files" >"$scratch/includes"

printf '%s\n' "$rules" | awk '
  function folder(path) { return sub(/\/[^\/]*$/, "", path) ? path : "." }
  FILENAME == "-" {
    if (NF > 0) known[$1] = 1
    for (i = 2; i <= NF; i++) may[$1, $i] = 1
    next
  }
  FILENAME ~ /files$/ {
    exists[$1] = 1
    if (!(folder($1) in known)) print $1 ": no rule for its folder"
    next
  }
  $2 == "fk.h" || $2 == "fk_config.h" { next }
  !($2 in exists) { print $1 ": there is no " $2; next }
  folder($1) != folder($2) && !((folder($1), folder($2)) in may) && !((folder($1), $2) in may) {
    print $1 ": may not include " $2
  }' - "$scratch/files" "$scratch/includes" >"$scratch/complaints"

# ---- circles, of files and of folders

circle() {
  tsort >/dev/null 2>"$scratch/loop" || echo "$1 in a circle:$(sed -n 's/^tsort: \([^ ]*\)$/ \1/p' "$scratch/loop" | tr -d '\n')"
}
circle files <"$scratch/includes" >"$scratch/circles"
sed -E -e '/ fk(_config)?\.h$/d' -e 's|^([^/ ]*) |./\1 |' -e 's|/[^/ ]*( .*)/[^/]*$|\1|' "$scratch/includes" |
  awk '$1 != $2' | sort -u | circle folders >>"$scratch/circles"

# ---- a function is written in the folder whose header declares it (fk.h: core); another folder is called through a
# table of functions. cuda/ has functions that core/gpu.h declares for the package, and gives them to core/gpu.c.

# shellcheck disable=SC2046
awk '
  FNR == 1 { folder = FILENAME; if (!sub(/\/[^\/]*$/, "", folder)) folder = "core" }
  /^[a-z]/ && !/^(static|typedef|extern|INLINE)/ && /fk_[a-z0-9_]+\(/ {
    name = $0
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    if (name !~ /^fk_/) next
    if (FILENAME ~ /h$/) declared[name] = folder
    else written[name] = written[name] " " folder
  }
  END {
    for (name in declared)
      if (name in written && index(written[name] " ", " " declared[name] " ") == 0)
        print declared[name] ": declares " name "(), which is written in" written[name]
  }' $(cat "$scratch/files") | sort >>"$scratch/complaints"

# ---- R, printing, ending: comments may name what the code may not use; R's BLAS and LAPACK are for core/dense_host.c

grep -vE '^(r/|tests/|init\.c$)' "$scratch/files" | while read -r file; do
  sed -e 's|//.*$||' -e 's|/\*.*\*/||' -e 's|^ *\* .*||' "$file" |
    grep -nE '#include *[<"](R|Rinternals|Rmath|Rdefines|R_ext/[A-Za-z]+|iostream)[>."]|Rf_|R_alloc|SEXP|(^|[^a-z_])(f?printf|f?puts|perror|_?exit|abort|assert)\(' |
    sed "s|^|$file:|" || true
done | { grep -v '^core/dense_host\.c:.*R_ext/\(BLAS\|Lapack\)\.h' || true; } >>"$scratch/complaints"

sed 's|^|src/|' "$scratch/complaints"
cat "$scratch/circles"
[ ! -s "$scratch/complaints" ] && [ ! -s "$scratch/circles" ]
