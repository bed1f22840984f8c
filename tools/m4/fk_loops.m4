# The files of inlined vector operations are two thirds of the package's compile time, and -g is a quarter to a half of
# that, all of it for the places of variables that nobody looks at: with -g1 debuggers, profilers and valgrind still
# name functions and lines. No pass of the compiler is turned off: without a dozen of them gcc 13.3 made a grid of
# two dimensions that was wrong with AVX-512, though each alone did no harm (bench/NOTES.md, "Compile time").
# Substitutes FK_LOOPS_FLAGS, which follows CFLAGS: -g1 where -g is there and the compiler takes it without a word.
AC_DEFUN([FK_LOOPS], [
  FK_LOOPS_FLAGS=
  AS_CASE([" ${CFLAGS} "], [*" -g "*], [FK_LOOPS_TRY([-g1])])
  AC_SUBST([FK_LOOPS_FLAGS])
])

AC_DEFUN([FK_LOOPS_TRY], [
  AC_MSG_CHECKING([whether ${CC} takes $1])
  fk_saved_cflags="${CFLAGS}"
  CFLAGS="${CFLAGS} -Werror $1"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
    [FK_LOOPS_FLAGS="${FK_LOOPS_FLAGS}${FK_LOOPS_FLAGS:+ }$1"; fk_taken=yes], [fk_taken=no])
  CFLAGS="${fk_saved_cflags}"
  AC_MSG_RESULT([${fk_taken}])
])
