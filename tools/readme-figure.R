# Draws man/figures/README-faithful.png with the installed package: Rscript tools/readme-figure.R
library(flashkernel)

fit <- flash_kde(~ eruptions + waiting, data = faithful)
picture <- file.path("man", "figures", "README-faithful.bmp")
grDevices::bmp(picture, 1200, 800, res = 160)
plot(fit)
invisible(grDevices::dev.off())
source(file.path("vignettes", "style", "figures.R"))
invisible(palette_png(picture))
unlink(picture)
