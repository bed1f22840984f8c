"""The estimators in PyTorch as its users write them, in KeOps, and in the published Triton code: what gpu-baselines.py
and host_to_host.py measure. Points are rows of tensors on any device; h is one bandwidth; densities are a vector.
"""
import importlib.metadata
import math
import os
import sys

import torch


def kernels(y, x, h):
    squared = (y * y).sum(1)[:, None] + (x * x).sum(1)[None, :] - 2 * y @ x.T
    return torch.exp(squared.clamp_min(0) * (-0.5 / h**2))


def norm(x, h):
    return x.shape[0] * (math.sqrt(2 * math.pi) * h) ** x.shape[1]


def debias_rows(y, x, h):
    """y + h^2/2 times the score at y: half way to the kernel-weighted mean."""
    k = kernels(y, x, h)
    return 0.5 * (y + k @ x / k.sum(1, keepdim=True))


def density_rows(y, x, h):
    return kernels(y, x, h).sum(1) / norm(x, h)


def laplace_rows(y, x, h):
    q = ((y * y).sum(1)[:, None] + (x * x).sum(1)[None, :] - 2 * y @ x.T).clamp_min(0) / h**2
    return (torch.exp(-0.5 * q) * (1 + x.shape[1] / 2 - q / 2)).sum(1) / norm(x, h)


def correction_rows(y, x, h):
    """What the Laplace correction takes from (1 + d / 2) times the density."""
    q = ((y * y).sum(1)[:, None] + (x * x).sum(1)[None, :] - 2 * y @ x.T).clamp_min(0) / h**2
    return (torch.exp(-0.5 * q) * q / 2).sum(1) / norm(x, h)


def by_rows(function, y, x, h, limit=8 << 30):
    """In chunks whose n x chunk matrix stays under `limit` bytes: PyTorch holds a few of these at a time."""
    rows = max(1, int(min(limit, 1 << 60)) // (x.shape[0] * x.element_size()))
    return torch.cat([function(part, x, h) for part in y.split(rows)])


def laplace_in_two(x, y, h):
    return (1 + x.shape[1] / 2) * by_rows(density_rows, y, x, h) - by_rows(correction_rows, y, x, h)


def in_torch(compiled=False, limit=8 << 30):
    """Functions (x, y, h) of the three estimators, eager or compiled, once for all sizes."""
    debias, density, laplace = debias_rows, density_rows, laplace_rows
    if compiled:
        debias, density, laplace = (torch.compile(f, dynamic=True) for f in (debias, density, laplace))

    def rows(function, y, x, h):
        return by_rows(function, y, x, h, limit)

    return {
        "kde": lambda x, y, h: rows(density, y, x, h),
        "sdkde": lambda x, y, h: rows(density, y, rows(debias, x, x, h), h),
        "laplace": lambda x, y, h: rows(laplace, y, x, h),
    }


def in_keops():
    """The same by lazy tensors, for a process of its own: KeOps's just-in-time compiler may take it down."""
    from pykeops.torch import LazyTensor

    def squares(y, x, h):
        return ((LazyTensor(y[:, None, :].contiguous()) - LazyTensor(x[None, :, :].contiguous())) ** 2).sum(-1) / h**2

    def density(x, y, h):
        return (-0.5 * squares(y, x, h)).exp().sum(1).flatten() / norm(x, h)

    def debiased(x, h):
        k = (-0.5 * squares(x, x, h)).exp()
        return 0.5 * (x + k @ x / k.sum(1))

    def laplace(x, y, h):
        q = squares(y, x, h)
        return ((-0.5 * q).exp() * (1 + x.shape[1] / 2 - q / 2)).sum(1).flatten() / norm(x, h)

    return {"kde": density, "sdkde": lambda x, y, h: density(debiased(x, h), y, h), "laplace": laplace}


def load_triton(path):
    """The module flash_sd_kde.kde of a checkout."""
    sys.path.insert(0, os.path.abspath(path))
    import flash_sd_kde.kde

    return flash_sd_kde.kde


def commit_of(path):
    file = os.path.join(path, "COMMIT")  # `git rev-parse HEAD >COMMIT` where a checkout travels without .git
    return open(file).read().strip() if os.path.exists(file) else "commit not told"


def in_triton(path, variant=""):
    """With its defaults (one TF32 product), in plain FP32 ("fp32"), or its correction in a pass of its own ("two-passes")."""
    kde = load_triton(path)

    def shaped(points):  # in one dimension it has vectors
        return points.flatten() if points.shape[1] == 1 else points

    def calls(function, **options):
        return lambda x, y, h: function(shaped(x), shaped(y), h, **options)

    if variant == "two-passes":
        return {"laplace": calls(kde.kde_eval_linearized_nonfused)}
    plain = {"precision_mode": "fp32_ieee"} if variant == "fp32" else {}
    score = {"emp_score_backend": "ordered_splitk", **plain} if plain else {}
    return {
        "kde": calls(kde.kde_eval, **plain),
        "sdkde": lambda x, y, h: kde.kde_eval(kde.emp_sd_kde_fit_transform(x, h, **score), y, h, **plain),
        "laplace": calls(kde.kde_eval_linearized, **plain),
    }


def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def events_milliseconds(task):
    """What the device takes for task(), from its beginning to its end there."""
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    task()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop)
