# Figures of locations on the earth.

# The ratio of a unit of y to a unit of x, if the two variables are longitude and latitude by their names and values: a
# degree of longitude is cos(latitude) times as long. Otherwise NULL.
map_aspect <- function(fit) {
  kind <- coordinate_kind(fit$names)
  if (fit$d != 2 || !setequal(kind, c("longitude", "latitude"))) return(NULL)
  used <- used_rows(fit)
  latitude <- fit$x[used, kind == "latitude"]
  longitude <- fit$x[used, kind == "longitude"]
  middle <- mean(range(latitude))
  # such a map makes no sense near a pole
  if (max(abs(latitude)) > 90 || max(abs(longitude)) > 360 || abs(middle) > 80) return(NULL)
  ratio <- cos(middle * pi / 180)
  if (kind[1] == "longitude") 1 / ratio else ratio
}

# "longitude" for names such as "lon" and "start.lon", "latitude" for "Latitude" and similar ones, otherwise "".
coordinate_kind <- function(names) {
  is_called <- \(words) grepl(paste0("(^|[._ ])(", words, ")$"), names, ignore.case = TRUE)
  ifelse(is_called("lon|lng|long|longitude"), "longitude", ifelse(is_called("lat|latitude"), "latitude", ""))
}

# ---- frames ------------------------------------------------------------------------------------

# Distances of the frame from the sides of the plot in lines of text: below, left, above, right. To keep the aspect, R
# extends one of the axes; the extension stays outside of the frame. `view`: list(x, y), the limits requested, or NULL.
frame_gaps <- function(view) {
  if (is.null(view)) return(numeric(4))
  margins <- graphics::par("mai") / graphics::par("mar")
  line <- max(margins[is.finite(margins)], 0)
  inner <- c(graphics::grconvertY(view$y, "user", "inches"), graphics::grconvertX(view$x, "user", "inches"))
  outer <- c(graphics::grconvertY(0:1, "npc", "inches"), graphics::grconvertX(0:1, "npc", "inches"))
  if (line > 0) (abs(inner - outer) / line)[c(1, 3, 2, 4)] else numeric(4)
}

# Evaluates `drawing` with nothing shown outside of the view.
draw_within <- function(view, drawing) {
  if (!is.null(view)) {
    graphics::clip(min(view$x), max(view$x), min(view$y), max(view$y))
    usr <- graphics::par("usr")
    on.exit(graphics::clip(usr[1], usr[2], usr[3], usr[4]))
  }
  force(drawing)
}

# The ticks `at` (NULL: those set by the user) within the limits, or more of them if these are too few.
map_ticks <- function(limits, at) {
  limits <- range(limits)
  within <- \(at) at[at >= limits[1] & at <= limits[2]]
  if (is.null(at) || length(within(at)) >= 3) within(at) else within(pretty(limits, 4))
}
