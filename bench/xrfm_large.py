"""xRFM (xrfm on PyPI, trees of recursive feature machines) on the made-up data of predict-large.R: error and seconds.

  python3 bench/xrfm_large.py ROWS [SECONDS] [LEAF]

One fit a setting, with its authors' defaults but the kernel's bandwidth (5 or 20), a fifth of the rows (at most 20,000)
to stop at, at most LEAF rows in a leaf (60,000), and SECONDS as the time that a fit is given; settings are tried until SECONDS
are over. error: root mean square error at 10,000 new rows in standard deviations of the response.
"""

import sys
import time

import numpy as np
import torch
from xrfm import xRFM

rows = int(float(sys.argv[1]))
limit = float(sys.argv[2]) if len(sys.argv) > 2 else np.inf
leaf = int(float(sys.argv[3])) if len(sys.argv) > 3 else 60000
generator = np.random.default_rng(1)
x = generator.standard_normal((rows + 10000, 30), dtype=np.float32)
f = np.sin(2 * (x[:, 0] + 0.5 * x[:, 1])) + x[:, 2] * x[:, 3] / 2 + np.abs(x[:, 4])
y = f + 0.3 * generator.standard_normal(len(f), dtype=np.float32)
device = torch.device("cuda")
tensor = lambda a: torch.tensor(np.ascontiguousarray(a), device=device)
held = min(rows // 5, 20000)
started = time.time()
for bandwidth in (5.0, 20.0):
    if time.time() - started > limit:
        break
    torch.manual_seed(1)
    np.random.seed(1)
    begun = time.time()
    model = xRFM(
        rfm_params={
            "model": {"kernel": "l2", "bandwidth": bandwidth, "exponent": 1.0, "diag": False, "bandwidth_mode": "constant"},
            "fit": {"reg": 1e-3, "iters": 4, "verbose": False, "early_stop_rfm": True},
        },
        device=device,
        max_leaf_size=leaf,
        time_limit_s=limit if np.isfinite(limit) else None,
        tuning_metric="mse",
        verbose=False,
    )
    model.fit(tensor(x[held:rows]), tensor(y[held:rows, None]), tensor(x[:held]), tensor(y[:held, None]))
    seconds = time.time() - begun
    found = np.asarray(model.predict(tensor(x[rows:]))).reshape(-1)
    error = np.sqrt(np.mean((found - y[rows:]) ** 2)) / y[:rows].std()
    print(f"xrfm {rows} x 30, leaves of {leaf}, bandwidth {bandwidth:g}: error {error:.4f}, {seconds:.1f} s", flush=True)
