# The files of inlined vector operations are two thirds of the package's compile time. Nearly a fifth of theirs goes
# with passes that look for what was done by hand, and whose absence does not show in the benches (inst/bench/NOTES.md,
# "Compile time"); -g is a quarter to a half of the rest, all of it for the places of variables that nobody looks at:
# with -g1 debuggers, profilers and valgrind still name functions and lines.
# Substitutes FK_LOOPS_FLAGS, which follows CFLAGS: what the compiler takes without a word, and -g1 where -g is there.
AC_DEFUN([FK_LOOPS], [
  FK_LOOPS_FLAGS=
  AS_CASE([" ${CFLAGS} "], [*" -g "*], [FK_LOOPS_TRY([-g1])])
  FK_LOOPS_TRY([-fno-tree-pre -fno-gcse -fno-code-hoisting -fno-tree-sink -fno-tree-dse -fno-store-merging dnl
-fno-tree-vrp -fno-tree-dominator-opts -fno-rerun-cse-after-loop -fno-peephole2 -fno-ipa-cp -fno-ipa-sra -fno-ipa-icf])
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
