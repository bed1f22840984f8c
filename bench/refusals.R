# Counts what fits refuse: 36 methods on every kind of density, conditional density and classifier of the contract
# (tests/testthat/helper-contract.R), ten rows. A refusal is an error of the package; its reason is what the message says
# about the fit, or about the call.
#
#   Rscript bench/refusals.R [--save]

source("bench/common.R")
suppressPackageStartupMessages(for (one in c("generics", "ggplot2")) library(one, character.only = TRUE))
for (part in c("outcomes", "contract")) source(paste0("tests/testthat/helper-", part, ".R"))
options(flashkernel.threads = 1, flashkernel.progress = FALSE)
bench_start("refusals.R", "Refusals: methods by kinds of fits")

methods <- contract_methods()[c(
  "predict newdata", "predict log_density", "predict score", "predict se.fit", "predict loo", "logLik", "AIC", "coef",
  "nobs", "simulate", "quantile", "cdf", "cdf of rectangles", "marginal", "conditional", "hdr_level", "hdr_regions", "modes",
  "mean_shift", "ridges", "kde_derivative", "kde_derivative 2", "kde_bands", "kde_bands bootstrap", "confint", "kde_pvalue",
  "kde_pvalue integral", "as_density", "as_ks", "summary", "glance", "augment", "compare", "cross_validate", "plot", "autoplot"
)]
kinds <- contract_kinds()
kinds <- kinds[!grepl("^kernel_ridge|^tune|^regression|^flash_data|^big", names(kinds))]
grDevices::pdf(NULL)
cells <- unlist(lapply(names(kinds), \(kind) run_contract(kind, kinds[[kind]], "as is", methods)), FALSE)
table <- as.data.frame(do.call(rbind, cells))
counted <- table(factor(table$outcome, c("value", "refused", "none", "failed")))
cat(length(methods), "methods,", length(kinds), "kinds:", paste(counted, names(counted), collapse = ", "),
  "(none: the generic has no method for classes)\n\n")

refused <- table[table$outcome %in% c("refused", "failed"), ]
reason <- sub("^.* (is|are) not available for ([^:]*).*$", "\\2", refused$note)
reason <- paste(ifelse(reason == refused$note, "(the call)", "(the fit)"), sub(":? found.*", "", reason))
for (one in unique(sort(reason))) {
  own <- refused[reason == one, ]
  by <- tapply(own$method, factor(own$kind, unique(own$kind)), \(names) paste(names, collapse = ", "))
  joined <- tapply(names(by), factor(by, unique(by)), \(kinds) paste(kinds, collapse = "; "))
  cat(one, "\n", sprintf("    %s: %s\n", joined, names(joined)), sep = "")
}
