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

# ---- frames ------------------------------------------------------------------------------------

# What R adds to one of the axes for the sake of the aspect stays outside of the frame. `view`: list(x, y), the limits
# asked for, or NULL. How far the frame is from the sides of the plot: below, left, above, right, in lines of text.
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

# Of the ticks `at` (NULL: the user's own), those within the limits, or more where these are too few.
map_ticks <- function(limits, at) {
  limits <- range(limits)
  within <- \(at) at[at >= limits[1] & at <= limits[2]]
  if (is.null(at) || length(within(at)) >= 3) within(at) else within(pretty(limits, 4))
}
