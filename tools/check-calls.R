# Runs the calls that the pages ?coming_from (column "here") and ?flashkernel_faq show, with small data under the names
# that they use, so that no page shows a call that fails. Needs the installed package.
#
#   Rscript tools/check-calls.R
library(flashkernel)
options(flashkernel.threads = 2, flashkernel.progress = FALSE)
grDevices::pdf(NULL)
set.seed(1)

lines <- readLines("R/words-help.R")
block <- function(name) {
  end <- grep(paste0("^#' @name ", name, "$"), lines)
  lines[(max(c(0, which(lines[seq_len(end)] == "NULL"))) + 1):end]
}
code_in <- function(text) gsub("`", "", unlist(regmatches(text, gregexpr("`[^`]+`", text))))
rows <- grep("^#' \\|", block("coming_from"), value = TRUE)
here <- vapply(strsplit(rows, " *\\| *"), \(cells) if (length(cells) > 3) cells[4] else "", "")
faq <- paste(sub("^#' *", "", block("flashkernel_faq")), collapse = " ")
is_call <- \(code) grepl("^[A-Za-z_.]+\\(.*\\)|%\\*%", code) & !grepl("^(sf|mgcv|saveRDS|library|options|debiasing)\\b", code)
calls <- unique(c(code_in(here), code_in(sub("@examples.*", "", faq))))
calls <- calls[is_call(calls)]

frame <- data.frame(a = rnorm(60), b = rnorm(60), c = factor(rep(c("u", "v", "w"), 20)))
frame$x <- frame$a
frame$y <- frame$a + rnorm(60, sd = 0.1)
frame$g <- frame$c
frame$count <- rpois(60, 2)
one <- list(
  x = abs(frame$a), y = frame$y, h = 0.3, H = matrix(0.09), d = cbind(frame[c("x", "y", "a", "b", "g", "count")], z = frame$b, c = frame$b), data = frame,
  new = frame$b, group = frame$c, x1 = frame$a, x2 = frame$b, X = as.matrix(frame[c("a", "b")]), n = 10, p = c(0.1, 0.9),
  q = 0, v = rep(1, 60), probs = c(0.1, 0.9), newdata = frame[1:3, ], hour = runif(60, 0, 24), date = Sys.Date() + 0:59, plot = plot
)
one[c("old", "more", "k")] <- list(frame[1:50, ], frame[51:60, ], 2)
one$op <- kernel_operator(one$X, bandwidth = 0.5)
one$fit <- flash_kde(one$x)
one$model <- kernel_ridge(y ~ a + b, frame)
two <- utils::modifyList(one, list(x = one$X, y = frame[1:3, c("a", "b")], H = diag(0.1, 2), new = one$X + 1))
two$fit <- flash_kde(one$X)

# Calls are for one variable or for several: each must run for one of both.
outcome <- function(call) {
  try_with <- \(data) tryCatch({
    eval(parse(text = call), data, globalenv())
    ""
  }, error = conditionMessage)
  found <- c(try_with(one), try_with(two))
  if (any(found == "")) "" else paste(found, collapse = "; or: ")
}
faults <- vapply(calls, outcome, "")
cat(length(calls), "calls,", sum(faults != ""), "fail\n")
if (any(faults != "")) {
  cat(paste0(calls, ": ", faults, "\n")[faults != ""], sep = "")
  quit(status = 1)
}
