"""Times scikit-learn's KernelDensity: bench_sklearn.py train.bin query.bin n m d bandwidth runs [rtol]

The files hold doubles, row after row. Prints one line: version, median seconds, number of queries
and the first five log densities, so that the caller can compare results as well as times.
"""
import sys
import time

import numpy
import sklearn
from sklearn.neighbors import KernelDensity

train, query = sys.argv[1:3]
n, m, d = (int(a) for a in sys.argv[3:6])
bandwidth = float(sys.argv[6])
runs = int(sys.argv[7])
rtol = float(sys.argv[8]) if len(sys.argv) > 8 else 0
x = numpy.fromfile(train).reshape(n, d)
y = numpy.fromfile(query).reshape(m, d)

model = KernelDensity(kernel="gaussian", bandwidth=bandwidth, rtol=rtol).fit(x)
seconds = []
for _ in range(runs):
    start = time.perf_counter()
    value = model.score_samples(y)
    seconds.append(time.perf_counter() - start)
print(sklearn.__version__, numpy.median(seconds), m, *(repr(float(v)) for v in value[:5]))
