# Checks that no two files of R/ define the same name: the later definition would replace the earlier one.
#   Rscript tools/check-names.R

defined <- function(path) {
  is_definition <- \(e) is.call(e) && identical(e[[1]], as.name("<-")) && is.name(e[[2]])
  names <- vapply(Filter(is_definition, as.list(parse(path))), \(e) as.character(e[[2]]), "")
  data.frame(name = names, path = rep(path, length(names)))
}

all <- do.call(rbind, lapply(list.files("R", "[.]R$", full.names = TRUE), defined))
twice <- all[all$name %in% all$name[duplicated(all$name)], ]
if (nrow(twice) > 0) {
  twice <- twice[order(twice$name), ]
  cat(paste0(twice$path, ": ", twice$name, " is defined elsewhere, too\n"), sep = "")
  quit(status = 1)
}
