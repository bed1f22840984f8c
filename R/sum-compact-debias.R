# Points of an SD-KDE left out where its kernel is one of bounded reach: as src/core/loo.h has it for the Gaussian, but
# for the last kernel, pair by pair, a block of points at a time.
