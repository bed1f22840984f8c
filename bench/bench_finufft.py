"""Gaussian sums by FINUFFT: bench_finufft.py points.bin coefficients.bin n d tolerance runs

The files hold doubles, points column after column, in bandwidths, within [0, range]. Runs a type 1 transform, a product with
the kernel's transform and a type 2 transform, on one thread, at the points themselves. The period leaves room for the
kernel, and frequencies cover the kernel's transform. Prints one line: version, the shortest time in seconds and the
first five sums, so that the caller can compare results as well as times.
"""
import math
import sys
import time

import finufft
import numpy

points, coefficients = sys.argv[1:3]
n, d = int(sys.argv[3]), int(sys.argv[4])
tolerance, runs = float(sys.argv[5]), int(sys.argv[6])
x = numpy.fromfile(points).reshape(d, n)
b = numpy.fromfile(coefficients).astype(complex)

reach = math.sqrt(-2 * math.log(tolerance / 10))  # of the kernel, and of its transform
period = float((x.max(axis=1) - x.min(axis=1)).max()) + 2 * reach
scaled = [2 * math.pi / period * (column - column.min() - (period - 2 * reach) / 2) for column in x]
half = math.ceil(reach * period / (2 * math.pi))
frequency = 2 * math.pi / period * numpy.arange(-half, half + 1)
once = math.sqrt(2 * math.pi) / period * numpy.exp(-frequency**2 / 2)
transform = once
for _ in range(d - 1):
    transform = numpy.multiply.outer(transform, once)
one = {1: finufft.nufft1d1, 2: finufft.nufft2d1, 3: finufft.nufft3d1}[d]
two = {1: finufft.nufft1d2, 2: finufft.nufft2d2, 3: finufft.nufft3d2}[d]

seconds = []
for _ in range(runs):
    start = time.perf_counter()
    modes = one(*scaled, b, transform.shape, eps=tolerance, isign=-1, nthreads=1)
    value = two(*scaled, modes * transform, eps=tolerance, isign=1, nthreads=1).real
    seconds.append(time.perf_counter() - start)
print(finufft.__version__, min(seconds), *(repr(float(v)) for v in value[:5]))
