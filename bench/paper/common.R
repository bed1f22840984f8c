# Shared code of this folder's scripts. Each script reproduces one figure or table of a paper:
#
#   Rscript bench/paper/NAME.R [--size small|full] [--backend auto|cpu|cuda] [--out FOLDER] [--draw]
#
# small: minutes on two cores; full: for a machine with a GPU. Writes NAME-SIZE.csv and NAME-SIZE.png to
# bench/results/paper/ or FOLDER. --draw: only draws the figures and tables of existing results, for example of a
# machine whose R has no graphics.
#
# A script sources this file, which sources common.R and gpu-common.R of the folder above, and ends with
#
#   rows <- paper_rows(NAME, "title", \() the data frame that is measured)
#   paper_plot(NAME, \() the plot, by base graphics, of rows)

source("bench/gpu-common.R")

size <- match.arg(option("--size", "small"), c("small", "full"))
full <- size == "full"
backend <- match.arg(option("--backend", "auto"), c("auto", "cpu", "cuda"))
paper_out <- option("--out", "bench/results/paper")
dir.create(paper_out, showWarnings = FALSE, recursive = TRUE)

# ---- rows ---------------------------------------------------------------------------------------------

paper_file <- function(name, ending) file.path(paper_out, paste0(name, "-", size, ".", ending))

# With the columns date, machine and version, which a reader of the table alone needs to know, too.
paper_rows <- function(name, title, measure) {
  cat(title, ", ", size, "\n", sep = "")
  file <- paper_file(name, "csv")
  if (!"--draw" %in% arguments) {
    seconds <- elapsed(\() rows <<- measure())
    save_rows(rows, file)
    cat(sprintf("%.0f s, written to %s\n", seconds, file))
  }
  if (!file.exists(file)) stop("there is no ", file, ": run this without --draw first", call. = FALSE)
  rows <- utils::read.csv(file)
  cat(rows$date[1], ", ", rows$machine[1], ", ", rows$version[1], "\n\n", sep = "")
  rows
}

save_rows <- function(rows, file) {
  numbers <- vapply(rows, is.double, NA)
  rows[numbers] <- lapply(rows[numbers], signif, 6)
  info <- flashkernel:::backend_info()
  rows$date <- format(Sys.Date())
  rows$machine <- machine_name()
  package <- paste("flashkernel", utils::packageVersion("flashkernel"))
  rows$version <- paste(c(package, paste("R", getRversion()), info$isa), collapse = ", ")
  utils::write.csv(rows, file, row.names = FALSE)
}

# What is there so far, for a run that is cut short.
keep <- function(name, rows) save_rows(rows, paper_file(name, "csv"))

# The processor and, where sums go there, the GPU.
machine_name <- function() {
  gpu <- gpu_info()
  uses_gpu <- backend != "cpu" && gpu$status == "available"
  paste(c(paste0(cpu_model(), ", ", parallel_cores(), " cores"), if (uses_gpu) gpu$name[1]), collapse = "; ")
}

# Says why something is left out, so that a gap in a table has a reason.
left_out <- function(what, why) cat("left out:", what, "-", why, "\n")

# ---- figures ------------------------------------------------------------------------------------------

# Colours that the colour blind tell apart, by name: what has a name has one colour in all panels of a script.
colours_of <- function(names) {
  palette <- c("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8d99a6")
  stats::setNames(rep_len(palette, length(names)), names)
}

paper_plot <- function(name, draw, width = 1500, height = 700, ending = "png") {
  if (!isTRUE(capabilities("png"))) return(left_out(paste("figure", name), "no graphics here: --draw elsewhere"))
  file <- paper_file(name, ending)
  grDevices::png(file, width, height, res = 150)
  on.exit({
    grDevices::dev.off()
    make_small(file)
  })
  graphics::par(mgp = c(2.4, 0.6, 0), las = 1, cex = 0.85, tcl = -0.3)
  draw()
  cat("drawn:", file, "\n")
}

# To a third, by a palette, where there is pngquant: figures of the sources are in the package.
make_small <- function(file) {
  if (nzchar(Sys.which("pngquant"))) system2("pngquant", c("--force", "--ext", ".png", "64", shQuote(file)))
}

# One panel: for each of `names` a line of y against x with error bars (columns of rows; NA: none), on two log
# scales. `lty`, `pch`: by name, where not the same for all.
curves <- function(rows, names, x, y, error = NULL, by = "estimator", xlab = "n", ylab = y, main = "", lty = 1,
                   pch = 19, ylim = NULL, log = "xy") {
  rows <- rows[rows[[by]] %in% names & is.finite(rows[[y]]), ]
  margin <- if (is.null(error)) 0 else ifelse(is.na(rows[[error]]), 0, rows[[error]])
  high <- rows[[y]] + margin
  low <- pmax(rows[[y]] - margin, rows[[y]] / 3) # above 0, for the log
  if (is.null(ylim)) ylim <- range(low, high)
  plot(NULL, xlim = range(rows[[x]]), ylim = ylim, log = log, xlab = xlab, ylab = "", main = main, axes = FALSE)
  graphics::title(ylab = ylab, line = 3.3)
  ticks <- \(side) if (grepl(c("x", "y")[side], log)) log_axis(side) else graphics::axis(side)
  ticks(1)
  ticks(2)
  graphics::box(col = "grey60")
  colour <- colours_of(names)
  look <- \(value, name) if (length(value) > 1) value[[name]] else value
  for (name in names) {
    its <- which(rows[[by]] == name)
    its <- its[order(rows[[x]][its])]
    if (length(its) == 0) next
    bars <- its[high[its] > low[its]]
    graphics::segments(rows[[x]][bars], low[bars], rows[[x]][bars], high[bars], col = colour[[name]])
    graphics::lines(rows[[x]][its], rows[[y]][its], type = "o", lty = look(lty, name), pch = look(pch, name),
                    col = colour[[name]], lwd = 1.6, cex = 0.9)
  }
}

# Powers of ten where there are two, else what R would label; grey lines across.
log_axis <- function(side) {
  range <- graphics::par("usr")[if (side == 1) 1:2 else 3:4]
  powers <- ceiling(range[1]):floor(range[2])
  if (ceiling(range[1]) < floor(range[2])) {
    at <- 10^powers
    labels <- parse(text = ifelse(powers %in% -1:2, format(at, drop0trailing = TRUE), paste0("10^", powers)))
  } else {
    at <- graphics::axTicks(side)
    labels <- format(at, big.mark = ",", trim = TRUE, drop0trailing = TRUE)
  }
  if (side == 1) graphics::abline(v = at, col = "grey92") else graphics::abline(h = at, col = "grey92")
  graphics::axis(side, at, labels, col = NA, col.ticks = "grey60")
}

# Names and their colours below the panels; `lty`, `pch` as for curves(). crosses: what crosses are, if there are
# any. among: the names that curves() had, where they were more.
legend_below <- function(names, lty = 1, pch = 19, crosses = NULL, ncol = length(names) + length(crosses),
                         among = names) {
  old <- graphics::par(fig = c(0, 1, 0, 1), oma = c(0, 0, 0, 0), mar = c(0, 0, 0, 0), new = TRUE)
  on.exit(graphics::par(old))
  plot.new()
  own <- \(look) rep_len(unlist(look), length(names))
  also <- \(look) if (!is.null(crosses)) look
  graphics::legend("bottom", c(names, crosses), col = c(colours_of(among)[names], also("black")), ncol = ncol, lwd = 1.6,
                   lty = c(own(lty), also(NA)), pch = c(own(pch), also(4)), bty = "n", inset = c(0, 0.01),
                   text.width = 1.1 * max(graphics::strwidth(c(names, crosses))))
}

# ---- fits ---------------------------------------------------------------------------------------------

# The exponent of n by which y falls, with its standard error.
fitted_power <- function(n, y) {
  line <- stats::lm(log(y) ~ log(n))
  stats::setNames(summary(line)$coefficients[2, 1:2], c("power", "se"))
}
