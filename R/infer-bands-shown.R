# "95% simultaneous band, bias-corrected, n = 272"
band_title <- function(band) {
  paste0(
    percent_label(band$level), " ", band$type, " band", if (band$corrected) ", bias-corrected", ", ",
    ESTIMATORS[[band$estimator]]$short, ", n = ", format(band$n, big.mark = ",", scientific = FALSE)
  )
}

band_axes <- function(bands) lapply(1:2, \(k) sort(unique(bands[[k]])))

is_whole_grid <- function(bands) {
  sizes <- lengths(band_axes(bands))
  all(sizes > 1) && nrow(bands) == prod(sizes)
}
