#!/bin/sh
# The layers of src/: only src/r/ and src/init.c know R. Code below, CUDA kernels included, must not
# include R's headers, call its API, print, or end the process.
set -eu
cd "$(dirname "$0")/.."

status=0
for layer in src/core src/cpu src/cuda; do
  [ -d "$layer" ] || continue
  # comments may name what the code may not use
  found="$(find "$layer" -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) | sort |
    while read -r file; do
      sed -e 's|//.*$||' -e 's|/\*.*\*/||' -e 's|^ *\* .*||' "$file" |
        grep -nE '#include *[<"](R|Rinternals|Rmath|Rdefines|R_ext/[A-Za-z]+|iostream)[>."]|Rf_|R_alloc|SEXP|(^|[^a-z_])(f?printf|f?puts|perror|_?exit|abort|assert)\(' |
        sed "s|^|$file:|" || true
    done)"
  # the one exception: R's own BLAS and LAPACK, declared in two headers of R, for whitening
  found="$(printf '%s\n' "$found" | grep -v '^src/core/triangular\.c:.*R_ext/\(BLAS\|Lapack\)\.h' || true)"
  if [ -n "$found" ]; then
    printf '%s\n' "$found"
    status=1
  fi
done
exit $status
