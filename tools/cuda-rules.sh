#!/bin/sh
# Writes the make rules of src/cuda to standard output: CUDA_OBJECTS, and for each unit a rule with all headers it
# includes. configure puts them into src/Makevars, so a new file needs no entry anywhere. Each unit has its own rule,
# since R's Makeconf resets .SUFFIXES and pattern rules exist in GNU make only.
set -eu
cd "$(dirname "$0")/../src"

# the files that take longest come first: make starts in this order
slowest="tensor/sums_wgmma tensor/sums_symmetric tensor/sums_wgmma_wide tensor/sums_mma fma/f32 fma/f64 fma/doubled
  tensor/sums_dmma normal/tiles"

# CUDA's headers alone take nvcc 2 s. Small files up to a semicolon are one unit, which nvcc reads in one call: they must
# not define a name twice. The last one names the object. A file that stands nowhere here is a unit by itself.
together="dense/halves dense/copy exact/debiased_loo exact/sources exact/kept exact/send exact/lost exact/passes
  exact/passes_frames exact/passes_ordered exact/passes_parts grid/grid grid/job grid/cost grid/axes grid/backend
  grid/spread_f32 grid/spread_f64 grid/evaluate_f32 grid/evaluate_f64 algebra/tables algebra/vectors normal/chunks normal/normal
  device/memory engine;
  near/lists algebra/product device/transfer device/devices device/resident exact/targets exact/sums;
  exact/passes_matrix device/context; exact/passes_symmetric algebra/triangles; exact/matrix near/frame_lists;
  normal/sweeps dense/dense; device/sort grid/rows grid/sort;
  points/tensor_pack points/centre near/frames exact/matrix_doubles grid/survey device/libraries exact/move grid/filter
  points/points;
  points/normal_points points/dmma_pack exact/finish near/frame_rows exact/matrix_halves grid/envelope near/order;
  exact/loo_tensor tensor/wgmma_pack tensor/sums_loo near/frame_centres"

find cuda core grid fk.h -name '*.cu' -o -name '*.cuh' -o -name '*.h' | LC_ALL=C sort | xargs grep '^ *# *include *"' /dev/null |
  awk -v slowest="$(echo $slowest)" -v together="$(echo $together)" '
    {
      at = index($0, ":")
      file = substr($0, 1, at - 1)
      split($0, quoted, "\"")
      path = file
      sub(/[^\/]*$/, "", path)
      path = path quoted[2]
      while (path ~ /[^\/.]+\/\.\.\//) sub(/[^\/.]+\/\.\.\//, "", path)
      includes[file] = includes[file] " " path
      if (file ~ /\.cu$/ && !(file in stem)) {
        stem[file] = substr(file, 1, length(file) - 3)
        files[++count] = file
      }
    }
    # all headers that a file includes, directly or indirectly, once each
    function visit(file,    own, n, i) {
      n = split(includes[file], own, " ")
      for (i = 1; i <= n; i++)
        if (!(own[i] in seen)) {
          seen[own[i]] = 1
          all = all " " own[i]
          visit(own[i])
        }
    }
    END {
      lines = split(together, line, ";")
      for (u = 1; u <= lines; u++) {
        n = split(line[u], unit, " ")
        before = ""
        for (i = 1; i < n; i++) {
          before = before " cuda/" unit[i] ".cu"
          within["cuda/" unit[i] ".cu"] = 1
        }
        with["cuda/" unit[n] ".cu"] = before
        slowest = slowest " " unit[n]
      }
      n = split(slowest, first, " ")
      for (i = 1; i <= n; i++) own["cuda/" first[i] ".cu"] = 1
      for (file in within) own[file] = 1
      for (file in own)
        if (!(file in stem)) { print "cuda-rules.sh: there is no " file >"/dev/stderr"; exit 1 }
      for (i = 1; i <= n; i++) objects = objects " \\\n  cuda/" first[i] ".o"
      for (i = 1; i <= count; i++)
        if (!(files[i] in own)) objects = objects " \\\n  " stem[files[i]] ".o"
      print "CUDA_OBJECTS =" objects
      for (i = 1; i <= count; i++) {
        if (files[i] in within) continue
        split("", seen)
        all = included = ""
        n = split(with[files[i]], unit, " ")
        for (k = 1; k <= n; k++) {
          all = all " " unit[k]
          visit(unit[k])
          included = included "-include " unit[k] " "
        }
        visit(files[i])
        print stem[files[i]] ".o: " files[i] all
        print "\t$(NVCC) $(NVCC_FLAGS) " included "-c " files[i] " -o $@"
      }
    }'
