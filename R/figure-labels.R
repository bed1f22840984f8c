# Labels on contour lines. contour() writes where a line is flattest, which puts labels of neighbouring contours on top
# of each other. Here each label is written where its contour has most room.

# `contours`: for each label, a list of lines with x and y in user coordinates. Returns whether all labels found room;
# levels without a contour on the plot need none. `all_or_none`: draws nothing unless all labels have room, because a
# key will name them.
draw_contour_labels <- function(contours, labels, colour, cex = 0.85, all_or_none = FALSE) {
  contours <- lapply(contours, function(lines) lapply(lines, line_inches))
  box <- c(max(graphics::strwidth(labels, "inches", cex = cex)), max(graphics::strheight(labels, "inches", cex = cex)))
  spots <- label_spots(contours, box)
  placed <- all(!is.na(spots[, 1]) | lengths(contours) == 0)
  if (all_or_none && !placed) return(FALSE)
  for (i in which(!is.na(spots[, 1]))) {
    draw_halo_text(spots[i, ], labels[i], colour, cex)
  }
  placed
}

# The line in inches, as room is measured on paper. Long lines are thinned.
line_inches <- function(line) {
  keep <- spread_rows(length(line$x), 200)
  cbind(graphics::grconvertX(line$x[keep], "user", "inches"), graphics::grconvertY(line$y[keep], "user", "inches"))
}

# One row (x, y in inches) per contour, NA if there is no room. Contours with the shortest lines choose first.
label_spots <- function(contours, box) {
  spots <- matrix(NA_real_, length(contours), 2)
  extent <- vapply(contours, \(lines) max(0, vapply(lines, \(line) sum(sqrt(rowSums(diff(line)^2))), 0)), 0)
  for (i in order(extent)) {
    long <- Filter(\(line) holds_label(line, box), contours[[i]])
    candidates <- few_rows(inside_plot(do.call(rbind, long), box), 300)
    if (length(candidates) == 0) next
    others <- few_rows(do.call(rbind, do.call(c, c(list(list()), unname(contours[-i])))), 3000)
    placed <- spots[!is.na(spots[, 1]), , drop = FALSE]
    # a label may cover a little of other contours, but nothing of other labels: each may use half of the distance
    # between them
    room <- room_to(candidates, others, box)
    free <- room_to(candidates, placed, 2 * box)
    best <- which.max(ifelse(free > 1, pmin(room, free), 0))
    if (room[best] > 0.6 && free[best] > 1) spots[i, ] <- candidates[best, ]
  }
  spots
}

few_rows <- function(points, most) {
  if (NROW(points) <= most) points else points[round(seq(1, nrow(points), length.out = most)), , drop = FALSE]
}

# Whether a line is much longer than its label: the label would hide an island of its own size.
holds_label <- function(line, box) diff(range(line[, 1])) > 2 * box[1] && diff(range(line[, 2])) > 3 * box[2]

inside_plot <- function(candidates, box) {
  if (is.null(candidates)) return(NULL)
  x <- graphics::grconvertX(c(0, 1), "npc", "inches")
  y <- graphics::grconvertY(c(0, 1), "npc", "inches")
  inside <- candidates[, 1] > x[1] + 0.7 * box[1] & candidates[, 1] < x[2] - 0.7 * box[1] &
    candidates[, 2] > y[1] + box[2] & candidates[, 2] < y[2] - box[2]
  candidates[inside, , drop = FALSE]
}

# Distance from each candidate to the nearest of the others, in units of half the width and height of the label: 1 is
# the edge of the label. Values are at most 4.
room_to <- function(candidates, others, box) {
  if (length(others) == 0) return(rep(4, nrow(candidates)))
  x <- abs(outer(candidates[, 1], others[, 1], "-")) / (box[1] / 2)
  y <- abs(outer(candidates[, 2], others[, 2], "-")) / (box[2] / 2)
  distance <- pmax(x, y)
  pmin(distance[cbind(seq_len(nrow(distance)), max.col(-distance, "first"))], 4)
}

# Text with a white outline is legible on any background. `at` is in inches.
draw_halo_text <- function(at, label, colour, cex) {
  radius <- 0.16 * graphics::strheight("0", "inches", cex = cex)
  angle <- seq(0, 2 * pi, length.out = 17)[-1]
  x <- graphics::grconvertX(c(at[1] + radius * cos(angle), at[1]), "inches", "user")
  y <- graphics::grconvertY(c(at[2] + radius * sin(angle), at[2]), "inches", "user")
  graphics::text(x, y, label, cex = cex, col = c(rep("white", length(angle)), colour))
}

# Key of the regions, if labels found no room. `data`: points that it should not cover; `view`: the limits of a frame
# within the plot, for maps. A smaller key is tried if no place is free.
draw_region_key <- function(labels, colours, data, view = NULL) {
  key <- function(position, cex, plot = TRUE) {
    graphics::legend(
      position,
      legend = labels, fill = colours, border = "grey40", cex = cex, bg = "white",
      box.col = NA, inset = 0.01 + gap_at(position, view), plot = plot
    )
  }
  places <- c("topright", "topleft", "bottomright", "bottomleft", "right", "left", "top", "bottom")
  for (cex in c(0.85, 0.7, 0.55)) {
    covered <- vapply(places, \(place) covered_points(key(place, cex, plot = FALSE)$rect, data), 0)
    if (min(covered) == 0) break
  }
  key(places[which.min(covered)], cex)
}

# Distance of a corner of the view from that of the plot, as a share of the plot.
gap_at <- function(corner, view) {
  if (is.null(view)) return(c(0, 0))
  x <- graphics::grconvertX(view$x, "user", "npc")
  y <- graphics::grconvertY(view$y, "user", "npc")
  pmax(0, c(
    if (endsWith(corner, "right")) 1 - max(x) else min(x), if (startsWith(corner, "top")) 1 - max(y) else min(y)
  ))
}

# Number of points under `rect`, from legend(). With reversed axes its width or height is negative.
covered_points <- function(rect, data) {
  x <- range(rect$left, rect$left + rect$w)
  y <- range(rect$top, rect$top - rect$h)
  sum(data[, 1] >= x[1] & data[, 1] <= x[2] & data[, 2] >= y[1] & data[, 2] <= y[2])
}
