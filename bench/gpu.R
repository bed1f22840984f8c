# The estimators on one GPU at the sizes of the published Triton code (d = 16): time on the device, time
# from R's matrices to R's vector (fit and prediction), and the error against double precision. The latter time
# is "wall" for points that the device has not seen, and "wall again" where it still holds them.
#
#   Rscript bench/gpu.R [--quick] [--save]       --quick: n = 32,768 only
#
# In double precision the SD-KDE of n = 65,536 and m = 8,192 is to take 16 ms on the device.
#
# Floor: the exponentials, one per pair of the definition (n^2 + n m for the SD-KDE, n m for the others) at
# the rate of the card. "symmetric floor" counts each unordered pair of the score pass once, which is enough.
# published: the Triton code's times on the same card; its densities are 2e-2 off, its log densities 0.1.
# Bounds of the errors: single precision 1e-5 (relative L2) and 1e-4 (log density), fast 2e-3 (relative L2).

source("bench/gpu-common.R")
gpu_start("gpu.R", "Estimators on one GPU, d = 16")

# Milliseconds: published, required of "single" and "fast", aimed at. NA: nothing was published or asked.
cases <- utils::read.table(header = TRUE, text = "
  estimator       n      m      h published single fast aimed
      sdkde   32768   4096 0.9574      1.22   0.52 0.42  0.30
        kde   32768   4096 0.9574     0.137     NA   NA    NA
    laplace   32768   4096 0.9574      0.19     NA   NA    NA
      sdkde 1048576 131072 0.8053      1082    450  370   250
        kde 1048576 131072 0.8053        96     50   40    40
    laplace 1048576 131072 0.8053      90.5     55   42    42
")
cases[c("n", "m")] <- lapply(cases[c("n", "m")], as.numeric) # n m is no integer
if ("--quick" %in% arguments) cases <- cases[cases$n < 1e6, ]

fit_case <- function(case, data, precision) {
  flash_kde(data$x, case$estimator, bandwidth = case$h, control = flash_control(backend = "cuda", precision = precision))
}

# Medians, and the log densities of the last run. One more prediction, by log_density(), tells the time on the
# device. The points move by 1e-9 a run, in one coordinate of one of them: nothing, for the errors below.
measure <- function(case, data, precision, runs) {
  last <- NULL
  once <- function() {
    fit <- NULL
    end_to_end <- function() {
      fit <<- fit_case(case, data, precision)
      predict(fit, data$y)
    }
    data <<- lapply(data, renew)
    walls <- c(wall = elapsed(end_to_end), again = elapsed(end_to_end))
    last <<- log_density(fit, data$y)
    c(walls, device = device_seconds(fit_stages(fit)) + device_seconds(last$stats))
  }
  once()
  list(seconds = apply(replicate(runs, once()), 1, stats::median), estimate = last)
}

# ---- accuracy -----------------------------------------------------------------------------------

# A sample of the queries; all training points take part in each.
rows_checked <- function(m) {
  set.seed(2)
  sort(sample.int(m, min(1000, m)))
}

signed <- function(estimate) {
  exp(estimate$log_abs) * if (is.null(estimate$negative)) 1 else ifelse(estimate$negative, -1, 1)
}

# Double precision, debiasing included: density and log|density| of the rows checked, and those whose logarithm
# is compared. Where the Laplace estimate is less than a tenth of the KDE, its terms of both signs cancel, and
# the logarithm says little about the sums. NULL where it would take too long.
# `rate`: pairs a second that the debiasing reached in double precision at the smaller size.
reference <- function(case, data, rate, limit = 40) {
  expected <- if (case$estimator == "sdkde") case$n^2 / rate else 0
  if (expected > limit) {
    cat(sprintf("no reference for n = %s: double precision would take %.0f s\n", format_count(case$n), expected))
    return(NULL)
  }
  at <- data$y[rows_checked(case$m), , drop = FALSE]
  estimate <- log_density(fit_case(case, data, "double"), at)
  plain <- if (case$estimator == "laplace") {
    log_density(fit_case(replace(case, "estimator", "kde"), data, "double"), at)$log_abs
  } else {
    -Inf
  }
  steady <- estimate$log_abs >= plain - log(10)
  list(density = signed(estimate), log_abs = estimate$log_abs, steady = steady)
}

double_rate <- function(case, data) {
  fit_case(case, data, "double")
  case$n^2 / device_seconds(fit_stages(fit_case(case, data, "double")))
}

compare <- function(estimate, want, rows) {
  if (is.null(want)) return(c(relative_l2 = NA, log_density = NA, left_out = NA))
  density <- signed(estimate)[rows]
  difference <- abs(estimate$log_abs[rows] - want$log_abs)
  difference[sign(density) != sign(want$density)] <- Inf
  c(relative_l2 = sqrt(sum((density - want$density)^2) / sum(want$density^2)),
    log_density = max(difference[want$steady]), left_out = sum(!want$steady))
}

# ---- all cases ----------------------------------------------------------------------------------

rows <- list()
rate <- NULL
for (n in unique(cases$n)) {
  of_size <- cases[cases$n == n, ]
  data <- mixture_points(n, of_size$m[1])
  if (is.null(rate)) rate <- double_rate(of_size[1, ], data)
  for (i in seq_len(nrow(of_size))) {
    case <- of_size[i, ]
    want <- reference(case, data, rate)
    for (precision in c("single", "fast")) {
      got <- measure(case, data, precision, runs = if (n < 1e5) 21 else 5)
      rows[[length(rows) + 1]] <- data.frame(
        case, precision = precision, t(got$seconds),
        t(compare(got$estimate, want, rows_checked(case$m)))
      )
    }
  }
}
table <- do.call(rbind, rows)

density_pairs <- table$n * table$m
score_pairs <- ifelse(table$estimator == "sdkde", table$n^2, 0)
required <- ifelse(table$precision == "single", table$single, table$fast) / 1e3
aimed <- table$aimed / 1e3
name <- paste0(table$estimator, ", n = ", format_count(table$n))

cat("\nmilliseconds, medians\n")
show_table(data.frame(
  case = name, precision = table$precision, device = format_ms(table$device),
  wall = format_ms(table$wall), `wall again` = format_ms(table$again),
  floor = format_ms((score_pairs + density_pairs) / H200[["exponentials"]]),
  `symmetric floor` = format_ms((score_pairs / 2 + density_pairs) / H200[["exponentials"]]),
  aimed = format_ms(aimed), required = format_ms(required), published = format_ms(table$published / 1e3),
  met = ifelse(is.na(required), "-", ifelse(table$device <= aimed, "aimed",
    ifelse(table$device <= required, "required", "NO"))),
  check.names = FALSE
))

show_table(data.frame(
  case = name, precision = table$precision,
  `pairs per second` = format_rate((score_pairs + density_pairs) / table$device),
  `published / device` = sprintf("%.2f", table$published / 1e3 / table$device),
  `wall / device` = sprintf("%.2f", table$wall / table$device),
  `again / device` = sprintf("%.2f", table$again / table$device), check.names = FALSE
))
for (i in which(table$estimator == "sdkde" & table$n > 1e6)) {
  share <- table$wall[i] / table$device[i]
  cat(sprintf("wall at most 1.25 times the device's time, %s, %s: %s (%.2f)\n", name[i], table$precision[i],
              if (share <= 1.25) "yes" else "NO", share))
}

bound <- list(single = c(1e-5, 1e-4), fast = c(2e-3, NA))[table$precision]
within <- mapply(\(l2, log, b) l2 <= b[1] && (is.na(b[2]) || log <= b[2]), table$relative_l2, table$log_density, bound)
cat("\nerrors of 1,000 queries against backend = \"cuda\", precision = \"double\"\n")
show_table(data.frame(
  case = name, precision = table$precision, `relative L2` = format_error(table$relative_l2),
  `largest of log density` = format_error(table$log_density), `rows left out` = table$left_out,
  `within its bound` = ifelse(is.na(within), "-", ifelse(within, "yes", "NO")), check.names = FALSE
))

# ---- double precision ---------------------------------------------------------------------------

case <- data.frame(estimator = "sdkde", n = 65536, m = 8192, h = 0.925)
got <- measure(case, mixture_points(case$n, case$m), "double", runs = 7)
pairs <- case$n^2 + case$n * case$m
cat("\nSD-KDE in double precision, n = 65,536, m = 8,192, milliseconds, medians\n")
show_table(data.frame(
  device = format_ms(got$seconds[["device"]]), wall = format_ms(got$seconds[["wall"]]), required = format_ms(0.016),
  `pairs per second` = format_rate(pairs / got$seconds[["device"]]),
  met = if (got$seconds[["device"]] <= 0.016) "yes" else "NO", check.names = FALSE
))
