"""F3M's own code (github.com/MrHuff/F3M) on one GPU. Called by bench/paper/fast-sums.R.

    python3 f3m_baseline.py PATH N,D,EV,KIND ...

PATH has the module ffm_3d_float that its F3M_src/setup.py builds. Uniform or normal points of variance EV, in float32 on
the device, the kernel exp(-r^2 / (2 l^2)) with l = 1 / sqrt(2), coefficients N(0, 1), 4^D nodes, a limit of 0.3 D to the
effective variance of boxes, boxes of at least 1,000 points (5,000 from 10^8 on), as in its experiments. Prints
"seconds I S ERROR" for the I-th case: the time of the second of two runs, until the device is done, sum |e| / sum |v| at 1,000 points
against double precision.
"""
import sys
import time

import torch


def exact(x, rows, b, scale):
    y, total = x[:rows].double(), torch.zeros(rows, dtype=torch.float64, device=x.device)
    for part, weights in zip(x.split(1 << 20), b.split(1 << 20)):
        part = part.double()
        squares = (y * y).sum(1)[:, None] + (part * part).sum(1)[None, :] - 2 * y @ part.T
        total += torch.exp(squares.clamp_min(0) / (-2 * scale**2)) @ weights.double().flatten()
    return total


def measure(module, n, d, ev, kind):
    torch.manual_seed(1)
    device, scale, nodes = "cuda:0", 0.5**0.5, 4**d
    x = torch.rand(n, d, device=device) * (12 * ev) ** 0.5 if kind == "uniform" else torch.randn(n, d, device=device) * ev**0.5
    b = torch.randn(n, 1, device=device)
    product = getattr(module, f"FFM_XY_FLOAT_{d}")
    least = 1000.0 if n < 10**8 else 5000.0
    for _ in range(2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        sums = product(x, x, b, device, scale, least, nodes, True, 0.3 * d, nodes)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    rows = min(n, 1000)
    truth = exact(x, rows, b, scale)
    return seconds, float((sums[:rows].flatten().double() - truth).abs().sum() / truth.abs().sum())


def main():
    sys.path.insert(0, sys.argv[1])
    import ffm_3d_float

    for i, case in enumerate(sys.argv[2:], 1):
        n, d, ev, kind = case.split(",")
        try:
            print("seconds", i, *measure(ffm_3d_float, int(n), int(d), float(ev), kind), flush=True)
        except Exception as error:  # the other cases are still to be measured
            print("none", i, str(error).splitlines()[:1], flush=True)
        torch.cuda.empty_cache()


main()
