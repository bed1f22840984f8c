#!/usr/bin/env bash
# The package without CUDA: the engine for GPUs is a conda package of its own.
set -euo pipefail
FLASHKERNEL_CUDA=no MAKEFLAGS="-j${CPU_COUNT:-2}" "${R:-R}" CMD INSTALL --strip ${R_ARGS:-} .
