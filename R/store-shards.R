# Shards of a flash_data() on a worker. A shard is an environment with `points`, optional `weights` and `response`, and
# `sources`, the sources of its last sum.
#
# `data` is what workers are sent of a flash_data(): list(id, d, names, columns, response, weights, recipe). `d` is NULL
# until all shards have been described. `recipe` is list(kind, ...), how to get a shard:
#   "sent"      the master sends it
#   "files"     paths, reader        "function"  f, a function of the number of a shard
#   "backed"    descriptor, first, last: rows of a big.matrix in a file that every worker sees

# The entry of `data` in this worker's state, made if it is new. NULL if only the id was sent and there is no entry.
known_data <- function(state, data) {
  known <- state$data[[data$id]]
  if (is.null(data$recipe)) return(known)
  if (is.null(known)) {
    known <- new.env(parent = emptyenv())
    known$shards <- list()
    assign(data$id, known, envir = state$data)
  }
  known$data <- if (is_joined(data)) told_of(data) else data
  known
}

forget_data <- function(state, ids) {
  state$blocks <- Filter(\(block) !block$id %in% ids, state$blocks)
  ids <- intersect(ids, names(state$data))
  if (length(ids) > 0) rm(list = ids, envir = state$data)
}

# Shards of the nodes that this worker neither has nor can read.
shards_to_send <- function(known, nodes) {
  if (known$data$recipe$kind != "sent") return(integer())
  wanted <- unlist(lapply(nodes, node_shards))
  wanted[!as.character(wanted) %in% names(known$shards)]
}

load_shard <- function(known, shard) {
  if (known$data$recipe$kind == "none") return(NULL)
  name <- as.character(shard)
  if (is.null(known$shards[[name]])) keep_shard(known, shard, read_shard(known$data$recipe, shard))
  known$shards[[name]]
}

read_shard <- function(recipe, shard) {
  in_function_of_user(
    if (recipe$kind == "files") "reader" else "x",
    switch(recipe$kind,
      files = recipe$reader(recipe$paths[shard]),
      `function` = recipe$f(shard),
      backed = bigmemory::attach.big.matrix(recipe$descriptor)[recipe$first[shard]:recipe$last[shard], , drop = FALSE]
    ),
    paste("failed:", shard_place(recipe, shard), "cannot be read")
  )
}

# `rows`: result of a reader: a matrix, a data frame or list(x, weights, response).
keep_shard <- function(known, shard, rows) known$shards[[as.character(shard)]] <- checked_shard(known$data, shard, rows)

checked_shard <- function(data, shard, rows) {
  force(rows) # errors of a reader name the shard themselves
  made <- in_place(shard_place(data$recipe, shard), shard_parts(rows, data))
  list2env(c(made, list(number = shard)), parent = emptyenv())
}

shard_place <- function(recipe, shard) {
  paste0("shard ", shard, if (recipe$kind == "files") paste0(", ", quote_text(recipe$paths[shard])))
}

# Checks rows, and divides them into list(points, weights, response).
shard_parts <- function(rows, data) {
  if (is.list(rows) && !is.data.frame(rows)) {
    points <- rows$x
    weights <- rows$weights
    response <- rows$response
  } else {
    if (is.null(dim(rows))) rows <- as_points(rows, "x")
    wanted <- c(data$columns, data$response, data$weights)
    check_none_lacking(colnames(rows), "x", wanted, paste("the columns", quote_names(wanted)))
    weights <- if (!is.null(data$weights)) as.vector(as_points(rows[, data$weights, drop = FALSE], "weights"))
    response <- if (!is.null(data$response)) response_of_columns(rows, data$response)
    other <- c(data$response, data$weights)
    own <- if (is.null(data$columns)) !colnames(rows) %in% other else data$columns
    points <- if (length(wanted) > 0) rows[, own, drop = FALSE] else rows
  }
  if (is.null(points)) stop_argument("x", "must be points, or a list with points as `x`: found ", describe(rows))
  points <- check_points(points, "x", data$d, data$names, "the other shards")
  n <- nrow(points)
  if (!is.null(response)) response <- check_shard_response(response, n)
  if (!is.null(weights)) weights <- check_shard_weights(weights, n)
  list(points = points, weights = weights, response = response)
}

response_of_columns <- function(rows, names) {
  one <- if (is.data.frame(rows) && length(names) == 1) rows[[names]]
  if (is_classes(one)) one else as_points(rows[, names, drop = FALSE], "response")
}

check_shard_response <- function(response, n) {
  if (!is_classes(response)) return(as_points(check_coefficients(response, n, "response"), "response"))
  check_response_rows(length(response), n, "response")
  missing <- which(is.na(response))
  if (length(missing) == 0) return(response)
  stop_argument("response", "must not have missing classes: found NA at position ", missing[1])
}

# Describes a response: list(t, names) for numbers, the number and names of columns; list(levels, coded) for classes,
# with `coded` TRUE for logical values.
kind_of_response <- function(response) {
  if (is.null(response)) return(NULL)
  if (!is_classes(response)) return(list(t = ncol(response), names = colnames(response)))
  list(levels = levels(as.factor(response)), coded = is.logical(response))
}

# Merges descriptions. Levels keep their order if it is the same in all shards; otherwise they are sorted.
merge_kinds <- function(a, b) {
  if (is.null(a$levels) != is.null(b$levels) || !identical(a$t, b$t)) {
    stop_argument("response", "must be numbers with the same number of columns in all shards, or classes in all shards")
  }
  if (!identical(a$levels, b$levels)) a$levels <- sort(union(a$levels, b$levels))
  a
}

# check_weights(), but all weights of a shard may be 0.
check_shard_weights <- function(weights, n) {
  if (length(weights) == n && is_number(weights) && all(weights == 0)) return(as.double(weights))
  check_weights(weights, n)
}

# The sources of sums over a shard. Returns the same object for the same bandwidth and kernel, so that what C has
# prepared is used again. `weights`: "own", "squares" or "none".
sources_of_shard <- function(shard, L, kernel, weights = "own") {
  about <- list(L, kernel, weights)
  if (!identical(shard$about, about)) {
    w <- if (weights != "none") shard$weights
    shard$sources <- sum_sources(shard$points, if (weights == "squares" && !is.null(w)) w^2 else w, L, kernel, new_plan())
    shard$about <- about
  }
  shard$sources
}
