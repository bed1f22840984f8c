"""Times copies of given sizes to and from a CUDA device: a lower bound for a sum from R's memory.

    python3 gpu_copy.py BYTES_IN BYTES_OUT

Prints two numbers of seconds: with pageable memory (results go to pages that were never touched, as in R), and with pinned
memory that was touched before.
"""
import sys
import time

import torch


def seconds(task):
    torch.cuda.synchronize()
    start = time.perf_counter()
    task()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def copies(source, device, make_target):
    best_in = min(seconds(lambda: device.copy_(source)) for _ in range(3))
    best_out = float("inf")
    for _ in range(3):
        target = make_target()
        best_out = min(best_out, seconds(lambda: target.copy_(device[: len(target)])))
        del target
    return best_in + best_out


def main():
    numbers_in, numbers_out = (int(float(argument)) // 8 for argument in sys.argv[1:3])
    device = torch.empty(max(numbers_in, numbers_out), dtype=torch.float64, device="cuda")
    source = torch.ones(len(device), dtype=torch.float64)
    plain = copies(source, device, lambda: torch.empty(numbers_out, dtype=torch.float64))
    # pinned memory is dear to get: a piece of it, times their number
    pinned = torch.ones(1 << 24, dtype=torch.float64, pin_memory=True)
    part = device[: 1 << 24] if len(device) >= 1 << 24 else torch.empty(1 << 24, dtype=torch.float64, device="cuda")
    there = min(seconds(lambda: part.copy_(pinned, non_blocking=True)) for _ in range(3))
    back = min(seconds(lambda: pinned.copy_(part, non_blocking=True)) for _ in range(3))
    print(f"{plain:.4f} {(there * numbers_in + back * numbers_out) / (1 << 24):.4f}")


main()
