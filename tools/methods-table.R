# The help page ?flashkernel_methods: which generic functions have methods for the objects of this package. The page is
# R/words-methods.R, which this script writes from NAMESPACE, so that it lists what is registered and nothing else.
#
#   Rscript tools/methods-table.R           fails if R/words-methods.R is not what NAMESPACE says
#   Rscript tools/methods-table.R --write   writes R/words-methods.R (then run roxygen2)
FITS <- c("flash_kde", "flash_conditional", "flash_kda", "kernel_regression", "kernel_ridge")
# Results of functions that have methods of their own, with the function that returns them.
RESULTS <- c(
  kde_bands = "kde_bands", flash_clusters = "mean_shift", kde_local_test = "kde_test",
  flash_kde_validation = "cross_validate", flash_kda_validation = "cross_validate", flash_kde_comparison = "compare_fits",
  marginal_effects = "marginal_effects", flashkernel_bandwidth = "kde_bandwidth", flash_hdr = "hdr_regions",
  kernel_operator = "kernel_operator", flash_data = "flash_data"
)

declared <- parseNamespaceFile(basename(getwd()), dirname(getwd()))
methods <- data.frame(generic = sub("^.*::", "", declared$S3methods[, 1]), class = declared$S3methods[, 2])
r_packages <- c("base", "stats", "graphics", "utils")
is_public <- \(generic) generic %in% c(declared$exports, "tidy", "glance", "augment", "autoplot", "st_as_sf", "Ops", "Math") ||
  any(vapply(r_packages, \(package) exists(generic, asNamespace(package), inherits = FALSE), NA))
methods <- methods[vapply(methods$generic, is_public, NA), ]
# methods that only refuse
methods <- methods[!(methods$class == "kernel_ridge" & methods$generic %in% c("mean", "median", "quantile", "Math", "Summary")), ]

# A method whose body only stops is a better message, not a method. A judge_of() method serves two functions.
definitions <- unlist(lapply(list.files("R", "[.]R$", full.names = TRUE), \(file) as.list(parse(file))))
only_stops <- function(definition) {
  is_function <- is.call(definition) && identical(definition[[1]], quote(`<-`)) && is.call(definition[[3]]) &&
    identical(definition[[3]][[1]], quote(`function`))
  if (!is_function) return("")
  body <- definition[[3]][[3]]
  while (is.call(body) && identical(body[[1]], quote(`{`)) && length(body) == 2) body <- body[[2]]
  stops <- is.call(body) && is.name(body[[1]]) && grepl("^stop(_|$)", as.character(body[[1]]))
  if (stops) as.character(definition[[2]]) else ""
}
refusals <- vapply(definitions, only_stops, "")
methods <- methods[!paste(methods$generic, methods$class, sep = ".") %in% refusals, ]
judged <- declared$S3methods[declared$S3methods[, 1] == "judge_of", 2]
judged <- expand.grid(generic = c("compare_fits", "cross_validate"), class = judged, stringsAsFactors = FALSE)
methods <- unique(rbind(methods, judged))
for (generic in unlist(declared$exportMethods)) {
  if (generic != "show") methods <- rbind(methods, data.frame(generic = generic, class = "kernel_operator"))
}

code <- \(generics) paste0("`", ifelse(grepl("[%\\[]|^(Ops|Math)$", generics), generics, paste0(generics, "()")), "`", collapse = ", ")
sorted <- \(x) sort(unique(x), method = "radix")

# Lines of up to four generics that have methods for the same classes of fits, the most common first.
generics <- setdiff(sorted(methods$generic[methods$class %in% FITS]), FITS)
has <- t(vapply(generics, \(generic) FITS %in% methods$class[methods$generic == generic], NA[seq_along(FITS)]))
pattern <- apply(has, 1, \(row) paste(as.integer(row), collapse = ""))
lines <- unlist(lapply(unique(pattern[order(-rowSums(has), pattern)]), \(one) {
  cells <- ifelse(strsplit(one, "")[[1]] == "1", "yes", "")
  same <- generics[pattern == one]
  parts <- split(same, (seq_along(same) - 1) %/% 4)
  vapply(parts, \(part) paste0("| ", code(part), " | ", paste(cells, collapse = " | "), " |"), "")
}))
results <- unlist(lapply(names(RESULTS), \(class) {
  own <- setdiff(sorted(methods$generic[methods$class == class]), FITS)
  text <- paste0("- `", class, "`, from [", RESULTS[[class]], "()]: ", code(own), ".")
  strwrap(text, 116, exdent = 2)
}))

page <- c(
  "# Written by tools/methods-table.R from NAMESPACE: change that script, not this file.",
  "",
  paste("#'", c(
    "Generic functions by class",
    "",
    "Which of R's generic functions, and of this package's, have methods for which fits.",
    "",
    "@section Fits:",
    "",
    paste0("| generic | ", paste0("`", FITS, "`", collapse = " | "), " |"),
    paste0("|", strrep("---|", length(FITS) + 1)),
    lines,
    "",
    "`flash_conditional` is the class of `flash_kde(y ~ x)`. Fits of [tune_ridge()] are of class `kernel_ridge`, too. `update()`",
    "also works by R's default method for the other fits.",
    "`autoplot()` needs package ggplot2; `tidy()`, `glance()` and `augment()` need broom or generics.",
    "",
    "@section Refusals:",
    "A verb is refused where it makes no sense for the estimate. Bandwidths of balloon estimates and widths of polygons differ",
    "from place to place. Laplace-corrected estimates may be negative; clipped ones are no sums of kernels. Triangular and",
    "uniform kernels have kinks, categories no distances. Mixed data have a space for each category. Products of kernels on",
    "supports have no integral in closed form. Debiasing moves points together.",
    "",
    "@section Results and other objects:",
    "",
    results,
    "@seealso [flashkernel_faq], [flash_kde()], [kernel_regression()], [kernel_ridge()].",
    "@name flashkernel_methods",
    "@rawRd \\concept{S3 methods}\\concept{generics by class}",
    "@examples",
    "fit <- flash_kde(faithful)",
    "plot(fit)",
    "methods(class = class(fit)[1])"
  )),
  "NULL"
)
page <- sub(" +$", "", page)

file <- "R/words-methods.R"
if ("--write" %in% commandArgs(TRUE)) {
  writeLines(page, file)
} else if (!identical(readLines(file), page)) {
  cat(file, "is not what NAMESPACE says: run Rscript tools/methods-table.R --write, and roxygen2\n")
  quit(status = 1)
}
