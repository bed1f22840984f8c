# What workers do with a shard: for each operation `one(shard, args, part, control)`, and `merge(a, b, control)` of
# the values of two nodes, the first of which is of the shards before. `shard`: of load_shard(); `args` and `part`:
# of over_shards(), with an environment `args$scratch` for what a run makes once. Some values have `finish(value)`, which makes
# of that of a node what can be sent, and `resume(finished, args, control)` for the way back.

add_operations(
  describe = list(
    one = function(shard, args, part, control) {
      list(
        rows = as.double(nrow(shard$points)), d = ncol(shard$points), names = colnames(shard$points),
        has = c(weights = !is.null(shard$weights), response = !is.null(shard$response)),
        response_is = kind_of_response(shard$response),
        total_weight = sum(shard$weights), square_weight = sum(shard$weights^2), positive = sum(shard$weights > 0),
        largest_weight = max(shard$weights, 0), rest_weight = sum_but_largest(shard$weights),
        rest_square = sum_but_largest(shard$weights^2), shard_weights = sum(shard$weights),
        shard_positive = sum(shard$weights > 0), box = box_of(shard$points)
      )
    },
    merge = function(a, b, control) {
      if (a$d != b$d) stop_argument("x", "must have as many columns in each shard: found ", a$d, " and ", b$d)
      if (!identical(a$names, b$names)) stop_argument("x", "must have the same names of columns in each shard")
      if (!identical(a$has, b$has)) stop_argument("x", "must have weights, or a response, in each shard or in none")
      a["response_is"] <- list(merge_kinds(a$response_is, b$response_is))
      for (name in c("rows", "shard_weights", "shard_positive")) a[[name]] <- c(a[[name]], b[[name]])
      a$box <- rbind(a$box, b$box)
      for (rest in c("rest_weight", "rest_square")) {
        less <- min(a$largest_weight, b$largest_weight)
        a[[rest]] <- a[[rest]] + b[[rest]] + if (rest == "rest_weight") less else less^2
      }
      a$largest_weight <- max(a$largest_weight, b$largest_weight)
      for (name in c("total_weight", "square_weight", "positive")) a[[name]] <- a[[name]] + b[[name]]
      a
    }
  ),

  draw = list(
    one = function(shard, args, part, control) {
      rows <- with_fixed_seed(sample.int(nrow(shard$points), part$count, args$replace, shard$weights), part$seed)
      shard$points[rows, , drop = FALSE]
    },
    merge = NULL
  ),

  take = list(one = function(shard, args, part, control) shard$points[part, , drop = FALSE], merge = NULL),

  # A shard as it is, and that it be there.
  whole = list(
    one = \(shard, args, part, control) list(x = shard$points, weights = shard$weights, response = shard$response),
    merge = NULL
  ),
  keep = list(one = \(shard, args, part, control) NULL, merge = NULL),

  apply = list(
    one = function(shard, args, part, control) {
      given <- list(shard$points, part)
      also <- as.character(intersect(c("weights", "response"), names(formals(args$f))))
      also <- mget(also, envir = shard, ifnotfound = list(NULL))
      in_function_of_user("FUN", do.call(args$f, c(given, also), quote = TRUE), paste("failed at shard", part))
    },
    merge = NULL
  ),

  # "weights" or "response".
  column = list(one = \(shard, args, part, control) shard[[args$name]], merge = NULL),

  # Means and sums of squares about them.
  summary = list(
    one = function(shard, args, part, control) {
      x <- shard$points
      w <- if (is.null(shard$weights)) rep(1, nrow(x)) else shard$weights
      total <- sum(w)
      mean <- if (total > 0) colSums(x * w) / total else colMeans(x)
      list(
        n = nrow(x), weight = total, mean = mean, squares = colSums((x - rep(mean, each = nrow(x)))^2 * w),
        least = apply(x, 2, min), most = apply(x, 2, max)
      )
    },
    merge = function(a, b, control) {
      weight <- a$weight + b$weight
      if (weight == 0) weight <- 1
      shift <- b$mean - a$mean
      list(
        n = a$n + b$n, weight = a$weight + b$weight, mean = a$mean + shift * (b$weight / weight),
        squares = a$squares + b$squares + shift^2 * (a$weight * b$weight / weight),
        least = pmin(a$least, b$least), most = pmax(a$most, b$most)
      )
    }
  ),

  # Sums with their logarithms at `args$at`.
  logs = list(
    one = function(shard, args, part, control) {
      sources <- sources_of_shard(shard, args$L, "gaussian", args$weights)
      if (!is.null(sources$weights) && all(sources$weights == 0)) return(NULL)
      found <- log_sum(sources, args$at, args$factor, FALSE, control)
      if (args$score) found$score <- score_sum(sources, args$at, args$factor, FALSE, NULL, control)$score
      found
    },
    merge = \(a, b, control) merge_some(a, b, control)
  ),

  # Sums at the shard over other data, or its own, which come to it (store-cluster-join.R).
  join = list(
    one = \(shard, args, part, control) sum_joined(shard, args, part, control),
    merge = \(a, b, control) merge_rows(a, b)
  ),
  # Sums at the shard's rows of the kernels of `args$centers`.
  multiply = list(
    one = \(shard, args, part, control) kernel_sum_of(args$centers, shard$points, args$v, control, as_matrix = TRUE),
    merge = \(a, b, control) merge_rows(a, b)
  ),

  # Of targets, for sources that all workers have (store-cluster-spread.R).
  targets = list(
    one = \(shard, args, part, control) SPREAD_SUMS[[args$what]](args$sources, part, args, control),
    merge = \(a, b, control) merge_rows(a, b)
  ),

  # The same to a tolerance: a grid of each node, packed where it leaves the worker.
  grid = list(
    one = \(shard, args, part, control) grid_of_shard(shard, args, part, control),
    merge = \(a, b, control) merge_grids(a, b),
    finish = function(stream) {
      on.exit(stream_close(stream))
      stream_pack(stream)
    },
    resume = function(packed, args, control) {
      stream <- stream_clone(stream_of_run(args$spec, args$scratch, control))
      stream_take(stream, packed)
    }
  ),

  # Sums of coefficients: `part`, or ones.
  sums = list(
    one = function(shard, args, part, control) {
      kernel_sum_of(sources_of_shard(shard, args$L, args$kernel, "none"), args$at$points, weighted(part, shard), control)
    },
    merge = \(a, b, control) list(sums = a$sums + b$sums, stats = add_part_stats(a$stats, b$stats, control))
  )
)

# Least and largest of each column, as one row.
box_of <- function(points) {
  if (nrow(points) == 0) return(matrix(rep(c(Inf, -Inf), each = ncol(points)), 1))
  matrix(c(apply(points, 2, min), apply(points, 2, max)), 1)
}

sum_but_largest <- function(w) if (length(w) > 0) sum(w[-which.max(w)]) else 0

# Values at the rows of one node and then at those of the next: vectors and matrices, and the stats of both.
merge_rows <- function(a, b) {
  parts <- setdiff(names(a), "stats")
  c(Map(\(a, b) join_brought(list(a, b)), a[parts], b[parts]), list(stats = add_stats(a$stats, b$stats)))
}
