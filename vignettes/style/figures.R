# Options of the vignettes' chunks, and PNG files with a palette: they have a third of the size of those that png() writes.

# Draws `pixels`, 24-bit colours in rows of `width`, with at most 256 colours. Similar colours become their mean.
few_colours <- function(pixels) {
  exact <- sort(unique(pixels))
  if (length(exact) <= 256) return(list(palette = exact, index = match(pixels, exact) - 1L))
  channels <- function(colours) cbind(colours %/% 65536L, colours %/% 256L %% 256L, colours %% 256L)
  group <- as.vector((channels(exact) %/% 8) %*% c(1024, 32, 1))
  counts <- tabulate(match(pixels, exact))
  weight <- rowsum(counts, group)
  means <- rowsum(channels(exact) * counts, group) / as.vector(weight)
  kept <- round(means[order(-weight)[seq_len(min(256, nrow(means)))], , drop = FALSE])
  far <- outer(rowSums(means^2), rowSums(kept^2), `+`) - 2 * tcrossprod(means, kept)
  nearest <- max.col(-far, "first")[match(group, as.integer(rownames(means)))]
  list(palette = as.integer(kept %*% c(65536, 256, 1)), index = nearest[match(pixels, exact)] - 1L)
}

# The pixels of a file that bmp() wrote, row by row from the top.
read_bmp <- function(file) {
  bytes <- readBin(file, "raw", file.size(file))
  number <- function(at, size) readBin(bytes[at + seq_len(size)], "integer", size = size, endian = "little")
  from <- number(10, 4)
  width <- number(18, 4)
  height <- number(22, 4)
  each <- number(28, 2) / 8
  line <- 4 * ceiling(width * each / 4)
  lines <- matrix(as.integer(bytes[from + seq_len(line * height)]), line)[seq_len(width * each), height:1]
  if (each >= 3) {
    pixels <- array(lines, c(each, width, height))
    return(list(pixels = as.vector(pixels[1, , ] + 256L * pixels[2, , ] + 65536L * pixels[3, , ]), width = width))
  }
  palette <- matrix(as.integer(bytes[54 + seq_len(4 * 256)]), 4)
  list(pixels = as.vector(palette[1, ] + 256L * palette[2, ] + 65536L * palette[3, ])[lines + 1L], width = width)
}

# The checksum of PNG's chunks is also the one that ends a gzip file, in the other order of bytes.
checksum <- function(bytes) {
  file <- tempfile()
  on.exit(unlink(file))
  connection <- gzfile(file, "wb")
  writeBin(bytes, connection)
  close(connection)
  rev(readBin(file, "raw", file.size(file))[file.size(file) - 7:4])
}

# Writes the picture of a file of bmp() as a PNG file beside it, whose name it returns.
palette_png <- function(file, ...) {
  big <- function(number) writeBin(as.integer(number), raw(), endian = "big")
  chunk <- function(name, bytes) c(big(length(bytes)), charToRaw(name), bytes, checksum(c(charToRaw(name), bytes)))
  picture <- read_bmp(file)
  drawn <- few_colours(picture$pixels)
  lines <- rbind(as.raw(0), matrix(as.raw(drawn$index), picture$width))
  colours <- as.raw(rbind(drawn$palette %/% 65536L, drawn$palette %/% 256L %% 256L, drawn$palette %% 256L))
  to <- sub("bmp$", "png", file)
  writeBin(c(
    as.raw(c(137, 80, 78, 71, 13, 10, 26, 10)),
    chunk("IHDR", c(big(c(picture$width, ncol(lines))), as.raw(c(8, 3, 0, 0, 0)))),
    chunk("PLTE", colours), chunk("IDAT", memCompress(lines, "gzip")), chunk("IEND", raw())
  ), to)
  to
}

knitr::opts_chunk$set(
  collapse = TRUE, comment = "#>", fig.align = "center", dev = "bmp", dpi = 96, fig.process = palette_png
)
