"""Times other programs from NumPy arrays of doubles on the host to such an array. Called by host-to-host.R and others.

    python3 host_to_host.py [--device cpu] [--limit S] [--budget S] [--estimators kde,sdkde] PROGRAM[=PATH] FOLDER,D,H ...

PROGRAM: eager, eager-tf32, compiled, two-passes, materialised (PyTorch), keops, triton=PATH (a checkout as gpu-baselines.py takes it), also
triton-fp32 and triton-two-passes, sklearn. Each FOLDER has
x.bin and y.bin, doubles in R's order, D columns. Prints "about TEXT", and for each folder and estimator "seconds FOLDER
ESTIMATOR HOST DEVICE QUERIES PEAK": the elapsed time of everything (the arrays to the device as float32, the call with its
defaults, the result to the host as doubles), and by events the time on the device with points and result there; medians.
PEAK: MiB of the device's memory over points and result. Densities go to FOLDER/PROGRAM-ESTIMATOR.bin. What cannot run says "none FOLDER ESTIMATOR WHY". sklearn computes in doubles
one query after the other, KDE alone: some of the queries are measured, QUERIES of them. Of the others an estimator is
given up when its next size would take more than S seconds, going by the pairs of the one before.
"""
import argparse
import os
import time

import numpy


BUDGET = 0.5  # seconds that a median is taken over, and at least five runs; --budget


def median(task, least=5):
    """task() returns what it took; two runs before do not count, unless one takes more than a second."""
    started = time.perf_counter()
    first = task()
    if time.perf_counter() - started > 1:
        return first
    task()
    taken, started = [], time.perf_counter()
    while len(taken) < least or time.perf_counter() - started < BUDGET:
        taken.append(task())
        if time.perf_counter() - started > 3 * BUDGET:
            break
    return float(numpy.median(taken))


def wall_seconds(task):
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def read(folder, d):
    return (numpy.ascontiguousarray(numpy.fromfile(os.path.join(folder, s + ".bin")).reshape(d, -1).T) for s in "xy")


def on_tensors(function, device):
    """measure(x, y, h): density, seconds from host to host, seconds on the device, queries, MiB of the device."""
    import torch

    from estimators import events_milliseconds

    def to_device(points):
        return torch.tensor(points, dtype=torch.float32, device=device)

    def measure(x, y, h):
        def whole():
            return function(to_device(x), to_device(y), h).cpu().numpy().astype(numpy.float64)

        density = whole()
        host, there, peak = median(lambda: wall_seconds(whole)), float("nan"), float("nan")
        if device == "cuda":
            at, queries = to_device(x), to_device(y)
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            function(at, queries, h)
            peak = (torch.cuda.max_memory_allocated() - before) / 2**20
            there = 1e-3 * median(lambda: events_milliseconds(lambda: function(at, queries, h)))
            torch.cuda.empty_cache()
        return density, host, there, len(y), peak

    return measure


def in_sklearn(x, y, h, pairs=5e6):
    from sklearn.neighbors import KernelDensity

    y = y[: max(16, min(len(y), int(pairs / len(x))))]
    fitted = KernelDensity(kernel="gaussian", bandwidth=h)

    def whole():
        return numpy.exp(fitted.fit(x).score_samples(y))

    density = whole()
    return density, median(lambda: wall_seconds(whole), least=3), float("nan"), len(y), float("nan")


def load(program, path, device):
    """What it is, and functions measure() by estimator."""
    if program == "sklearn":
        import sklearn

        return f"scikit-learn {sklearn.__version__}", {"kde": in_sklearn}
    import torch
    import estimators

    torch.backends.cuda.matmul.allow_tf32 = program == "eager-tf32"
    if program.startswith("triton"):
        about = f"{path} {estimators.commit_of(path)}"
        functions = estimators.in_triton(path, program.removeprefix("triton").removeprefix("-"))
    elif program == "keops":
        about, functions = f"KeOps {estimators.version('pykeops')}", estimators.in_keops()
    elif program == "materialised":
        about, functions = f"PyTorch {torch.__version__}", estimators.in_torch(limit=float("inf"))
    elif program == "two-passes":
        about, functions = f"PyTorch {torch.__version__}", {"laplace": estimators.laplace_in_two}
    else:
        about, functions = f"PyTorch {torch.__version__}", estimators.in_torch(compiled=program == "compiled")
    return about, {name: on_tensors(function, device) for name, function in functions.items()}


def measure_case(case, program, names, measures, slowest, limit):
    folder, d, h = case.rsplit(",", 2)
    x, y = read(folder, int(d))
    for name in names:
        pairs = len(x) * (len(y) + (len(x) if name == "sdkde" else 0))
        if slowest.get(name, 0) * pairs > limit:
            print("none", folder, name, f"more than {limit:g} s, by the size before", flush=True)
            continue
        try:
            density, host, there, queries, peak = measures[name](x, y, float(h))
        except Exception as error:  # whatever it is, the other sizes are still to be measured
            first = (str(error).strip().splitlines() or [""])[0]
            print("none", folder, name, f"{type(error).__name__}: {first[:200]}", flush=True)
            continue
        if program != "sklearn":
            slowest[name] = host / pairs
        numpy.ravel(density).tofile(os.path.join(folder, f"{program}-{name}.bin"))
        print("seconds", folder, name, host, there, queries, peak, flush=True)


def main():
    global BUDGET
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=float, default=20)
    parser.add_argument("--budget", type=float, default=BUDGET)
    parser.add_argument("--estimators", default="kde,sdkde,laplace")
    parser.add_argument("program")
    parser.add_argument("cases", nargs="+")
    options = parser.parse_args()
    BUDGET = options.budget
    program, _, path = options.program.partition("=")
    about, measures = load(program, path, options.device)
    print("about", about, flush=True)
    names = [name for name in options.estimators.split(",") if name in measures]
    slowest = {}
    for case in options.cases:
        measure_case(case, program, names, measures, slowest, options.limit)


main()
