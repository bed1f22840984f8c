# Data sets with anomalies: functions of a seed that return list(train, test, anomaly), with the original columns. The
# large class, or what is normal, is split into train and test; anomalies are all in test. The data sets are in
# bench/data; a function returns NULL if its set is missing.

# Rows of `normal` and of `anomaly`, most of each as --size has them; 60 of 100 normal ones are for training.
split_rows <- function(normal, anomaly, seed, most) {
  set.seed(seed)
  some <- \(rows, m) rows[sample.int(nrow(rows), min(m, nrow(rows))), , drop = FALSE]
  normal <- some(normal, most)
  train <- seq_len(round(0.6 * nrow(normal)))
  anomaly <- some(anomaly, most %/% 5)
  list(train = normal[train, ], test = rbind(normal[-train, ], anomaly),
       anomaly = rep(c(FALSE, TRUE), c(nrow(normal) - length(train), nrow(anomaly))))
}

by_class <- function(name, normal, anomaly, most) {
  table <- read_data(name)
  if (is.null(table)) return(NULL)
  last <- ncol(table)
  x <- as.matrix(table[-last])
  class <- as.character(table[[last]])
  function(seed) split_rows(x[class %in% normal, ], x[class %in% anomaly, ], seed, most)
}

# Classes of the data sets that others use: class 1 against 2, 3, 5, 6, 7; and soils against 2, 4 and 5.
shuttle <- \(most) by_class(
  "shuttle", "Rad.Flow", c("Fpv.Close", "Fpv.Open", "Bypass", "Bpv.Close", "Bpv.Open"), most
)
satellite <- \(most) by_class(
  "satellite", c("red soil", "grey soil", "very damp grey soil"),
  c("cotton crop", "damp grey soil", "vegetation stubble"), most
)

# Three letters, by the seed, against a hundred of all others.
letter <- function(most) {
  table <- read_data("letter")
  if (is.null(table)) return(NULL)
  label <- which(!vapply(table, is.numeric, NA))[1]
  x <- as.matrix(table[-label])
  function(seed) {
    set.seed(seed)
    normal <- table[[label]] %in% sample(LETTERS, 3)
    others <- x[!normal, ]
    split_rows(x[normal, ], others[sample.int(nrow(others), 100), ], seed, most)
  }
}

# Digits against clothes by 16 principal components of the digits for training; 10,000 of each to tell apart.
mnist <- function(most) {
  digits <- "bench/data/mnist"
  clothes <- "bench/data/fashion"
  if (!dir.exists(digits) || !dir.exists(clothes)) return(NULL)
  train <- read_idx(digits, "train-images-idx3-ubyte")
  components <- stats::prcomp(train, rank. = 16)
  train <- components$x
  test <- rbind(read_idx(digits, "t10k-images-idx3-ubyte"), read_idx(clothes, "t10k-images-idx3-ubyte"))
  test <- stats::predict(components, test)
  function(seed) {
    set.seed(seed)
    list(train = train[sample.int(nrow(train), min(most, 32000, nrow(train))), ], test = test,
         anomaly = rep(c(FALSE, TRUE), each = nrow(test) / 2), as_it_is = TRUE)
  }
}

# Images, one a row, of shades from 0 to 1.
read_idx <- function(folder, name) {
  path <- file.path(folder, paste0(name, ".gz"))
  file <- gzfile(path, "rb")
  on.exit(close(file))
  size <- readBin(file, "integer", 4, size = 4, endian = "big")
  if (size[1] != 2051) stop(path, " holds no images", call. = FALSE)
  pixels <- readBin(file, "integer", prod(size[2:4]), size = 1, signed = FALSE)
  matrix(pixels / 255, size[2], byrow = TRUE)
}

SETS <- list(shuttle = shuttle, satellite = satellite, letter = letter, "mnist-fashion" = mnist)
