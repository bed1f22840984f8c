# Methods for the generics of package marginaleffects. Package insight needs none: its defaults read formula(),
# model.frame() and family().

# marginaleffects takes models of classes that this option names.
register_marginaleffects <- function() {
  name <- "marginaleffects_model_classes"
  options(stats::setNames(list(union(getOption(name), "kernel_ridge")), name))
  methods <- list(get_predict = effects_predict, get_vcov = effects_vcov)
  place <- asNamespace("marginaleffects")
  for (verb in names(methods)) registerS3method(verb, "kernel_ridge", methods[[verb]], place)
}

# A row for each row of `newdata` and each response or class. Classes have their probabilities, two classes that of the
# second.
effects_predict <- function(model, newdata, type = "response", ...) {
  if (type == "response" && has_probabilities(model)) type <- "prob"
  values <- as.matrix(stats::predict(model, newdata, type = type))
  if (type == "prob" && length(model$classes) == 2) values <- values[, 2, drop = FALSE]
  rows <- if (is.null(newdata$rowid)) seq_len(nrow(values)) else newdata$rowid
  table <- data.frame(rowid = rep(rows, ncol(values)), estimate = as.vector(values))
  groups <- if (is.null(model$classes)) output_names(model) else colnames(values)
  if (ncol(values) > 1) table$group <- rep(groups, each = nrow(values))
  table
}

# No standard errors: marginaleffects differentiates by one coefficient after another, and the differences lose all
# digits where the kernel matrix is ill-conditioned. marginal_effects() has them.
effects_vcov <- function(model, ...) NULL
