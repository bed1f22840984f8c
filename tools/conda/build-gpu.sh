#!/usr/bin/env bash
# The engine for GPUs, beside the library of the installed package, where it is looked for first.
set -euo pipefail
tools/gpu-plugin engine
libs="$PREFIX/lib/R/library/flashkernel/libs"
mkdir -p "$libs"
cp engine/*.so "$libs/flashkernel-gpu.so"
