# Falkon's table of times: fits at the sizes of its sets (n, d, m, responses, iterations and penalties of its paper),
# from R's matrices to the fitted object, compared with the seconds that the paper prints for one and two Titan Xp.
#
#   Rscript bench/paper/falkon.R [--size small|full] [--backend auto|cpu|cuda] [--falkon PATH] [--only NAMES]
#     [--devices 1,2]
#
# Points are Weyl sequences, since the time does not depend on the numbers; labels of logistic fits are drawn at random.
# small: a hundredth of the rows, at most 20,000, and 500 or 1,000 centres. full: small, susy, msd and the size of susy
# with logistic loss; with --only also higgs (a minute of an H200), timit, taxi and logistic (HIGGS). If PATH is a built
# checkout of github.com/FalkonML/falkon, the reference library runs as well, on small, susy and msd. --devices: numbers
# of GPUs, one after the other.

source("bench/paper/common.R")
source("bench/falkon-common.R")

on_gpu <- backend == "cuda" || (backend == "auto" && gpu_info()$status == "available")
where <- if (on_gpu) "cuda" else "cpu"

# Seconds that the paper prints, on one and two Titan Xp (24 GB of GPU memory in all); its errors are of the real
# sets.
PRINTED <- utils::read.table(header = TRUE, row.names = 1, text = "
           one  two  error                measure
  susy     29   22   '19.67 %'           'wrong classes'
  msd      81   62   '4.4834e-3'          'relative error'
  timit    416  288  '32.27 %'           'wrong classes'
  higgs    715  443  '0.1804'             '1 - AUC'
  taxi     7215 3628 '311.7'              'RMSE'
  logistic NA   2267 '0.1787'             '1 - AUC'
")

shapes <- function() {
  shapes <- falkon_sizes
  shapes["susy-logistic", ] <- replace(shapes["susy", ], c("iterations", "lambda"), list(9, 1e-8))
  if (!full) {
    shapes$n <- pmin(20000, shapes$n / 100)
    shapes$m <- pmin(1000, pmax(500, shapes$m / 20))
    shapes$of <- 1
  }
  shapes[option_values("--only", if (full) c("small", "susy", "msd", "susy-logistic") else rownames(shapes)[-7]), ]
}

fit_on <- function(count, name, size, x, y, logistic) {
  control <- flash_control(backend = where, devices = if (on_gpu) seq_len(count) - 1L)
  made <- fit_size(size, x, y, if (logistic) "logistic" else "squared", control)
  stages <- made$fit$seconds
  some <- seq_len(min(size$n, 1e5))
  residual <- if (logistic) NA else sqrt(mean((as.matrix(y)[some, ] - predict(made$fit, x[some, ]))^2))
  # of which the preconditioner alone does not grow with the rows
  all_rows <- size$of * (made$seconds - stages[["preconditioner"]]) + stages[["preconditioner"]]
  data.frame(
    set = name, program = "flashkernel", devices = count, n = size$n, d = size$d, m = size$m,
    responses = size$outputs,
    iterations = made$fit$iterations, seconds = made$seconds, preconditioner = stages[["preconditioner"]],
    products = stages[["iterations"]], all_rows = all_rows, residual, host_gib = made$peak,
    device_gib = if (on_gpu) gpu_info()$memory_peak[1] / 2^30 else NA
  )
}

measure_shape <- function(name, size) {
  logistic <- grepl("logistic", name)
  x <- weyl_points(size$n, size$d)
  y <- weyl_response(x, size$outputs)
  set.seed(1)
  if (logistic) y <- stats::runif(size$n) < stats::plogis(2 * y)
  counts <- as.integer(option_values("--devices", 1))
  rows <- do.call(rbind, lapply(counts, fit_on, name, size, x, y, logistic))
  theirs <- if (name %in% c("small", "susy", "msd")) library_seconds(name, size) else c(NA, NA)
  if (is.na(theirs[1])) return(rows)
  library <- replace(rows[1, ], c("program", "seconds", "preconditioner"), list("Falkon, here", theirs[1], theirs[2]))
  rbind(rows, replace(library, c("products", "all_rows", "residual", "host_gib", "device_gib"), NA))
}

measure <- function() {
  if (is.null(option("--falkon"))) left_out("the reference library", "no path given (--falkon PATH)")
  invisible(fit_on(1, "warm", replace(falkon_sizes["small", ], c("n", "m"), list(5000, 200)), weyl_points(5000, 10),
                   weyl_points(5000, 1), FALSE))
  sizes <- shapes()
  do.call(rbind, lapply(rownames(sizes), \(name) measure_shape(name, sizes[name, ])))
}

rows <- paper_rows("falkon", "Falkon at the shapes of its sets", measure)

# All rows of a set, where fewer were measured (taxi): projected.
rows$shown <- ifelse(is.na(rows$all_rows), rows$seconds, rows$all_rows)
paper_plot("falkon", height = 700, draw = \() {
  sets <- unique(rows$set)
  programs <- c("flashkernel", "Falkon, here", "Falkon, 2 Titan Xp (paper)")
  of <- \(program) vapply(sets, \(set) {
    if (program == programs[3]) return(if (full) PRINTED[set, "two"] else NA)
    min(c(Inf, rows$shown[rows$set == set & rows$program == program]))
  }, 0)
  heights <- vapply(programs, of, numeric(length(sets)))
  heights[!is.finite(heights)] <- NA
  present <- colSums(!is.na(heights)) > 0
  heights <- matrix(heights, length(sets), dimnames = list(sets, programs))[, present, drop = FALSE]
  graphics::par(mar = c(5.6, 5.2, 2, 0.8))
  least <- 10^floor(log10(min(heights, na.rm = TRUE)))
  at <- graphics::barplot(t(heights), beside = TRUE, log = "y", col = colours_of(programs)[present], border = NA,
                          ylim = c(least, 2 * max(heights, na.rm = TRUE)),
                          main = "Fits at the shapes of Falkon's sets")
  graphics::title(ylab = "seconds of a fit", line = 3.8)
  graphics::text(at, t(heights), ifelse(is.na(t(heights)), "", format(signif(t(heights), 2), drop0trailing = TRUE,
    trim = TRUE)), pos = 3, cex = 0.75, xpd = NA)
  legend_below(programs[present], among = programs, pch = 15, lty = 0)
})

show_table(data.frame(
  set = rows$set, program = rows$program, devices = rows$devices, n = format_count(rows$n), d = rows$d,
  m = format_count(rows$m),
  its = rows$iterations, s = signif(rows$seconds, 3), preconditioner = signif(rows$preconditioner, 3),
  products = signif(rows$products, 3),
  `all rows` = signif(rows$all_rows, 3), residual = signif(rows$residual, 3), `host GiB` = signif(rows$host_gib, 3),
  check.names = FALSE
))
if (full) {
  cat("Printed: seconds on one and two Titan Xp, and errors of the real sets\n")
  show_table(data.frame(set = rownames(PRINTED), PRINTED))
}
