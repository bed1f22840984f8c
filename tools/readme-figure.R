# Draws man/figures/README-faithful.png with the installed package: Rscript tools/readme-figure.R
library(flashkernel)

fit <- flash_kde(~ eruptions + waiting, data = faithful)
picture <- file.path("man", "figures", "README-faithful.png")
grDevices::png(picture, 1200, 800, res = 160)
plot(fit)
invisible(grDevices::dev.off())
# a palette: a third of the size
if (nzchar(Sys.which("pngquant"))) system2("pngquant", c("--force", "--nofs", "--speed=1", "--ext", ".png", "32", picture))
