#!/bin/sh
# Checks the workflows, the Dockerfile and the conda recipe: the scripts that they name exist and are executable,
# actions are pinned to commits, all files that name the version name that of DESCRIPTION, and actionlint, if it is
# installed, finds nothing.
set -u
cd "$(dirname "$0")/.." || exit 1
status=0
bad() { echo "$*"; status=1; }

files=$(ls .github/workflows/*.yaml tools/docker/Dockerfile tools/conda/*) || exit 1
# shellcheck disable=SC2086
for script in $(grep -hvE '^ *#' $files | grep -ohE '(tools|[.]ci)/[A-Za-z0-9_-]+([.](sh|R))?' | sort -u); do
  case "$script" in
    *.R | *-rules.sh | tools/setup.sh) [ -f "$script" ] ;;
    tools/docker | tools/conda | tools/m4) [ -d "$script" ] ;;
    *) [ -f "$script" ] && [ -x "$script" ] ;;
  esac || bad "$script: named in a workflow or recipe, and no script that can be executed"
done
for line in $(grep -hoE 'uses: [^ ]+' .github/workflows/*.yaml | sed 's/uses: //' | sort -u); do
  echo "$line" | grep -qE '@[0-9a-f]{40}$' || bad "$line: an action is pinned to a commit"
done
version=$(sed -n 's/^Version: *//p' DESCRIPTION)
for file in configure.ac configure src/Makevars.win README.md tools/conda/recipe.yaml; do
  grep -qF "$version" "$file" || bad "$file: does not name version $version, which DESCRIPTION has"
done
for script in tools/conda/*.sh; do bash -n "$script" || status=1; done
if command -v actionlint >/dev/null 2>&1; then actionlint || status=1; else echo "no actionlint"; fi
exit $status
