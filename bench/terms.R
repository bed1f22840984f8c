# Formulas with k() beside mgcv::gam() with s(): relative squared error at held-out rows and seconds.
#   Rscript bench/terms.R
library(flashkernel)
suppressMessages(library(mgcv))
set.seed(1)
sets <- list(
  gamsim1 = list(d = gamSim(1, 600, scale = 2, verbose = FALSE), n = 300,
    k = y ~ k(x0) + k(x1) + k(x2) + k(x3), s = y ~ s(x0) + s(x1) + s(x2) + s(x3)),
  gamsim2 = list(d = gamSim(2, 900, scale = 0.1, verbose = FALSE)$data, n = 300, k = y ~ k(x, z), s = y ~ s(x, z)),
  gamsim7 = list(d = gamSim(7, 600, scale = 2, verbose = FALSE), n = 300,
    k = y ~ x0 + k(x1) + k(x2) + k(x3), s = y ~ x0 + s(x1) + s(x2) + s(x3)),
  mtcars = list(d = mtcars, n = 22, k = mpg ~ am + k(wt, hp) + k(qsec), s = mpg ~ am + s(wt, hp, k = 8) + s(qsec, k = 4)),
  quakes = list(d = quakes, n = 700, k = mag ~ stations + k(long, lat) + k(depth),
    s = mag ~ stations + s(long, lat) + s(depth)),
  airquality = list(d = na.omit(airquality), n = 75, k = Ozone ~ Month + k(Wind, Temp) + k(Solar.R),
    s = Ozone ~ Month + s(Wind, Temp, k = 20) + s(Solar.R))
)
for (name in names(sets)) {
  set <- sets[[name]]
  errors <- replicate(5, {
    train <- sample(nrow(set$d), set$n)
    y <- set$d[-train, all.vars(set$k)[1]]
    seconds <- system.time(fit <- kernel_ridge(set$k, set$d[train, ]))[[3]]
    other <- system.time(smooth <- gam(set$s, data = set$d[train, ], method = "REML"))[[3]]
    error <- \(p) sum((y - p)^2) / sum((y - mean(y))^2)
    c(error(predict(fit, set$d[-train, ])), error(predict(smooth, set$d[-train, ])), seconds, other)
  })
  cat(sprintf("%-10s kernel_ridge %.4f  gam %.4f  difference %+.4f (se %.4f)  seconds %.1f %.1f\n", name, mean(errors[1, ]),
    mean(errors[2, ]), mean(errors[1, ] - errors[2, ]), sd(errors[1, ] - errors[2, ]) / sqrt(5), mean(errors[3, ]),
    mean(errors[4, ])))
}
