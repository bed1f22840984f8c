#!/usr/bin/env bash
# The papers' figures and tables, one after the other:
#
#   bench/paper/run-all.sh [--size small|full] [--backend auto|cpu|cuda] [--out FOLDER] [--triton PATH] [--f3m PATH]
#     [--falkon PATH] [--seconds S] [--only NAME,NAME,...]
#
# Writes tables, figures and NAME.txt, what a script says, to FOLDER (default bench/results/paper). --only: these
# scripts, without .R; else all that are here. What fails, or runs for more than LIMIT seconds (default 600) and is ended then
# with all that it has started, does not stop the others; some tables have what was measured until then. --seconds: so
# long for each other program of a script. PYTHON: a Python with PyTorch, KeOps and scikit-learn, as far as they are to
# be had.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
here=bench/paper
out=bench/results/paper
given=() only=
while [ $# -gt 0 ]; do
  case $1 in
    --only) only=${2:?--only needs names}; shift ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    --size | --backend | --triton | --f3m | --falkon | --seconds) given+=("$1" "${2:?$1 needs a value}"); shift ;;
    *) echo "run-all.sh: what is $1?" >&2; exit 2 ;;
  esac
  shift
done
mkdir -p "$out"

# Scripts that end with a table and a figure. The other files are shared code.
names=$(cd "$here" && grep -l '^rows <- paper_rows' -- *.R | sed 's/[.]R$//')
[ -z "$only" ] || names=${only//,/ }

# left SESSION MARK: what still runs of a script: of its session, or with its mark in the environment, as has what
# started a session of its own.
left() {
  local pid
  { pgrep -s "$1"; grep -lsz "^PAPER_RUN=$2\$" /proc/[0-9]*/environ | cut -d/ -f3; } | sort -u | while read -r pid; do
    grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$pid/status" && echo "$pid"
  done
}

# Ends that, and waits, half a minute at most, until it is gone: a device's memory is free only then.
end_left() {
  local pids i
  for ((i = 0; i < 150; i++)); do
    pids=$(left "$1" "$2")
    [ -n "$pids" ] || return 0
    kill -KILL $pids 2>/dev/null
    sleep 0.2
  done
  echo "run-all.sh: still there:" $pids >&2
}

# watch SECONDS SESSION MARK RUNNER: ends the session when the time is over, or its runner gone, killed from outside.
watch() {
  local until=$((SECONDS + $1))
  while [ -e "/proc/$2" ] && [ -e "/proc/$4" ] && [ $SECONDS -lt $until ]; do sleep 0.5; done
  end_left "$2" "$3"
}
export -f left end_left watch

# limited SECONDS COMMAND...: in a session of its own, all of which ends with the time, with COMMAND or with this.
limited() {
  local most=$1 mark=$$-$RANDOM$RANDOM pid status
  shift
  PAPER_RUN=$mark setsid "$@" &
  pid=$!
  trap 'end_left $pid $mark; exit 143' TERM INT HUP
  setsid bash -c 'watch "$@"' watch "$most" "$pid" "$mark" $$ >/dev/null 2>&1 &
  wait "$pid"
  status=$?
  end_left "$pid" "$mark"
  trap - TERM INT HUP
  return $status
}

summary=() failed=0
for name in $names; do
  start=$SECONDS
  echo "==== $name"
  # to a file, which nothing that is left can hold open
  limited "${LIMIT:-600}" Rscript "$here/$name.R" --out "$out" ${given[@]+"${given[@]}"} >"$out/$name.txt" 2>&1
  status=$?
  cat "$out/$name.txt"
  [ $status -eq 0 ] || failed=1
  summary+=("$(printf '%-18s status %d, %3d s' "$name" $status $((SECONDS - start)))")
done
printf '%s\n' "==== done" "${summary[@]}"
exit $failed
