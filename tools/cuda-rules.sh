#!/bin/sh
# Writes the make rules of src/cuda to standard output: CUDA_OBJECTS, and for each .cu file a rule with all headers it
# includes. configure puts them into src/Makevars, so a new file needs no entry anywhere. Each file has its own rule,
# since R's Makeconf resets .SUFFIXES and pattern rules exist in GNU make only.
set -eu
cd "$(dirname "$0")/../src"

# the files that take longest come first: make starts in this order
slowest="tensor/sums_wgmma tensor/sums_symmetric tensor/sums_wgmma_wide tensor/sums_mma fma/f32 fma/f64 fma/doubled
  tensor/sums_dmma normal/tiles grid/sort device/sort grid/spread_f64 grid/evaluate_f64 grid/spread_f32
  grid/evaluate_f32"

find cuda core grid fk.h -name '*.cu' -o -name '*.cuh' -o -name '*.h' | LC_ALL=C sort | xargs grep '^ *# *include *"' /dev/null |
  awk -v slowest="$slowest" '
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
      n = split(slowest, first, " ")
      for (i = 1; i <= n; i++) {
        if (!(("cuda/" first[i] ".cu") in stem)) { print "cuda-rules.sh: there is no " first[i] ".cu" >"/dev/stderr"; exit 1 }
        objects = objects " \\\n  cuda/" first[i] ".o"
        listed["cuda/" first[i] ".cu"] = 1
      }
      for (i = 1; i <= count; i++)
        if (!(files[i] in listed)) objects = objects " \\\n  " stem[files[i]] ".o"
      print "CUDA_OBJECTS =" objects
      for (i = 1; i <= count; i++) {
        split("", seen)
        all = ""
        visit(files[i])
        print stem[files[i]] ".o: " files[i] all
        print "\t$(NVCC) $(NVCC_FLAGS) -c " files[i] " -o $@"
      }
    }'
