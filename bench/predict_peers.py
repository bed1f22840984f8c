"""Predictions of other programs for the splits that predict.R wrote.

    python3 bench/predict_peers.py FOLDER [--rows 10000] [--sets a,b] [--methods a,b] [--splits 5] [--threads N]
                                   [--configurations 20] [--seconds 600]

FOLDER/SET/data.csv.gz holds the columns and, last, the response `y`; columns.csv names the type of each column;
split-S-ROWS.csv.gz marks rows with 1 (training) and 2 (test). Each method writes the file
predictions-S-ROWS-METHOD.csv.gz: a line of seconds and of the number of settings that were tried, then a line for each
test row with a number, or with a probability for each class. What is there is not computed again.

Gradient boosting is run with its defaults (100 trees; CatBoost 1,000) and tuned: a random search of --configurations
settings with early stopping on a fifth of the training rows, then a fit of all training rows. A search ends early
after --seconds, but not before 5 settings. A method that a machine lacks is skipped.
"""

import argparse
import gzip
import os
import time
import warnings

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # waiting threads sleep: the machine may be busy

import numpy as np
import pandas as pd

warnings.filterwarnings("ignore")


# ---- data ---------------------------------------------------------------------------------------


class Task:
    """One split of a set: pandas frames, and the response as standardised numbers or class numbers."""

    def __init__(self, folder, split, rows):
        types = pd.read_csv(os.path.join(folder, "columns.csv"))
        factors = [name for name, kind in zip(types["name"], types["type"]) if kind == "factor"]
        data = pd.read_csv(
            os.path.join(folder, "data.csv.gz"), dtype={name: str for name in factors}, keep_default_na=False
        )
        part = pd.read_csv(os.path.join(folder, f"split-{split}-{rows}.csv.gz"))["part"].to_numpy()
        is_class = types["type"].iloc[-1] == "class"  # then the response is a number from 1
        self.classes = list(range(int(data["y"].max()))) if is_class else None
        self.factors = factors
        x = data.drop(columns="y")
        for name in self.factors:
            x[name] = x[name].astype(pd.CategoricalDtype(sorted(x[name].unique())))
        y = data["y"].to_numpy() - 1 if is_class else data["y"].to_numpy()
        self.x, self.new = x[part == 1].reset_index(drop=True), x[part == 2].reset_index(drop=True)
        self.y = y[part == 1]
        if not self.classes:
            self.centre, self.spread = self.y.mean(), self.y.std() or 1.0
            self.y = (self.y - self.centre) / self.spread

    def held_out(self):
        """Training rows for a search and the fifth of them that is held out, as masks."""
        held = np.zeros(len(self.y), bool)
        held[np.random.default_rng(1).permutation(len(self.y))[: len(self.y) // 5]] = True
        return ~held, held

    def dense(self):
        """Numbers standardised by the training rows, then a column for each category. Returns training rows, test
        rows, how many columns are numbers, and the columns of each factor."""
        numbers = [name for name in self.x if name not in self.factors]
        spread = self.x[numbers].std().replace(0, 1)
        blocks, parts, new_parts, at = [], [], [], len(numbers)
        parts.append(((self.x[numbers] - self.x[numbers].mean()) / spread).to_numpy(np.float64))
        new_parts.append(((self.new[numbers] - self.x[numbers].mean()) / spread).to_numpy(np.float64))
        for name in self.factors:
            levels = self.x[name].cat.categories
            parts.append((self.x[name].to_numpy()[:, None] == levels.to_numpy()[None, :]).astype(np.float64))
            new_parts.append((self.new[name].to_numpy()[:, None] == levels.to_numpy()[None, :]).astype(np.float64))
            blocks.append(range(at, at + len(levels)))
            at += len(levels)
        return np.hstack(parts), np.hstack(new_parts), len(numbers), blocks

    def loss(self, prediction, y):
        if not self.classes:
            return float(np.mean((prediction - y) ** 2))
        chosen = np.clip(np.asarray(prediction)[np.arange(len(y)), y], 1e-6, 1)
        return float(-np.mean(np.log(chosen)))

    def all_classes(self, probabilities, known):
        """Columns for all classes from those of the classes that a model has seen."""
        full = np.zeros((len(probabilities), len(self.classes)))
        full[:, np.asarray(known, int)] = probabilities
        return full


# ---- gradient boosting --------------------------------------------------------------------------
# Functions of the task, settings, training rows, held-out rows or None, and rows to predict. Each returns predictions
# and the number of trees.


def predict_model(task, model, x, **more):
    if not task.classes:
        return model.predict(x, **more)
    return task.all_classes(model.predict_proba(x, **more), model.classes_)


def lightgbm(task, settings, fit, held, new, threads):
    import lightgbm as library

    kind = library.LGBMClassifier if task.classes else library.LGBMRegressor
    model = kind(n_jobs=threads, random_state=1, verbose=-1, **settings)
    if held is None:
        model.fit(task.x[fit], task.y[fit])
        return predict_model(task, model, new), model.n_estimators
    model.fit(
        task.x[fit],
        task.y[fit],
        eval_set=[(task.x[held], task.y[held])],
        callbacks=[library.early_stopping(50, verbose=False)],
    )
    return predict_model(task, model, new), model.best_iteration_ or settings["n_estimators"]


def xgboost(task, settings, fit, held, new, threads):
    import xgboost as library

    kind = library.XGBClassifier if task.classes else library.XGBRegressor
    stop = {} if held is None else {"early_stopping_rounds": 50}
    model = kind(n_jobs=threads, random_state=1, enable_categorical=True, tree_method="hist", **settings, **stop)
    if held is None:
        model.fit(task.x[fit], task.y[fit])
        return predict_model(task, model, new), settings.get("n_estimators", 100)
    model.fit(task.x[fit], task.y[fit], eval_set=[(task.x[held], task.y[held])], verbose=False)
    return predict_model(task, model, new), model.best_iteration + 1


def catboost(task, settings, fit, held, new, threads):
    import catboost as library

    kind = library.CatBoostClassifier if task.classes else library.CatBoostRegressor
    stop = {} if held is None else {"early_stopping_rounds": 50}
    model = kind(
        thread_count=threads,
        random_seed=1,
        verbose=False,
        allow_writing_files=False,
        cat_features=task.factors,
        **settings,
        **stop,
    )
    texts = lambda x: x.astype({name: str for name in task.factors})
    fit_x = texts(task.x[fit])
    if held is None:
        model.fit(fit_x, task.y[fit])
    else:
        model.fit(fit_x, task.y[fit], eval_set=(texts(task.x[held]), task.y[held]))
    prediction = predict_model(task, model, texts(new))
    return prediction, model.tree_count_


def lightgbm_settings(draw):
    return dict(
        n_estimators=2000,
        learning_rate=np.exp(draw.uniform(np.log(0.02), np.log(0.2))),
        num_leaves=int(draw.choice([7, 15, 31, 63, 127])),
        min_child_samples=int(draw.choice([2, 5, 10, 20, 50])),
        subsample=draw.uniform(0.5, 1),
        subsample_freq=1,
        colsample_bytree=draw.uniform(0.4, 1),
        reg_lambda=np.exp(draw.uniform(np.log(1e-3), np.log(10))),
    )


def xgboost_settings(draw):
    return dict(
        n_estimators=2000,
        learning_rate=np.exp(draw.uniform(np.log(0.02), np.log(0.2))),
        max_depth=int(draw.integers(3, 11)),
        min_child_weight=np.exp(draw.uniform(0, np.log(20))),
        subsample=draw.uniform(0.5, 1),
        colsample_bytree=draw.uniform(0.4, 1),
        reg_lambda=np.exp(draw.uniform(np.log(1e-2), np.log(10))),
    )


def catboost_settings(draw):
    return dict(
        iterations=2000,
        learning_rate=np.exp(draw.uniform(np.log(0.03), np.log(0.3))),
        depth=int(draw.integers(4, 9)),
        l2_leaf_reg=np.exp(draw.uniform(0, np.log(10))),
        random_strength=np.exp(draw.uniform(np.log(0.1), np.log(10))),
        bagging_temperature=draw.uniform(0, 1),
    )


BOOSTING = {
    "lightgbm": (lightgbm, lightgbm_settings, "n_estimators"),
    "xgboost": (xgboost, xgboost_settings, "n_estimators"),
    "catboost": (catboost, catboost_settings, "iterations"),
}


def boosted(name):
    method = BOOSTING[name][0]
    return lambda task, options: method(task, {}, np.ones(len(task.y), bool), None, task.new, options.threads)[0]


def boosted_tuned(name):
    method, settings_of, count = BOOSTING[name]

    def run(task, options):
        fit, held = task.held_out()
        draw = np.random.default_rng(2)
        best, started = None, time.time()
        for i in range(options.configurations):
            if i >= 5 and time.time() - started > options.seconds:
                break
            settings = settings_of(draw)
            prediction, trees = method(task, settings, fit, held, task.x[held], options.threads)
            task.tried = i + 1
            loss = task.loss(prediction, task.y[held])
            if best is None or loss < best[0]:
                best = (loss, {**settings, count: max(int(trees), 1)})
        return method(task, best[1], np.ones(len(task.y), bool), None, task.new, options.threads)[0]

    return run


# ---- scikit-learn -------------------------------------------------------------------------------


def forest(kind, coded=True):
    def run(task, options):
        from sklearn import ensemble

        maker = getattr(ensemble, kind + ("Classifier" if task.classes else "Regressor"))
        if kind == "HistGradientBoosting":
            model = maker(random_state=1, categorical_features="from_dtype").fit(task.x, task.y)
            return predict_model(task, model, task.new)
        x, new, _, _ = task.dense()
        settings = {} if task.classes else {"max_features": 0.4}
        model = maker(n_estimators=500, n_jobs=options.threads, random_state=1, **settings).fit(x, task.y)
        return predict_model(task, model, new)

    return run


def gaussian_process(task, options):
    """Exact, Matern 5/2: a length scale for each column if there are up to 10, else one for all. None for classes and
    for more than 1,500 rows."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    if task.classes or len(task.y) > 1500:
        return None
    x, new, _, _ = task.dense()
    scale = np.full(x.shape[1], 2.0) if x.shape[1] <= 10 else float(np.sqrt(x.shape[1]))
    kernel = ConstantKernel(1.0, (1e-2, 1e4)) * Matern(scale, (1e-2, 1e4), nu=2.5) + WhiteKernel(0.1, (1e-8, 10))
    return GaussianProcessRegressor(kernel, random_state=1).fit(x, task.y).predict(new)


# ---- xrfm ---------------------------------------------------------------------------------------


def xrfm(task, options):
    """The best of eight settings (bandwidth 5 and 20, penalty 1e-3 and 1e-2, diagonal and full metric) on a fifth held
    out. Preprocessed as its authors recommend: standardised numbers, a column for each category."""
    import torch
    from xrfm import xRFM

    torch.set_num_threads(options.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, new, numbers, blocks = task.dense()
    tensor = lambda a: torch.tensor(np.ascontiguousarray(a), dtype=torch.float32, device=device)
    categories = None
    if blocks:
        categories = dict(
            numerical_indices=torch.arange(numbers, device=device),
            categorical_indices=[torch.tensor(list(block), device=device) for block in blocks],
            categorical_vectors=[torch.eye(len(block), device=device) for block in blocks],
        )
    fit, held = task.held_out()
    y = tensor(task.y)[:, None] if not task.classes else torch.tensor(task.y, dtype=torch.long, device=device)[:, None]
    best = None
    for bandwidth in (5.0, 20.0):
        for penalty in (1e-3, 1e-2):
            for diagonal in (False, True):
                torch.manual_seed(1)
                np.random.seed(1)
                model = xRFM(
                    rfm_params={
                        "model": {
                            "kernel": "l2",
                            "bandwidth": bandwidth,
                            "exponent": 1.0,
                            "diag": diagonal,
                            "bandwidth_mode": "constant",
                        },
                        "fit": {"reg": penalty, "iters": 4, "verbose": False, "early_stop_rfm": True},
                    },
                    device=device,
                    tuning_metric="brier" if task.classes else "mse",
                    categorical_info=categories,
                    verbose=False,
                )
                model.fit(tensor(x[fit]), y[fit], tensor(x[held]), y[held])
                predict = lambda rows: np.asarray(
                    model.predict_proba(tensor(rows)) if task.classes else model.predict(tensor(rows)).reshape(-1)
                )
                loss = task.loss(predict(x[held]), task.y[held])
                if best is None or loss < best[0]:
                    best = (loss, predict(new))
    return best[1]


# ---- all of them --------------------------------------------------------------------------------

METHODS = {
    "lightgbm": boosted("lightgbm"),
    "xgboost": boosted("xgboost"),
    "histgb": forest("HistGradientBoosting"),
    "extra trees": forest("ExtraTrees"),
    "random forest": forest("RandomForest"),
    "gp": gaussian_process,
    "catboost": boosted("catboost"),
    "lightgbm tuned": boosted_tuned("lightgbm"),
    "xgboost tuned": boosted_tuned("xgboost"),
    "catboost tuned": boosted_tuned("catboost"),
    "xrfm": xrfm,
}
NEEDS = {"lightgbm": "lightgbm", "xgboost": "xgboost", "catboost": "catboost", "xrfm": "xrfm"}


def is_there(method):
    from importlib.util import find_spec

    return find_spec(NEEDS.get(method.split()[0], "sklearn")) is not None


def write(path, task, prediction, seconds):
    table = np.asarray(prediction, float)
    if not task.classes:
        table = table.reshape(-1, 1) * task.spread + task.centre
    else:
        table = np.clip(table, 0, 1)
    names = [f"class{i + 1}" for i in range(table.shape[1])] if task.classes else ["value"]
    part = path + f".{os.getpid()}"
    with gzip.open(part, "wt") as file:
        file.write(f"# seconds {seconds:.3f} settings {task.tried}\n")
        pd.DataFrame(table, columns=names).to_csv(file, index=False, float_format="%.7g")
    os.replace(part, path)


def measure(options, name, split, method, tasks):
    folder = os.path.join(options.folder, name)
    if not os.path.exists(os.path.join(folder, f"split-{split}-{options.rows}.csv.gz")):
        return
    path = os.path.join(folder, f"predictions-{split}-{options.rows}-{method.replace(' ', '_')}.csv.gz")
    if os.path.exists(path):
        return
    if split not in tasks:
        tasks[split] = Task(folder, split, options.rows)
    task, started = tasks[split], time.time()
    task.tried = 1
    options.threads = options.given_threads or (1 if len(task.y) <= 5000 else os.cpu_count())
    try:
        prediction = METHODS[method](task, options)
    except Exception as problem:  # a peer that fails has no result: the report says so
        print(f"{name} {split} {method}: {type(problem).__name__}: {str(problem)[:300]}", flush=True)
        return
    if prediction is None:
        return
    seconds = time.time() - started
    write(path, task, prediction, seconds)
    print(f"{name} {split} {method}: {seconds:.1f} s, settings: {task.tried}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--sets")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores, but one for up to 5,000 training rows")
    parser.add_argument("--configurations", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=600)
    options = parser.parse_args()
    options.given_threads = options.threads
    names = options.sets.split(",") if options.sets else sorted(os.listdir(options.folder))
    methods = [name for name in options.methods.split(",") if is_there(name)]
    for name in names:
        tasks = {}
        for split in range(1, options.splits + 1):
            for method in methods:
                measure(options, name, split, method, tasks)


if __name__ == "__main__":
    main()
