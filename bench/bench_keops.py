"""Gaussian sums of all pairs by KeOps on the CPU: bench_keops.py points.bin coefficients.bin n d runs

The files hold doubles, points column after column, in bandwidths. Compiles its formula first. Prints one line: version,
the shortest time in seconds and the first five sums, so that the caller can compare results as well as times.
"""
import sys
import time

import numpy
import pykeops
from pykeops.numpy import Genred

points, coefficients = sys.argv[1:3]
n, d, runs = (int(argument) for argument in sys.argv[3:6])
x = numpy.ascontiguousarray(numpy.fromfile(points).reshape(d, n).T)
b = numpy.fromfile(coefficients).reshape(n, 1)
variables = [f"y = Vi({d})", f"x = Vj({d})", "b = Vj(1)"]
sums = Genred("Exp(-SqDist(y, x) * IntInv(2)) * b", variables, reduction_op="Sum", axis=1)
sums(x[:100], x[:100], b[:100], backend="CPU")

seconds = []
for _ in range(runs):
    start = time.perf_counter()
    value = sums(x, x, b, backend="CPU")
    seconds.append(time.perf_counter() - start)
print(pykeops.__version__, min(seconds), *(repr(float(v)) for v in value[:5, 0]))
