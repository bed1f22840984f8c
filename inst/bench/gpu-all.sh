#!/usr/bin/env bash
# All benchmarks that need a GPU, one after the other, on a machine with flashkernel (built with CUDA), nvcc and,
# for the last and for the published code, PyTorch:
#
#   inst/bench/gpu-all.sh [--quick] [--triton PATH]
#
# Writes NAME.txt and naive.csv to $OUT, or to results/ beside this script. One that fails does not stop the others.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/results}
quick=() triton=()
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=(--quick) ;;
    --triton) triton=(--triton "${2:?--triton needs a path}"); shift ;;
    *) echo "usage: gpu-all.sh [--quick] [--triton PATH]" >&2; exit 2 ;;
  esac
  shift
done
mkdir -p "$out"

summary=() failed=0
bench() { # NAME COMMAND...
  local name=$1 start=$SECONDS status
  shift
  echo "==== $name"
  "$@" 2>&1 | tee "$out/$name.txt"
  status=$?
  [ $status -eq 0 ] || failed=1
  summary+=("$(printf '%-16s status %d, %3d s, %s' "$name" $status $((SECONDS - start)) "$out/$name.txt")")
}

bench gpu Rscript "$here/gpu.R" ${quick[@]+"${quick[@]}"}
bench host-to-host Rscript "$here/host-to-host.R" ${quick[@]+"${quick[@]}"} ${triton[@]+"${triton[@]}"}
bench gpu-dimensions Rscript "$here/gpu-dimensions.R" ${quick[@]+"${quick[@]}"}
bench gpu-scaling Rscript "$here/gpu-scaling.R" ${quick[@]+"${quick[@]}"}
bench gpu-fast Rscript "$here/gpu-fast.R" ${quick[@]+"${quick[@]}"}
bench operator Rscript "$here/operator.R" ${quick[@]+"${quick[@]}"}
bench naive Rscript "$here/naive.R" --csv "$out/naive.csv" ${quick[@]+"${quick[@]}"}
bench gpu-baselines env PYTHONUNBUFFERED=1 "${PYTHON:-python3}" "$here/gpu-baselines.py" \
  ${quick[@]+"${quick[@]}"} ${triton[@]+"${triton[@]}"}

printf '%s\n' "==== written" "${summary[@]}"
exit $failed
