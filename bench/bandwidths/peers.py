"""Bandwidths of Python's packages: peers.py sklearn|statsmodels points.bin n d

The file holds doubles, row after row. Prints the d standard deviations of a Gaussian kernel.
"""
import sys

import numpy

name, file = sys.argv[1:3]
n, d = int(sys.argv[3]), int(sys.argv[4])
x = numpy.fromfile(file).reshape(n, d)

if name == "sklearn":
    from sklearn.model_selection import GridSearchCV, KFold
    from sklearn.neighbors import KernelDensity

    spread = x.std(axis=0)
    grid = {"bandwidth": numpy.logspace(-2, 0.5, 20)}
    folds = KFold(5, shuffle=True, random_state=1)
    search = GridSearchCV(KernelDensity(kernel="gaussian"), grid, cv=folds).fit(x / spread)
    h = search.best_params_["bandwidth"] * spread
else:
    from statsmodels.nonparametric.kernel_density import KDEMultivariate

    h = KDEMultivariate(x, var_type="c" * d, bw="cv_ml").bw
print(*(repr(float(v)) for v in h))
