# Workers on networks that are slow, lose packets, or end: network namespaces of this machine (Linux, as root, with ip
# and tc). Checks that the bits are those of one machine, and times the calls.
#
#   Rscript bench/cluster-network.R
source("bench/common.R")

run <- function(...) if (system(paste0(...)) != 0) stop("failed: ", ...)
name <- function(i) paste0("fkw", i)
address <- function(i) paste0("10.77.0.", i + 1)

# A bridge, and for each worker a namespace with a card on it; that of worker 2 is slow and lossy: 20 ms, 2 %, 20 Mbit/s.
make_network <- function(count) {
  run("ip link add fk0 type bridge && ip addr add 10.77.0.1/24 dev fk0 && ip link set fk0 up")
  for (i in seq_len(count)) {
    run("ip netns add ", name(i))
    if (i == 2) lossy_card(i) else run("ip link add fkv", i, " type veth peer name fke", i, " netns ", name(i))
    run("ip link set fkv", i, " master fk0 up")
    run("ip -n ", name(i), " addr add ", address(i), "/24 dev fke", i)
    run("ip -n ", name(i), " link set fke", i, " up && ip -n ", name(i), " link set lo up")
  }
}

# By tc netem where the kernel has it would be the same; not all have.
lossy_card <- function(i) {
  script <- "bench/lossy_link.py"
  log <- tempfile()
  file.create(log)
  run("python3 ", script, " fkv", i, " fke", i, " ", name(i), " 20 0.02 20 > ", log, " &")
  for (attempt in 1:50) if (identical(readLines(log), "ready")) return() else Sys.sleep(0.1)
  stop("no slow card")
}

remove_network <- function(count) {
  for (i in seq_len(count)) {
    system(paste0("ip link del fkv", i), ignore.stderr = TRUE)
    system(paste("ip netns del", name(i)), ignore.stderr = TRUE)
  }
  system("ip link del fk0", ignore.stderr = TRUE)
}

# What makePSOCKcluster() takes for ssh: -l user address command.
remote_shell <- function() {
  path <- tempfile("rsh")
  writeLines(c("#!/bin/sh", "shift 2", "last=${1##*.}", "shift", "exec ip netns exec fkw$((last - 1)) sh -c \"$*\""), path)
  Sys.chmod(path, "700")
  path
}

make_workers <- function(count) {
  parallel::makePSOCKcluster(
    vapply(seq_len(count), address, ""), master = "10.77.0.1", rshcmd = remote_shell(), user = "root",
    setup_strategy = "sequential"
  )
}

count <- 3
remove_network(count)
set.seed(1)
x <- matrix(rnorm(2e5), ncol = 4)
y <- matrix(rnorm(4e3), ncol = 4)
product <- function(data, control = NULL) kernel_sum(
  data, y, bandwidth = 0.5, tol = 0,
  control = replace(control, "engine", "exact")
)
expected <- product(flash_data(x))
timed <- function(label, data, control = NULL) {
  lost <- 0
  seconds <- system.time(withCallingHandlers(
    sums <- product(data, control),
    flashkernel_warning_worker = function(condition) {
      lost <<- lost + 1
      cat("  ", conditionMessage(condition), "\n", sep = "")
      invokeRestart("muffleWarning")
    }
  ))[["elapsed"]]
  cat(sprintf("%-58s %6.2f s, same bits: %s, lost: %d\n", label, seconds, identical(sums, expected), lost))
}

tryCatch({
  make_network(count)
  workers <- make_workers(count)
  timed("workers 1 and 3", flash_data(x, workers[c(1, 3)]))
  timed("worker 2 alone, slow and lossy: 20 ms, 2 %, 20 Mbit/s", flash_data(x, workers[2]))
  started <- Sys.time()
  data <- flash_data(x, workers)
  cat(sprintf("%-58s %6.2f s\n", "points sent to all three", as.double(Sys.time() - started, units = "secs")))
  timed("all three", data)
  pid <- parallel::clusterCall(workers, Sys.getpid)[[3]]
  system(paste0("(sleep 0.1; kill -9 ", pid, ") &"))
  timed("another one killed in the middle", data)
  run("ip link set fkv2 down")
  timed("the network of the slow one ends, silently", data, flash_control(worker_timeout = 5))
}, finally = {
  remove_network(count)
  system("pkill -f workRSOCK; pkill -f lossy_link.py")
})
