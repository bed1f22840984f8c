"""Intervals of LightGBM for intervals.R, by conformalised quantile regression (Romano, Patterson and Candes 2019).

    intervals_peers.py TRAIN.csv NEW.csv ENDS.csv LEVEL

Two quantile regressions of 70 percent of the rows, with default settings; the others are for calibration."""
import math
import sys

import lightgbm
import numpy
import pandas

train, new, ends, level = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
data = pandas.read_csv(train)
y = data.pop("y").to_numpy()
x, at = data.to_numpy(), pandas.read_csv(new).to_numpy()
order = numpy.random.default_rng(1).permutation(len(y))
fit, held = order[: int(0.7 * len(y))], order[int(0.7 * len(y)) :]


def quantile(alpha):
    model = lightgbm.LGBMRegressor(objective="quantile", alpha=alpha, n_jobs=2, verbose=-1).fit(x[fit], y[fit])
    return model.predict(x[held]), model.predict(at)


low, high = quantile((1 - level) / 2), quantile((1 + level) / 2)
scores = numpy.sort(numpy.maximum(low[0] - y[held], y[held] - high[0]))
rank = math.ceil(level * (len(held) + 1))
width = scores[rank - 1] if rank <= len(held) else numpy.inf
pandas.DataFrame({"low": low[1] - width, "high": high[1] + width}).to_csv(ends, index=False)
