# Options of the vignettes' chunks. With pngquant, figures have a palette of 40 colours, and a third of their size.
if (nzchar(Sys.which("pngquant"))) knitr::knit_hooks$set(pngquant = knitr::hook_pngquant)
knitr::opts_chunk$set(
  collapse = TRUE, comment = "#>", fig.align = "center", dev = "png", dpi = 96, pngquant = "40 --nofs --speed=1 --skip-if-larger"
)
