# Byte code is three times as large as code, and R needs a millisecond or two to compile a function when it is called.
# Installation compiles the files before this one in Collate, of which usual calls run the larger part, and R compiles
# the others when they are used: with all byte code the package would take 7 instead of 6 MB. ByteCompile says no for this.
compile_functions <- function(names, env) {
  for (name in names) {
    f <- get(name, env)
    if (typeof(f) == "closure" && !isS4(f)) assign(name, compiler::cmpfun(f, list(suppressAll = TRUE)), env)
  }
}
compile_functions(ls(all.names = TRUE), environment())
