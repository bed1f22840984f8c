# Constants of computations on clusters.

# Sizes.
LEAST_PAIRS_FOR_CLUSTER <- 2e7 # of points in memory
MOST_PAIRS_AT_ONCE <- 5e7 # for each worker; more are divided into several requests
NUMBERS_OF_BLOCK <- 2^25 # of a block of shards
NOMINAL_WORKERS <- 8
NOMINAL_LINK <- 1e9 # bytes per second and worker

# Messages.
MOST_BYTES_AHEAD <- 2^15 # of a request to a worker that computes: less than the buffer of any connection
MOST_BYTES_AT_ONCE <- 2^26
MOST_BYTES_OF_WRITEBIN <- 2^31 - 1
MOST_FUTURES <- 100 # at a time, where a plan has no limit of its own (a scheduler's queue)

# Seconds.
SECONDS_TO_MEET <- 60
SECONDS_TO_LEAVE <- 30
SECONDS_OF_A_WAIT <- 0.5
SECONDS_OF_A_BEAT <- 1 # between two heartbeats of a worker that computes
SECONDS_OF_SILENCE <- 300 # after which a worker counts as lost

# Sizes of caches. Evicted entries are made or sent again.
MOST_POOLS <- 20 # of clusters, in a session
MOST_RUNS <- 4 # of a worker
MOST_SHARED <- 4 # values of arguments, of a worker
MOST_STORED <- 4 # columns of numbers, of a shard
MOST_LINKS <- 3 # of a shard: the current point of a fit, and one or two candidates
MOST_SAMPLES <- 4 # for the choice of grids
MOST_DISTINCT <- 3 # values of a response: enough to tell two classes from more
