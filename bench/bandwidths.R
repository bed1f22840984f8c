# Compares all bandwidth selectors of this package and of other packages, on real data by held-out log density, and on
# simulated families by integrated squared error.
#
#   Rscript bench/bandwidths.R [--size small|full] [--out FOLDER] [--label NAME]
#     [--beside NAME,...] [--sets REGEX] [--families REGEX] [--n 500,2000] [--splits 30] [--selectors REGEX]
#     [--peers REGEX] [--cores 2] [--limit SECONDS] [--budget SECONDS] [--tables] [--save]
#
# Results are written to FOLDER/NAME.csv as they come. Rows that are there are not measured again: a new build needs a
# new label. --beside adds the selectors of other labels to the tables. Bandwidths of other packages are cached in
# FOLDER/peers.csv for all labels, identified by the points. A job is one selector on one split, in a process with one
# thread; it fails after --limit seconds of elapsed time. No job begins after --budget. Splits come before sets, so that
# unfinished results are balanced. --tables: only print the results that exist. A REGEX that matches nothing selects
# nothing. The environment variable PYTHON names the Python with scikit-learn and statsmodels; default python3.
#
#   density   mean log density of held-out rows, minus that of the true density if it is known (nats)
#   spread    the same with held-out rows spread within their rounding, which gives no gain at repeated values
#   floored   spread, for the estimate with a millionth of a Cauchy density mixed in: a few rows that are far from all
#             others dominate the two means above, and lose some 15 nats here
#   error     integrated squared error over the integral of f^2, in closed form

source("bench/common.R")
for (part in c("mixtures", "densities", "sets", "losses", "selectors", "jobs", "tables")) {
  source(file.path(bench_folder, "bandwidths", paste0(part, ".R")))
}
options(flashkernel.progress = FALSE, flashkernel.threads = 1)

numbers <- \(text) as.numeric(strsplit(text, ",", fixed = TRUE)[[1]])
size <- match.arg(option("--size", "small"), c("small", "full"))
full <- size == "full"
out <- option("--out", "bandwidths-out")
label <- option("--label", "this")
beside <- strsplit(option("--beside", ""), ",", fixed = TRUE)[[1]]
limit <- as.numeric(option("--limit", if (full) 300 else 60))
job_limit <- \() limit
python <- Sys.getenv("PYTHON", "python3")
dir.create(out, showWarnings = FALSE, recursive = TRUE)

# ---- what is measured ---------------------------------------------------------------------------------

chosen <- \(names, what) grep(option(paste0("--", what), "."), names, value = TRUE)
splits <- seq_len(as.integer(option("--splits", if (full) 30 else 3)))
own <- OURS[chosen(names(OURS), "selectors")]
peers <- find_peers()
for (name in c(attr(OURS, "left_out"), attr(peers, "left_out"))) cat("not there, left out:", name, "\n")
peers <- peers[chosen(names(peers), "peers")]

sets <- read_sets(chosen(names(SETS), "sets"))
families <- unlist(lapply(if (full) c(1, 2, 3, 4, 6, 8, 12, 20) else c(1, 2, 4), densities_of, all = full), FALSE)
names(families) <- vapply(families, `[[`, "", "name")
families <- families[chosen(names(families), "families")]
families <- lapply(families, \(density) replace(density, "square", density$square()))

cells <- function() {
  cross <- \(names, n, real) expand.grid(set = names, n = numbers(n), real = real, stringsAsFactors = FALSE)
  of_sets <- cross(names(sets), option("--n", if (full) "500,2000,8000,16000" else "500,2000"), TRUE)
  room <- vapply(sets, \(set) nrow(set$x) - held_out(set), 0)
  of_families <- cross(names(families), option("--n", if (full) "1e2,5e2,2e3,1e4,1e5,1e6" else "100,500,2000"), FALSE)
  found <- rbind(of_sets[of_sets$n <= room[of_sets$set], ], of_families)
  found[order(found$n), ]
}

# ---- a job ----------------------------------------------------------------------------------------------

points_of <- function(job) {
  if (job$real) split_set(sets[[job$set]], job$n, job$split) else split_density(families[[job$set]], job$n, job$split)
}

points_key <- function(x) {
  file <- tempfile()
  on.exit(unlink(file))
  writeBin(as.vector(x), file)
  unname(tools::md5sum(file))
}

# Processor seconds of a task and of its children, which other work on the machine does not change.
seconds_with_children <- function(task) sum(system.time(task())[c(1, 2, 4, 5)])

# The peer's matrix, from what is kept where it is: list(H, seconds, found), NULL if it is not for such points.
peer_bandwidth <- function(name, x) {
  H <- NULL
  key <- points_key(x)
  kept <- known_peers[known_peers$peer == name & known_peers$points == key, ]
  if (nrow(kept) > 0) {
    if (!is.na(kept$failure[1]) && kept$seconds[1] >= limit) stop("over ", limit, " s")
    if (is.na(kept$failure[1])) {
      return(list(H = matrix(numbers(kept$H[1]), ncol(x)), seconds = kept$seconds[1], key = key))
    }
  }
  seconds <- seconds_with_children(\() H <<- peers[[name]](x))
  if (!is.null(H)) list(H = as.matrix(H), seconds = seconds, key = key, new = TRUE)
}

measure <- function(job) {
  points <- points_of(job)
  row <- list()
  fit <- NULL
  if (job$peer) {
    found <- peer_bandwidth(job$selector, points$x)
    if (is.null(found)) return("not for such points")
    fit <- flash_kde(points$x, "kde", bandwidth = unname(found$H))
    row <- list(seconds = found$seconds, peer = found)
  } else {
    row$seconds <- seconds_with_children(\() fit <<- suppressWarnings(own[[job$selector]](points$x)))
  }
  base <- if (is.null(points$truth)) 0 else mean(points$truth$log_density(points$test))
  row$density <- mean(log_density_of(fit, points$test)) - base
  spread <- log_density_of(fit, points$spread)
  row$spread <- mean(spread) - base
  row$floored <- mean(log_with_floor(spread, points$x, points$spread)) - base
  row$error <- if (is.null(points$truth)) NA_real_ else integrated_error(fit, points$truth)
  row
}

# ---- files ----------------------------------------------------------------------------------------------

MEASURED <- c("seconds", "density", "spread", "floored", "error")
COLUMNS <- c("set", "real", "d", "n", "split", "selector", MEASURED, "failure")
file_of <- function(label) file.path(out, paste0(label, ".csv"))
read_rows <- function(file, columns) {
  if (!file.exists(file)) return(stats::setNames(data.frame(matrix(NA, 0, length(columns))), columns))
  found <- utils::read.csv(file, colClasses = c(failure = "character"))
  found[setdiff(columns, names(found))] <- NA_real_
  found[columns]
}
append_row <- function(file, row) {
  there <- file.exists(file)
  utils::write.table(row, file, append = there, col.names = !there, row.names = FALSE, sep = ",", qmethod = "double")
}
PEER_COLUMNS <- c("peer", "points", "set", "n", "split", "seconds", "failure", "H")
known_peers <- read_rows(file_of("peers"), PEER_COLUMNS)
cell_key <- \(rows) paste(rows$set, rows$n, rows$split, rows$selector, sep = "\r")

keep <- function(job, value) {
  if (is.character(value)) return(invisible())
  failure <- if (inherits(value, "error")) gsub("[\r\n]+", " ", conditionMessage(value)) else NA_character_
  if (job$peer && (!is.na(failure) || isTRUE(value$peer$new))) keep_peer(job, value$peer, failure)
  if (!is.na(failure)) value <- stats::setNames(rep(list(NA_real_), length(MEASURED)), MEASURED)
  d <- if (job$real) sets[[job$set]]$d else families[[job$set]]$d
  append_row(
    file_of(label), data.frame(job[c("set", "real")], d, job[c("n", "split", "selector")], value[MEASURED], failure)
  )
}

keep_peer <- function(job, found, failure) {
  if (!is.na(failure)) found <- list(key = points_key(points_of(job)$x), seconds = limit, H = NA)
  append_row(file_of("peers"), data.frame(
    peer = job$selector, points = found$key, job[c("set", "n", "split")], seconds = found$seconds, failure,
    H = paste(format(found$H, digits = 17, trim = TRUE), collapse = ",")
  ))
}

if (!"--tables" %in% arguments) {
  done <- read_rows(file_of(label), COLUMNS)
  selectors <- data.frame(selector = c(names(own), names(peers)))
  selectors$peer <- selectors$selector %in% names(peers)
  jobs <- merge(merge(cells(), selectors, by = NULL), data.frame(split = splits), by = NULL)
  jobs <- jobs[!cell_key(jobs) %in% cell_key(done), ]
  jobs <- jobs[order(jobs$split), ]
  cat(nrow(jobs), "jobs,", nrow(done), "rows there\n")
  left <- run_jobs(
    jobs, measure, keep, as.integer(option("--cores", "2")), limit, as.numeric(option("--budget", "Inf"))
  )
  if (left > 0) cat(left, "jobs not begun\n")
}

# ---- tables ---------------------------------------------------------------------------------------------

bench_start("bandwidths.R", "Bandwidths: held-out log density and integrated squared error")
rows <- read_rows(file_of(label), COLUMNS)
for (other in beside) {
  more <- read_rows(file_of(other), COLUMNS)
  more <- more[!more$selector %in% names(find_peers()), ]
  rows <- rbind(rows, transform(more, selector = paste0(selector, " (", other, ")")))
}
rows <- rows[rows$set %in% c(names(sets), names(families)), ]
rows$real <- rows$real %in% TRUE
real <- rows[rows$real, ]
simulated_rows <- rows[!rows$real, ]
mine <- setdiff(unique(rows$selector), names(peers))
defaults <- grep("^(default|sdkde|kde|laplace)( adaptive)?( \\(.*\\))?$", mine, value = TRUE)
shown <- c(
  defaults, grep("^(sdkde|kde) (lcv )?full", mine, value = TRUE), "ks Hpi", "5 folds", "sklearn", "bw.SJ",
  "statsmodels cv_ml"
)
shown <- intersect(shown, rows$selector)
if (nrow(real) > 0) {
  for (loss in c("density", "spread", "floored")) {
    cat("## Held-out rows, ", loss, " (paired standard errors of the difference to the first column)\n\n", sep = "")
    table_of_sets(real, loss, shown)
    cat("Beside the best peer of each cell:\n\n")
    table_of_wins(real, loss, mine, names(peers))
  }
}
if (nrow(simulated_rows) > 0) {
  cat("## Simulated: integrated squared error over the best selector's\n\n")
  table_of_errors(simulated_rows)
  for (d in sort(unique(simulated_rows$d))) {
    cat("d =", d, "\n\n")
    table_of_errors(simulated_rows[simulated_rows$d == d, ])
  }
  cat("## Simulated: floored log density of fresh points, beside the best peer of each cell\n\n")
  table_of_wins(simulated_rows, "floored", mine, names(peers))
}
cat("## Seconds of a processor for a selection and a fit, median\n\n")
table_of_seconds(rows)
table_of_failures(rows)
