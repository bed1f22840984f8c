# Options of the vignettes' chunks. With pngquant, figures have a palette of 64 colours, and two fifths of their size.
if (nzchar(Sys.which("pngquant"))) knitr::knit_hooks$set(pngquant = knitr::hook_pngquant)
knitr::opts_chunk$set(
  collapse = TRUE, comment = "#>", fig.align = "center", dev = "png", dpi = 96, pngquant = "64 --speed=1 --skip-if-larger"
)
