# What R CMD check asks of the spelling of DESCRIPTION: British, with the words of flashkernel.rds.
description <- list(encoding = "UTF-8", language = "en", dictionaries = c("en_stats", "flashkernel"))
