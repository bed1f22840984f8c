"""The reference library of Falkon (github.com/FalkonML/falkon, MIT) on one GPU:

  falkon_baseline.py NAME n d m outputs iterations sigma lambda [logistic]

Points and responses as gpu-falkon.R makes them, in float32. Fits a small set first, to start the library, then the
whole set. Prints one line: version, whether KeOps is installed, seconds of the fit, seconds of its preconditioner, and the root
mean square of its residuals on the first 100,000 rows.
"""
import sys
import time

import falkon
import numpy
import torch
from falkon.kernels import GaussianKernel

name, *sizes = sys.argv[1:9]
n, d, m, outputs, iterations = (int(size) for size in sizes[:5])
sigma, penalty = (float(size) for size in sizes[5:7])
logistic = "logistic" in sys.argv[9:]
try:
    import pykeops  # noqa: F401

    keops = "auto"
except ImportError:
    keops = "no"


def points(rows):
    """Of Weyl sequences, with variance 1."""
    x = torch.empty(rows, d, dtype=torch.float32)
    i = torch.arange(1, rows + 1, dtype=torch.float64)
    for k in range(d):
        step = (2.0 + k) ** 0.5
        x[:, k] = ((i * step % 1.0 - 0.5) * 12**0.5).float()
    return x


def response(x):
    signal = torch.sin(x[:, 0] * 2) + x[:, min(1, d - 1)] * x[:, min(2, d - 1)]
    y = torch.stack([signal + 0.1 * k * x[:, k % d] for k in range(outputs)], 1)
    return torch.sign(y - y.mean(0)) if logistic else y


def fit(rows, centers, steps):
    x = points(rows)
    y = response(x)
    options = falkon.FalkonOptions(keops_active=keops, use_cpu=False)
    kernel = GaussianKernel(sigma=sigma)
    torch.cuda.synchronize()
    start = time.perf_counter()
    if logistic:
        path = [1e-3, 1e-6] + [penalty] * 7
        model = falkon.LogisticFalkon(
            kernel=kernel, penalty_list=path, iter_list=[3, 3, 3] + [8] * 6, M=centers,
            loss=falkon.gsc_losses.LogisticLoss(kernel), options=options, seed=1)
    else:
        model = falkon.Falkon(kernel=kernel, penalty=penalty, M=centers, maxiter=steps, options=options, seed=1)
    model.fit(x, y)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    some = slice(0, min(rows, 100000))
    residual = float((model.predict(x[some]).reshape(-1, outputs) - y[some]).square().mean().sqrt())
    times = getattr(model, "fit_times_", None) or [float("nan")]
    return seconds, times[0], residual


fit(20000, 500, 3)
print(falkon.__version__, keops, *fit(n, m, iterations))
