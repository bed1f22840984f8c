# Byte code is three times as large as the code, and compiling when a function is called takes a millisecond or two. So
# installation compiles the rooms before this file, through which every estimate goes, and R the rooms above when they
# are used: the package would take 7 instead of 6 MB otherwise. DESCRIPTION's ByteCompile says no for this.
for (name in ls(all.names = TRUE)) {
  f <- get(name)
  if (typeof(f) == "closure" && !isS4(f)) assign(name, compiler::cmpfun(f, list(suppressAll = TRUE)))
}
rm(name, f)
