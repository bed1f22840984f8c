## ---- compare ----
compare <- function(formula, smooth, train, test) {
  models <- list(
    lm = \() lm(formula, train), gam = \() mgcv::gam(smooth, data = train),
    ranger = \() ranger::ranger(formula, train, num.threads = 2, seed = 1), kernel_ridge = \() kernel_ridge(formula, train)
  )
  truth <- eval(formula[[2]], test)
  t(sapply(models, function(model) {
    seconds <- system.time(fit <- model())[["elapsed"]]
    predicted <- predict(fit, test)
    if (inherits(fit, "ranger")) predicted <- predicted$predictions
    c(rmse = sqrt(mean((truth - predicted)^2)), r.squared = 1 - mean((truth - predicted)^2) / var(truth), seconds = seconds)
  }))
}

## ---- diamonds ----
set.seed(1)
rows <- as.data.frame(ggplot2::diamonds)[sample(53940, 6000), ]
compare(
  log(price) ~ .,
  log(price) ~ s(log(carat)) + s(depth) + s(table) + s(x) + s(y) + s(z) + cut + color + clarity,
  train = rows[1:1000, ], test = rows[1001:6000, ]
)

## ---- solder ----
set.seed(1)
solder <- rpart::solder[sample(nrow(rpart::solder)), ]
compare(
  sqrt(skips) ~ ., sqrt(skips) ~ Opening + Solder + Mask + PadType + Panel,
  train = solder[1:600, ], test = solder[-(1:600), ]
)
