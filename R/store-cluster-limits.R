# The numbers that computations on clusters go by.

# What goes where.
LEAST_PAIRS_FOR_CLUSTER <- 2e7 # of points in memory
MOST_PAIRS_AT_ONCE <- 5e7 # for each worker: what is more is asked for in several requests
NUMBERS_OF_BLOCK <- 2^25 # of several shards that are sources together
NOMINAL_WORKERS <- 8
NOMINAL_LINK <- 1e9 # bytes a second, of each of them

# Messages.
MOST_BYTES_AHEAD <- 2^15 # of a request to a worker that computes: less than any system keeps for a connection
MOST_BYTES_AT_ONCE <- 2^26
MOST_BYTES_OF_WRITEBIN <- 2^31 - 1
MOST_FUTURES <- 100 # at a time, where a plan has no limit of its own (a scheduler's queue)

# Seconds.
SECONDS_TO_MEET <- 60
SECONDS_TO_LEAVE <- 30
SECONDS_OF_A_WAIT <- 0.5
SECONDS_OF_A_BEAT <- 1 # between two of a worker that computes
SECONDS_OF_SILENCE <- 300 # after which a worker counts as lost

# What is remembered of late; what is forgotten is made, or sent, anew.
MOST_POOLS <- 20 # clusters
MOST_RUNS <- 4 # of a worker
MOST_SHARED <- 4 # values of arguments, of a worker
MOST_STORED <- 4 # columns of numbers, of a shard
MOST_LINKS <- 3 # of a shard: the point of a fit, and one or two that it may go to
MOST_SAMPLES <- 4 # by which grids are chosen
MOST_DISTINCT <- 3 # values of a response: enough to tell two classes from more
