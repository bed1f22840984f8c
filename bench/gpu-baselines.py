"""Times other programs for the same estimates on the same machine: PyTorch (eager and compiled), the published Triton
code, KeOps, scikit-learn. d = 16, the mixture of three normals of gpu.R (not the same draws of it).

    python3 gpu-baselines.py [--quick] [--triton PATH]

--quick omits n = 1,048,576. PATH is a checkout of github.com/Elliotepsteino/Flash-SD-KDE (BSD 3-clause, the
code of arXiv 2602.10378; the folders flash_sd_kde and kernels and the file globals.py are enough). It is called
as in its README and flash_sd_kde/kde.py: emp_sd_kde_fit_transform(), kde_eval(), kde_eval_linearized().

Times are medians, by CUDA events around each call with the points on the GPU (scikit-learn: wall clock).
Errors are those of the densities against float64 (relative L2) and of their logarithms (largest).
A program that cannot run here is named without a time; "-": no reference, n^2 pairs in float64 would take too long.
"""
import argparse
import platform
import subprocess
import sys
import time

import numpy
import torch
from estimators import (
    by_rows, commit_of, debias_rows, density_rows, events_milliseconds, in_keops, in_torch, laplace_rows, load_triton, version
)

D = 16
SMALL = dict(n=32768, m=4096, h=0.9574)
LARGE = dict(n=1048576, m=131072, h=0.8053)
CHECKED = 1024  # queries with a float64 reference


def mixture_points(n, m, seed=1):
    random = numpy.random.default_rng(seed)
    means = 2 * random.standard_normal((3, D))
    sds = numpy.array([0.6, 1.0, 1.4])

    def draw(k):
        component = random.integers(0, 3, k)
        return means[component] + sds[component, None] * random.standard_normal((k, D))

    x, y = draw(n), draw(m)
    # Centred, as flashkernel does by itself: it takes rounding off the Gram form of everyone.
    centre = x.mean(0)
    return x - centre, y - centre


# ---- time and error -----------------------------------------------------------------------------------


def milliseconds(task, budget=2.0, least=3, most=21):
    """Median by CUDA events, until `budget` seconds are spent."""
    task()  # attempt() has run it once: kernels are compiled and tuned
    torch.cuda.synchronize()
    times = []
    while len(times) < least or (sum(times) < 1e3 * budget and len(times) < most):
        times.append(events_milliseconds(task))
    return float(numpy.median(times))


def errors(got, want):
    got, want = got.double().cpu().flatten(), want.double().cpu().flatten()
    relative = float((got - want).norm() / want.norm())
    kept = (want > 0) & (got > 0)  # a Laplace density may be negative; float32 may underflow
    largest = float((got[kept].log() - want[kept].log()).abs().max()) if bool(kept.any()) else float("nan")
    lost = int((~kept).sum())
    return f"{relative:.1e}", f"{largest:.1e}" + (f" ({lost} rows <= 0 left out)" if lost else "")


def row(program, case, ms, relative="-", largest="-"):
    print(f"{program:<50} {case:<9} {ms:>10.4g} ms   {relative:>8}   {largest}", flush=True)


def attempt(program, case, task, want, rows=None):
    """Times task() and compares its result (its `rows`) with `want`; says why where it cannot."""
    try:
        got = task()
        row(program, case, milliseconds(task), *(errors(got if rows is None else got[rows], want)
                                                 if want is not None else ("-", "-")))
    except Exception as error:  # whatever it is, the other programs are still to be measured
        first = (str(error).strip().splitlines() or [""])[0]
        print(f"{program:<50} {case:<9} not measured: {type(error).__name__}: {first[:200]}", flush=True)
        torch.cuda.synchronize()
    torch.cuda.empty_cache()


# ---- one size after the other ---------------------------------------------------------------------------


class Problem:
    def __init__(self, n, m, h, with_sdkde):
        x, y = mixture_points(n, m)
        self.h, self.rows = h, torch.arange(0, m, max(1, m // CHECKED))[:CHECKED]
        self.x64, self.y64 = torch.tensor(x, device="cuda"), torch.tensor(y, device="cuda")
        self.x, self.y = self.x64.float(), self.y64.float()
        at = self.y64[self.rows]
        self.kde = by_rows(density_rows, at, self.x64, h)
        self.laplace = by_rows(laplace_rows, at, self.x64, h)
        # n^2 pairs in float64 are quick at the small size only
        self.sdkde = by_rows(density_rows, at, by_rows(debias_rows, self.x64, self.x64, h), h) if with_sdkde else None


TITLES = {"sdkde": "SD-KDE", "kde": "KDE", "laplace": "Laplace"}


def run_functions(name, functions, p, estimators=("sdkde", "kde", "laplace")):
    for key in estimators:
        attempt(name, TITLES[key], lambda: functions[key](p.x, p.y, p.h), getattr(p, key), p.rows)


def load_published(path):
    """The module flash_sd_kde.kde of the checkout, or None."""
    if path is None:
        print("published Triton code: not given (--triton PATH)")
        return None
    try:
        kde = load_triton(path)
    except Exception as error:
        print(f"published Triton code: {path} does not load: {type(error).__name__}: {error}")
        return None
    print("published Triton code:", path, commit_of(path))
    return kde


def run_triton(kde, p, small):
    def sd(**options):
        debiased = kde.emp_sd_kde_fit_transform(p.x, p.h, **options)
        precision = {k: v for k, v in options.items() if k == "precision_mode"}
        return kde.kde_eval(debiased, p.y, p.h, **precision)

    name = "published Triton"
    attempt(name + ", its defaults (one TF32 product)", "SD-KDE", sd, p.sdkde, p.rows)
    if small:  # its other score passes tune themselves, which takes minutes at the large size
        for backend in ("symmetric_atomic", "ordered_splitk"):
            attempt(f"{name}, {backend}", "SD-KDE", lambda: sd(emp_score_backend=backend), p.sdkde, p.rows)
        attempt(f"{name}, ordered_splitk, fp32_ieee", "SD-KDE",
                lambda: sd(emp_score_backend="ordered_splitk", precision_mode="fp32_ieee"), p.sdkde, p.rows)
    attempt(name + ", its defaults", "KDE", lambda: kde.kde_eval(p.x, p.y, p.h), p.kde, p.rows)
    attempt(name + ", its defaults", "Laplace", lambda: kde.kde_eval_linearized(p.x, p.y, p.h), p.laplace, p.rows)
    attempt(name + ", fp32_ieee", "KDE", lambda: kde.kde_eval(p.x, p.y, p.h, precision_mode="fp32_ieee"), p.kde, p.rows)


def run_keops(p):
    """In the child process of keops(): its just-in-time compiler may take the process down."""
    run_functions("KeOps " + version("pykeops") + ", fp32", in_keops(), p)


def keops():
    if version("pykeops") is None:
        print("KeOps: not installed, not measured")
        return
    try:
        done = subprocess.run([sys.executable, __file__, "--keops-child"], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        print("KeOps: not measured: nothing after 120 s")
        return
    shown = [line for line in done.stdout.splitlines() if line.startswith("KeOps ")]
    print("\n".join(shown) if shown else "KeOps: not measured")
    if done.returncode != 0:
        print(f"KeOps ended with status {done.returncode}; the end of what it said:")
        print("\n".join("    " + line for line in done.stderr.strip().splitlines()[-6:]))


def run_sklearn(p, queries=1024):
    """The KDE only, it has no other estimator; on part of the queries: it computes one after the other."""
    try:
        import sklearn
        from sklearn.neighbors import KernelDensity
    except Exception as error:
        print(f"scikit-learn: not measured: {type(error).__name__}: {error}")
        return
    x, y = p.x64.cpu().numpy(), p.y64[p.rows[:queries]].cpu().numpy()
    model = KernelDensity(kernel="gaussian", bandwidth=p.h).fit(x)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        value = model.score_samples(y)
        seconds.append(time.perf_counter() - start)
    row(f"scikit-learn {sklearn.__version__}, CPU, {len(y):,} queries", "KDE", 1e3 * float(numpy.median(seconds)),
        *errors(torch.tensor(numpy.exp(value)), p.kde[:queries]))


def say_where():
    print("Other programs on the same GPU, d = 16\nscript   bench/gpu-baselines.py")
    print("date    ", time.strftime("%Y-%m-%d"))
    print("device  ", torch.cuda.get_device_name(0), "; CUDA", torch.version.cuda)
    print("versions Python", platform.python_version(), "; torch", torch.__version__, "; triton", version("triton") or "not installed",
          "; numpy", numpy.__version__, "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--triton", metavar="PATH")
    parser.add_argument("--keops-child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device here")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if options.keops_child:
        run_keops(Problem(**SMALL, with_sdkde=True))
        return
    say_where()
    triton = load_published(options.triton)
    for size in (SMALL,) if options.quick else (SMALL, LARGE):
        small = size is SMALL
        print(f"\nn = {size['n']:,}, m = {size['m']:,}, h = {size['h']}; relative L2, largest error of the log density")
        problem = Problem(**size, with_sdkde=small)
        run_functions("PyTorch eager, fp32", in_torch(), problem, ("sdkde", "kde", "laplace")[0 if small else 1 :])
        if small:
            run_functions("torch.compile, fp32", in_torch(compiled=True), problem)
            keops()
            run_sklearn(problem)
        if triton is not None:
            run_triton(triton, problem, small)
        del problem
        torch.cuda.empty_cache()


main()
