# The peers of predict.R: splits and predictions in a folder, which predict_peers.py also reads and writes, and the
# peers that are R packages. Sourced after predict-sets.R.
#
# FOLDER/SET/data.csv.gz                      the columns, then the response y (of classes: 1, 2, ...)
# FOLDER/SET/columns.csv                      the name and the type of each column
# FOLDER/SET/split-S-ROWS.csv.gz              for each row 1 (training), 2 (test) or 0; ROWS limits the training rows
# FOLDER/SET/predictions-S-ROWS-METHOD.csv.gz a line of seconds, then a number or the probabilities of all classes for
#                                             each test row

TEST_ROWS <- 10000

write_gz <- function(table, path) {
  part <- paste0(path, ".", Sys.getpid())
  file <- gzfile(part, "w")
  utils::write.csv(table, file, row.names = FALSE)
  close(file)
  file.rename(part, path)
}

write_set <- function(set, folder) {
  path <- file.path(folder, set$name)
  dir.create(path, recursive = TRUE, showWarnings = FALSE)
  if (file.exists(file.path(path, "data.csv.gz"))) return(invisible())
  y <- if (is.factor(set$y)) as.integer(set$y) else set$y
  types <- c(ifelse(vapply(set$x, is.factor, NA), "factor", "number"), if (is.factor(set$y)) "class" else "number")
  columns <- data.frame(name = c(names(set$x), "y"), type = types)
  utils::write.csv(columns, file.path(path, "columns.csv"), row.names = FALSE)
  write_gz(data.frame(set$x, y = y, check.names = FALSE), file.path(path, "data.csv.gz"))
}

# The rows in a random order, in which each beginning has the classes in about the proportions of the whole, and five
# folds of them, 1 to 5, which have the classes in these proportions, too: list(row, fold).
mixed_rows <- function(y) {
  set.seed(1, "Mersenne-Twister", "Inversion", "Rejection")
  row <- sample(length(y))
  if (!is.factor(y)) return(list(row = row, fold = (seq_along(row) - 1) %% 5 + 1))
  row <- row[order(y[row])]
  fold <- (seq_along(row) - 1) %% 5 + 1
  mixed <- order(stats::ave(seq_along(row), y[row], FUN = \(i) (seq_along(i) - 0.5) / length(i)))
  list(row = row[mixed], fold = fold[mixed])
}

# 1 for training rows, 2 for test rows, 0 for others: split s tests a fifth of the rows, which no other split tests. At
# most `rows` training rows and TEST_ROWS test rows.
split_of <- function(set, split, rows, folder) {
  path <- file.path(folder, set$name, sprintf("split-%d-%d.csv.gz", split, rows))
  if (file.exists(path)) return(utils::read.csv(path)$part)
  mixed <- mixed_rows(set$y)
  part <- integer(length(mixed$row))
  part[utils::head(mixed$row[mixed$fold != split], rows)] <- 1L
  part[utils::head(mixed$row[mixed$fold == split], TEST_ROWS)] <- 2L
  write_gz(data.frame(part = part), path)
  part
}

predictions_file <- function(name, split, rows, method, folder) {
  file.path(folder, name, sprintf("predictions-%d-%d-%s.csv.gz", split, rows, gsub(" ", "_", method)))
}

# list(guess, seconds): `guess` a vector, or a matrix with a column for each class. NULL if there are none.
read_predictions <- function(name, split, rows, method, folder) {
  path <- predictions_file(name, split, rows, method, folder)
  if (!file.exists(path)) return(NULL)
  lines <- readLines(path)
  guess <- as.matrix(utils::read.csv(text = lines[-1]))
  seconds <- as.numeric(strsplit(lines[1], " ")[[1]][3])
  list(guess = if (ncol(guess) == 1) as.vector(guess) else unname(guess), seconds = seconds)
}

write_predictions <- function(guess, seconds, path) {
  part <- paste0(path, ".", Sys.getpid())
  file <- gzfile(part, "w")
  table <- data.frame(signif(as.matrix(guess), 7))
  names(table) <- if (ncol(table) > 1) paste0("class", seq_along(table)) else "value"
  writeLines(sprintf("# seconds %.3f", seconds), file)
  utils::write.csv(table, file, row.names = FALSE)
  close(file)
  file.rename(part, path)
}

# ---- peers in R ---------------------------------------------------------------------------------

has <- function(package) requireNamespace(package, quietly = TRUE)

# The columns of x that vary, and the same columns of `new`. A category that x does not have becomes the commonest one
# of x.
for_model <- function(x, new) {
  keep <- vapply(x, \(column) length(unique(column)) > 1, NA)
  x <- x[keep]
  new <- new[keep]
  for (name in names(x)[vapply(x, is.factor, NA)]) {
    x[[name]] <- droplevels(x[[name]])
    common <- names(which.max(table(x[[name]])))
    levels <- as.character(new[[name]])
    new[[name]] <- factor(ifelse(levels %in% levels(x[[name]]), levels, common), levels(x[[name]]))
  }
  names(x) <- names(new) <- paste0("x", seq_along(x))
  list(x = x, new = new)
}

two_columns <- function(p) cbind(1 - p, p)

# A smooth term for each numeric column with at least five values, up to ten basis functions a column.
gam_formula <- function(x) {
  size <- max(4, min(10, nrow(x) %/% (3 * ncol(x))))
  terms <- vapply(names(x), \(name) {
    values <- if (is.factor(x[[name]])) 0 else length(unique(x[[name]]))
    if (values < 5) name else sprintf("s(%s, k = %d)", name, min(size, values - 1))
  }, "")
  stats::as.formula(paste("y ~", paste(terms, collapse = " + ")))
}

# Each: a function(x, y, new) for numbers or a matrix of probabilities. NULL where the method is not for such data.
R_PEERS <- list(
  linear = \(x, y, new) {
    if (!is.factor(y)) return(suppressWarnings(stats::predict(stats::lm(y ~ ., data.frame(x, y = y)), new)))
    if (nlevels(y) == 2) {
      fit <- suppressWarnings(stats::glm(y ~ ., stats::binomial, data.frame(x, y = y)))
      return(two_columns(suppressWarnings(stats::predict(fit, new, type = "response"))))
    }
    if (!has("nnet") || ncol(x) * nlevels(y) > 2000) return(NULL)
    data <- data.frame(x, y = y)
    fit <- nnet::multinom(y ~ ., data, trace = FALSE, maxit = 300, MaxNWts = 1e5)
    stats::predict(fit, new, type = "probs")
  },
  gam = \(x, y, new) {
    if (!has("mgcv") || ncol(x) > 60 || nlevels(y) > 2) return(NULL)
    family <- if (is.factor(y)) stats::binomial() else stats::gaussian()
    data <- data.frame(x, y = if (is.factor(y)) as.integer(y) - 1 else y)
    fit <- suppressWarnings(mgcv::bam(gam_formula(x), family, data, discrete = nrow(x) > 3000))
    guess <- as.vector(stats::predict(fit, new, type = "response"))
    if (is.factor(y)) two_columns(guess) else guess
  },
  ranger = \(x, y, new) {
    if (!has("ranger")) return(NULL)
    fit <- ranger::ranger(x = x, y = y, probability = is.factor(y), seed = 1, num.threads = parallel_cores())
    stats::predict(fit, new)$predictions
  },
  ksvm = \(x, y, new) {
    if (!has("kernlab")) return(NULL)
    set.seed(1)
    two <- nlevels(y) == 2
    utils::capture.output(fit <- kernlab::ksvm(y ~ ., data.frame(x, y = y), prob.model = two))
    guess <- kernlab::predict(fit, new, type = if (two) "probabilities" else "response")
    if (two || !is.factor(y)) return(if (two) guess else as.vector(guess))
    # With more classes, the probabilities of kernlab 0.9 contradict its classes: the classes alone count.
    outer(as.integer(guess), seq_len(nlevels(y)), "==") + 0
  },
  gausspr = \(x, y, new) {
    if (!has("kernlab") || nrow(x) > 2000 || nlevels(y) > 2) return(NULL)
    set.seed(1)
    utils::capture.output(fit <- kernlab::gausspr(y ~ ., data.frame(x, y = y)))
    guess <- kernlab::predict(fit, new, type = if (is.factor(y)) "probabilities" else "response")
    if (is.factor(y)) guess else as.vector(guess)
  },
  krls = \(x, y, new) {
    if (!has("KRLS") || is.factor(y) || nrow(x) > 2000) return(NULL)
    numbers <- \(x) stats::model.matrix(~ ., x)[, -1, drop = FALSE]
    utils::capture.output(fit <- KRLS::krls(numbers(x), y, vcov = FALSE, derivative = FALSE, print.level = 0))
    as.vector(stats::predict(fit, numbers(new))$fit)
  }
)

# Computes what the folder lacks of one split.
run_r_peers <- function(set, part, split, rows, folder, methods) {
  for (method in intersect(methods, names(R_PEERS))) {
    path <- predictions_file(set$name, split, rows, method, folder)
    if (file.exists(path)) next
    data <- for_model(set$x[part == 1, , drop = FALSE], set$x[part == 2, , drop = FALSE])
    guess <- NULL
    seconds <- elapsed(\() guess <<- tryCatch(R_PEERS[[method]](data$x, set$y[part == 1], data$new), error = \(e) {
      cat(set$name, split, paste0(method, ":"), conditionMessage(e), "\n")
    }))
    if (!is.null(guess) && all(is.finite(guess))) write_predictions(guess, seconds, path)
  }
}

# PYTHON names one or more interpreters, separated by commas: each computes the methods that it has the packages for.
run_python_peers <- function(name, splits, rows, folder, methods, seconds) {
  options <- c("--sets", name, "--rows", format(rows, scientific = FALSE), "--splits", splits, "--seconds", seconds)
  if (!is.null(methods)) options <- c(options, "--methods", shQuote(paste(methods, collapse = ",")))
  for (python in strsplit(Sys.getenv("PYTHON", "python3"), ",", fixed = TRUE)[[1]]) {
    system2(python, c(file.path(bench_folder, "predict_peers.py"), shQuote(folder), options))
  }
}
