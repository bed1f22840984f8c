#!/usr/bin/env bash
# All benchmarks that need a GPU, one after the other, on a machine with flashkernel (built with CUDA), nvcc and,
# for the last and for the published code, PyTorch:
#
#   bench/gpu-all.sh [--quick] [--triton PATH]
#
# Writes NAME.txt and naive.csv to $OUT, or else over the reports that the repository keeps. One that fails does not stop
# the others.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
out=${OUT:-bench/results}
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
  local name=$1 start=$SECONDS status file=$out/$1.txt
  shift
  # vignettes hold the reports that they show
  [ -n "${OUT:-}" ] || [ ! -e "vignettes/measured/bench/$name.txt" ] || file=vignettes/measured/bench/$name.txt
  echo "==== $name"
  "$@" 2>&1 | tee "$file"
  status=$?
  [ $status -eq 0 ] || failed=1
  summary+=("$(printf '%-16s status %d, %3d s, %s' "$name" $status $((SECONDS - start)) "$file")")
}

bench gpu Rscript bench/gpu.R ${quick[@]+"${quick[@]}"}
bench host-to-host Rscript bench/host-to-host.R ${quick[@]+"${quick[@]}"} ${triton[@]+"${triton[@]}"}
bench gpu-dimensions Rscript bench/gpu-dimensions.R ${quick[@]+"${quick[@]}"}
bench gpu-loo Rscript bench/gpu-loo.R ${quick[@]+"${quick[@]}"}
bench gpu-scaling Rscript bench/gpu-scaling.R ${quick[@]+"${quick[@]}"}
bench gpu-fast Rscript bench/gpu-fast.R ${quick[@]+"${quick[@]}"}
bench operator Rscript bench/operator.R ${quick[@]+"${quick[@]}"}
bench naive Rscript bench/naive.R --csv "$out/naive.csv" ${quick[@]+"${quick[@]}"}
bench gpu-baselines env PYTHONUNBUFFERED=1 "${PYTHON:-python3}" bench/gpu-baselines.py \
  ${quick[@]+"${quick[@]}"} ${triton[@]+"${triton[@]}"}

printf '%s\n' "==== written" "${summary[@]}"
exit $failed
