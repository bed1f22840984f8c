#!/bin/sh
# Regenerates configure from configure.ac, in place or (with an argument) into another directory. configure is
# committed, so users need no autoconf. It was made with autoconf 2.71. Other versions write other files, so tools/check compares
# only if the versions agree.
set -eu
cd "$(dirname "$0")/.."
target="${1:-.}"

command -v autoconf >/dev/null || { echo "reconf.sh: autoconf is not installed" >&2; exit 1; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tools"
cp configure.ac "$work/"
[ -f DESCRIPTION ] && cp DESCRIPTION "$work/"
[ -d tools/m4 ] && cp -R tools/m4 "$work/tools/"
if [ -f aclocal.m4 ]; then cp aclocal.m4 "$work/"; fi
(cd "$work" && autoconf --force --warnings=all)
cp "$work/configure" "$target/configure"
chmod +x "$target/configure"
