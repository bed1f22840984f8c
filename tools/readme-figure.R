# Draws man/figures/README-faithful.png with the installed package: Rscript tools/readme-figure.R
library(flashkernel)

fit <- flash_kde(~ eruptions + waiting, data = faithful)
grDevices::png(file.path("man", "figures", "README-faithful.png"), 1200, 800, res = 160)
plot(fit)
invisible(grDevices::dev.off())
