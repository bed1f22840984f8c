# Runs code that vignettes show and R CMD build does not run, for it wants a GPU, or minutes.
#
#   Rscript vignettes/measured/run.R NAME [n=NUMBER] [FOLDER]
#
# runs the parts of NAME.R beside this file, each headed "## ---- label ----", one after another in one session, and
# writes what they print, under the same heads, to FOLDER/NAME.txt, and what they save there beside it. FOLDER is this
# one by default. n= takes the place of the number in lines "n <- NUMBER", to try it. Vignettes show code and print
# together by show.R.

arguments <- commandArgs(TRUE)
here <- dirname(normalizePath(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))))
size <- sub("^n=", "", grep("^n=", arguments, value = TRUE))
arguments <- grep("^n=", arguments, value = TRUE, invert = TRUE)
name <- arguments[1]
code <- readLines(file.path(here, paste0(name, ".R")))
if (length(size) == 1) code <- sub("^n <- .*", paste("n <-", size), code)
folder <- normalizePath(c(arguments[-1], here)[1])
setwd(folder) # where the code saves what figures need

library(flashkernel)
options(digits = 4, width = 100, flashkernel.progress = FALSE)

machine <- function() {
  cpu <- grep("^model name", readLines("/proc/cpuinfo"), value = TRUE)
  gpu <- gpu_info()
  c(
    paste0("date     ", Sys.Date()),
    paste0("machine  ", sub(".*: *", "", cpu[1]), ", ", length(cpu), " cores"),
    if (gpu$status == "available") paste0("devices  ", length(gpu$name), " ", gpu$name[1]),
    paste0("versions ", R.version.string, "; flashkernel ", packageVersion("flashkernel")),
    if (length(size) == 1) paste0("n        ", size, ", to try it")
  )
}

head <- grep("^## ---- .* ----$", code)
labels <- sub("^## ---- (.*) ----$", "\\1", code[head])
last <- c(head[-1] - 1, length(code))
output <- paste0(name, ".txt")
writeLines(c(machine(), ""), output)
run_part <- function(label, from, to) { # whose names the code cannot take
  print_of <- capture.output(source(textConnection(code[seq(from + 1, to)]), print.eval = TRUE))
  lines <- c(paste0("## ---- ", label, " ----"), sub(" +$", "", print_of), "")
  writeLines(lines)
  cat(lines, file = output, sep = "\n", append = TRUE)
}
invisible(Map(run_part, labels, head, last))
