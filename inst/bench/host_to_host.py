"""What the published Triton code takes from NumPy arrays of doubles on the host to such an array: host-to-host.R's.

    python3 host_to_host.py PATH FOLDER D H

PATH is a checkout as gpu-baselines.py takes it; FOLDER has x.bin and y.bin, doubles in R's order, D columns. Prints
"seconds kde S" and "seconds sdkde S", medians of the wall clock around everything: the arrays to the device as float32,
the call with its defaults, the result to the host as doubles. The densities go to FOLDER/kde.bin and sdkde.bin.
"""
import os
import sys
import time

import numpy
import torch


def median_seconds(task, budget=2.0, least=5):
    task()  # compiles and tunes itself
    task()
    seconds, started = [], time.perf_counter()
    while len(seconds) < least or time.perf_counter() - started < budget:
        start = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - start)
    return float(numpy.median(seconds))


def main():
    path, folder, d, h = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    sys.path.insert(0, os.path.abspath(path))
    from flash_sd_kde import kde

    commit = os.path.join(path, "COMMIT")
    print("commit", path, open(commit).read().strip() if os.path.exists(commit) else "commit not told")
    x, y = (
        numpy.ascontiguousarray(numpy.fromfile(os.path.join(folder, side + ".bin")).reshape(d, -1).T) for side in "xy"
    )

    def to_device(points):
        return torch.tensor(points, dtype=torch.float32, device="cuda")

    def to_host(density):
        return density.cpu().numpy().astype(numpy.float64)

    tasks = {
        "kde": lambda: to_host(kde.kde_eval(to_device(x), to_device(y), h)),
        "sdkde": lambda: to_host(kde.kde_eval(kde.emp_sd_kde_fit_transform(to_device(x), h), to_device(y), h)),
    }
    for name, task in tasks.items():
        task().ravel().tofile(os.path.join(folder, name + ".bin"))
        print("seconds", name, median_seconds(task), flush=True)


main()
