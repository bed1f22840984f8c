# The files of inlined vector operations take a quarter to a half longer to compile with -g, all of it for the places
# of variables that nobody looks at. With -g1 debuggers, profilers and valgrind still name functions and lines.
# Substitutes FK_LINES_FLAGS, which follows CFLAGS: empty without -g there.
AC_DEFUN([FK_LINES], [
  FK_LINES_FLAGS=
  AS_CASE([" ${CFLAGS} "], [*" -g "*], [
    AC_MSG_CHECKING([whether ${CC} takes -g1])
    fk_saved_cflags="${CFLAGS}"
    CFLAGS="${CFLAGS} -g1"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [FK_LINES_FLAGS=-g1], [])
    CFLAGS="${fk_saved_cflags}"
    AC_MSG_RESULT([${FK_LINES_FLAGS:-no}])
  ])
  AC_SUBST([FK_LINES_FLAGS])
])
