# Bandwidth selectors. OURS: functions of the points that return a fit of flash_kde(). find_peers(): functions of the
# points that return the variance matrix of the plain estimate, or NULL for points that the selector does not support.

# ---- this package -----------------------------------------------------------------------------------

# Has this build the function, and the function the argument? So one list serves builds before and after a change.
offers <- function(fun, argument = NULL) {
  fun <- get0(fun, asNamespace("flashkernel"))
  !is.null(fun) && all(argument %in% names(formals(fun)))
}

# A fit by the method with the structure.
chosen_by <- function(method, estimator, structure) {
  force(method)
  force(estimator)
  force(structure)
  \(x) flash_kde(x, estimator, bandwidth = kde_bandwidth(x, method, estimator, structure))
}

OURS <- local({
  found <- list()
  left_out <- character()
  add <- function(name, fit, offered = TRUE) {
    if (offered) found[[name]] <<- fit else left_out <<- c(left_out, name)
  }
  for (estimator in c("sdkde", "kde", "laplace")) local({
    estimator <- estimator
    fit <- \(...) \(x) flash_kde(x, estimator, ...)
    add(estimator, if (offers("flash_kde.default", "adaptive")) fit(adaptive = FALSE) else fit())
    for (structure in c("scaled", "diagonal", "full")) {
      add(paste(estimator, structure), fit(structure = structure, adaptive = FALSE), offers("flash_kde.default", "structure"))
      add(paste(estimator, "lcv", structure), chosen_by("lcv", estimator, structure))
    }
    add(paste(estimator, "silverman"), \(x) flash_kde(x, estimator, bandwidth = kde_bandwidth(x, "silverman", estimator)))
  })
  add("default", \(x) flash_kde(x))
  add("kde adaptive", \(x) flash_kde(x, "kde", adaptive = TRUE), offers("flash_kde.default", "adaptive"))
  add("kde knn", \(x) flash_kde(x, "kde", adaptive = "knn"), offers("flash_kde.default", "adaptive"))
  add("kde lcv sphered", chosen_by("lcv", "kde", "sphered"))
  for (method in c("lscv", "scv", "plugin")) for (structure in c("scaled", "diagonal", "full")) {
    add(paste("kde", method, structure), chosen_by(method, "kde", structure))
  }
  add("laplace lscv full", chosen_by("lscv", "laplace", "full"))
  add("kde scott", \(x) flash_kde(x, "kde", bandwidth = kde_bandwidth(x, "scott", "kde")))
  structure(found, left_out = left_out)
})

# ---- peers --------------------------------------------------------------------------------------------

from_ks <- function(line, space) {
  \(x) if (ncol(x) == 1) line(x[, 1])^2 else if (ncol(x) <= 6) space(x)
}

on_a_line <- function(select) \(x) if (ncol(x) == 1) select(x[, 1])^2

python_peer <- function(name, most) {
  \(x) {
    if (nrow(x) > most) return(NULL)
    file <- tempfile()
    on.exit(unlink(file))
    writeBin(as.vector(t(x)), file)
    lines <- suppressWarnings(system2(
      "timeout", c(job_limit(), python, "bench/bandwidths/peers.py", name, file, dim(x)),
      stdout = TRUE, stderr = FALSE, env = c("LD_LIBRARY_PATH=", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
    ))
    if (length(lines) == 0) stop("no answer of ", python, " in ", job_limit(), " s")
    diag(as.numeric(strsplit(lines[length(lines)], " ")[[1]])^2, ncol(x))
  }
}

has_package <- function(name) requireNamespace(name, quietly = TRUE)
has_python <- function(module) {
  code <- shQuote(paste("import", module))
  0 == suppressWarnings(system2(python, c("-c", code), env = "LD_LIBRARY_PATH=", stdout = FALSE, stderr = FALSE))
}

# scikit-learn's search without its time: 5 folds, 20 bandwidths, columns of unit variance, exact densities.
five_folds <- function(x) {
  spread <- apply(x, 2, stats::sd)
  folds <- split(seq_len(nrow(x)), rep_len(1:5, nrow(x)))
  grid <- 10^seq(-2, 0.5, length.out = 20)
  score <- vapply(grid, \(h) {
    sum(vapply(folds, \(rows) {
      fit <- flash_kde(x[-rows, , drop = FALSE], "kde", bandwidth = h * spread)
      sum(stats::predict(fit, x[rows, , drop = FALSE], type = "log_density"))
    }, 0))
  }, 0)
  diag((grid[which.max(score)] * spread)^2, ncol(x))
}

# What each is for is a matter of time, too: ks beyond its binned sums (d > 4) takes minutes.
find_peers <- function() {
  found <- list()
  left_out <- character()
  add <- function(needs, peers, there = has_package(needs)) {
    if (there) found <<- c(found, peers) else left_out <<- c(left_out, needs)
  }
  add("stats", list(
    "5 folds" = five_folds, "bw.nrd0" = on_a_line(stats::bw.nrd0), "bw.SJ" = on_a_line(stats::bw.SJ),
    "bw.ucv" = on_a_line(stats::bw.ucv)
  ))
  add("KernSmooth", list("KernSmooth dpik" = on_a_line(\(x) KernSmooth::dpik(x))))
  add("ks", list(
    "ks Hpi" = from_ks(\(x) ks::hpi(x), \(x) ks::Hpi(x)),
    "ks Hpi.diag" = \(x) if (ncol(x) > 1 && ncol(x) <= 6) ks::Hpi.diag(x),
    "ks Hscv" = from_ks(\(x) ks::hscv(x), \(x) ks::Hscv(x)),
    "ks Hlscv" = from_ks(\(x) ks::hlscv(x), \(x) ks::Hlscv(x)),
    "ks Hns" = \(x) if (ncol(x) == 1) matrix(ks::hns(x[, 1])^2) else ks::Hns(x)
  ))
  # of degree 0 it is a plain estimate
  add("kde1d", list("kde1d" = on_a_line(\(x) kde1d::kde1d(x, deg = 0)$bw)))
  add("np", list("np cv.ml" = \(x) {
    if (nrow(x) <= 1000) diag(np::npudensbw(as.data.frame(x), bwmethod = "cv.ml", ckertype = "gaussian")$bw^2, ncol(x))
  }))
  add("sklearn", list("sklearn" = python_peer("sklearn", 20000)), has_python("sklearn"))
  add("statsmodels", list("statsmodels cv_ml" = python_peer("statsmodels", 1000)), has_python("statsmodels"))
  structure(found, left_out = left_out)
}
