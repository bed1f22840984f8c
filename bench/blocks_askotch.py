"""ASkotch (github.com/pratikrathore8/fast_krr) on the rows of `blocks.R write`: residual and error by seconds.

  PYTHONPATH=fast_krr python3 bench/blocks_askotch.py FILE ROWS COLUMNS SIGMA LAMBDA SECONDS [STEPS]

Its kernels are products of PyTorch here, in parts of 4 GB: KeOps 2.2.3 and 2.3 end with a segmentation fault beside CUDA 13. Its
authors' defaults: blocks of a hundredth of the rows, the Nystroem preconditioner of rank 100, acceleration, single
precision. A line after each 50 steps (or STEPS): steps, seconds without those of the line, relative residual, error at new
rows. A hundred steps meet as many pairs as one pass.
"""

import sys
import time

import types

import numpy as np
import torch


class LazyTensor:
    """The points of pykeops.torch.LazyTensor."""

    def __init__(self, x):
        self.points = x.squeeze(0 if x.shape[0] == 1 else 1)


class Gaussian:
    """A matrix of Gaussian kernels in single precision, never whole."""

    def __init__(self, x, y, sigma):
        self.x, self.y, self.scale, self.shape = x, y, -0.5 / sigma**2, (len(x), len(y))

    def __matmul__(self, v):
        squares = (self.y**2).sum(1)
        step = max(1, 10**9 // len(self.y))
        parts = []
        for x in torch.split(self.x, step):
            k = torch.addmm(squares, x, self.y.T, beta=1, alpha=-2).add_((x**2).sum(1)[:, None])
            parts.append(k.clamp_(min=0).mul_(self.scale).exp_() @ v)
        return torch.cat(parts)


sys.modules["pykeops"], sys.modules["pykeops.torch"] = types.ModuleType("pykeops"), types.ModuleType("pykeops.torch")
sys.modules["pykeops.torch"].LazyTensor = LazyTensor
from fast_krr.kernels.rbf import Rbf

Rbf._get_kernel = staticmethod(lambda x, y, p: Gaussian(x.points, y.points, p["sigma"]))
from fast_krr.models import FullKRR
from fast_krr.opts import ASkotchV2

file, rows, columns = sys.argv[1], int(float(sys.argv[2])), int(sys.argv[3])
sigma, penalty, seconds = map(float, sys.argv[4:7])
every = int(sys.argv[7]) if len(sys.argv) > 7 else 50
new = 1000
numbers = np.fromfile(file, dtype=np.float32)
parts = np.split(numbers, np.cumsum([rows * columns, rows, new * columns]))
device = torch.device("cuda")
points = lambda part: torch.tensor(np.ascontiguousarray(part.reshape(columns, -1).T), device=device)
x, y, at, truth = points(parts[0]), torch.tensor(parts[1], device=device), points(parts[2]), torch.tensor(parts[3], device=device)

torch.manual_seed(1)
np.random.seed(1)
model = FullKRR(
    x, y, at, truth, kernel_params={"type": "rbf", "sigma": sigma}, Ktr_needed=True, lambd=penalty * rows,
    task="regression", w0=torch.zeros(rows, device=device), device=device,
)
with torch.no_grad():
    warm = ASkotchV2(model=model, block_sz=rows // 100, precond_params={"type": "nystrom", "r": 100, "rho": "damped"})
    warm.step()
    model.w = torch.zeros(rows, device=device)
    spent, step = 0.0, 0
    begun = time.time()
    solver = ASkotchV2(model=model, block_sz=rows // 100, precond_params={"type": "nystrom", "r": 100, "rho": "damped"})
    while spent < seconds:
        solver.step()
        step += 1
        if step % every == 0:
            torch.cuda.synchronize()
            spent += time.time() - begun
            left = float(torch.linalg.norm(model.lin_op(model.w) - y) / torch.linalg.norm(y))
            error = float(torch.sqrt(torch.mean((model.K_tst @ model.w - truth) ** 2)))
            print(f"{step:5d} {spent:8.2f} s  residual {left:.1e}  error {error:.5f}", flush=True)
            begun = time.time()
