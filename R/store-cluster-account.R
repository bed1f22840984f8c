# What the workers of a cluster did in a computation of many runs, as a fit of kernel_ridge() is.

# Of all runs so far: cheap, for it is done in each.
add_account <- function(pool, run) {
  account <- as.list(run$account)
  pool$account <- if (is.null(pool$account)) account else Map(`+`, pool$account, account)
}

# A function that returns the account of what is done from now on, NULL where there is no cluster.
watch_workers <- function(cluster) {
  if (is.null(cluster)) return(\() NULL)
  pool <- pool_of(cluster)
  before <- pool$account
  function() {
    if (is.null(pool$account)) return(NULL)
    run_account(list(pool = pool, account = if (is.null(before)) pool$account else Map(`-`, pool$account, before)))
  }
}
