# Figures of places on the earth.

# How much longer a unit of y is drawn than one of x where the two variables are longitude and latitude by their
# names and values: a degree of longitude is cos(latitude) as long as one of latitude. Else NULL.
map_aspect <- function(fit) {
  kind <- coordinate_kind(fit$names)
  if (fit$d != 2 || !setequal(kind, c("longitude", "latitude"))) return(NULL)
  used <- used_rows(fit)
  latitude <- fit$x[used, kind == "latitude"]
  longitude <- fit$x[used, kind == "longitude"]
  middle <- mean(range(latitude))
  # near a pole a map of this kind makes no sense
  if (max(abs(latitude)) > 90 || max(abs(longitude)) > 360 || abs(middle) > 80) return(NULL)
  ratio <- cos(middle * pi / 180)
  if (kind[1] == "longitude") 1 / ratio else ratio
}

# Of "lon", "start.lon", "Latitude" and the like; "x" and "y" may be anything.
coordinate_kind <- function(names) {
  is_called <- \(words) grepl(paste0("(^|[._ ])(", words, ")$"), names, ignore.case = TRUE)
  ifelse(is_called("lon|lng|long|longitude"), "longitude", ifelse(is_called("lat|latitude"), "latitude", ""))
}
