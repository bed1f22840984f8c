"""LightGBM's predictions for families.R: python3 families_lightgbm.py FOLDER

FOLDER has train.csv and test.csv (numbers, the response last), and task.txt: the objective of LightGBM and, for
quantiles, the levels. Rounds end by early stopping on a fifth of the training rows. Writes guess.csv."""

import sys

import lightgbm as lgb
import numpy as np

folder = sys.argv[1]
train, test = (np.loadtxt(f"{folder}/{part}.csv", delimiter=",", skiprows=1) for part in ("train", "test"))
objective, *levels = open(f"{folder}/task.txt").read().split()
held = np.arange(len(train)) % 5 == 0
guesses = []
for level in levels or [None]:
    settings = {"objective": objective, "learning_rate": 0.05, "num_leaves": 15, "verbose": -1, "num_threads": 1}
    if level:
        settings["alpha"] = float(level)
    fit_rows = lgb.Dataset(train[~held, :-1], train[~held, -1], params={"verbose": -1})
    held_rows = lgb.Dataset(train[held, :-1], train[held, -1], reference=fit_rows)
    found = lgb.train(settings, fit_rows, 2000, [held_rows], callbacks=[lgb.early_stopping(30, verbose=False)])
    whole = lgb.train(settings, lgb.Dataset(train[:, :-1], train[:, -1]), max(1, found.best_iteration))
    guesses.append(whole.predict(test[:, :-1]))
np.savetxt(f"{folder}/guess.csv", np.column_stack(guesses), delimiter=",")
