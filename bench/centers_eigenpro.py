"""EigenPro 4 (github.com/EigenPro/EigenPro) on the rows of `centers.R write`: seconds and error at new rows of an epoch.

  PYTHONPATH=EigenPro python3 bench/centers_eigenpro.py FILE ROWS COLUMNS CENTRES [EPOCHS]

Its authors' example: Laplacian kernel of bandwidth 20, single precision, rows in host memory, and as many temporary
centres as centres. The preconditioners are those of the defaults of solver.fit(): 3,000 rows and centres, 150
eigenvalues. Centres are random rows.
"""

import sys
import time

import numpy as np
import torch

import eigenpro.kernels as kernels
import eigenpro.models.sharded_kernel_machine as skm
import eigenpro.solver as solver
import eigenpro.utils.device as dev
import eigenpro.utils.metrics as metrics

file, (rows, columns, centres) = sys.argv[1], [int(float(v)) for v in sys.argv[2:5]]
epochs = int(sys.argv[5]) if len(sys.argv) > 5 else 1
new, outputs = 2000, 10
numbers = np.fromfile(file, dtype=np.float32)
sizes = [rows * columns, rows * outputs, new * columns, new * outputs]
parts = np.split(numbers, np.cumsum(sizes)[:-1])
x, y, at, truth = [
    torch.from_numpy(np.ascontiguousarray(part.reshape(-1, count).T)) for part, count in zip(parts, (rows, rows, new, new))
]
del numbers, parts

torch.manual_seed(1)
np.random.seed(1)
kernel = lambda a, b: kernels.laplacian(a, b, bandwidth=20.0)
device = dev.Device.create(use_gpu_if_available=True)
torch.zeros(1, device=device.device_base)
scale = truth.var(dim=0).mean().sqrt()
began = time.time()
aside = 0.0


def error(model, a, b):
    """Called after each epoch, in place of the accuracy of classes."""
    global aside
    start = time.time()
    with torch.no_grad():
        found = torch.cat([model.forward(part, train=False).cpu() for part in torch.split(at, 500)])
        value = ((found - truth) ** 2).mean().sqrt() / scale
    aside += time.time() - start
    print(f"{time.time() - began - aside:8.2f} s  error {value:.5f}", flush=True)
    return value, value


metrics.get_performance = error
with torch.no_grad():
    some = torch.from_numpy(np.random.choice(rows, centres, replace=False))
    model = skm.create_sharded_kernel_machine(x[some], outputs, kernel, device, dtype=torch.float32, tmp_centers_coeff=2)
    solver.fit(model, x, y, at, truth, device, dtype=torch.float32, kernel=kernel, epochs=epochs)
print(f"{centres} centres: {time.time() - began - aside:.1f} s, {torch.cuda.max_memory_allocated() / 2**30:.0f} GiB of the GPU", flush=True)
