# Does R's OpenMP flag (empty where R was built without) compile and link a parallel loop?
# R's Makeconf holds it as SHLIB_OPENMP_CFLAGS, which `R CMD config` does not answer.
AC_DEFUN([FK_OPENMP], [
  AC_MSG_CHECKING([whether R's OpenMP flags work])
  fk_openmp_flags=`sed -n 's/^SHLIB_OPENMP_CFLAGS *= *//p' "${R_HOME}/etc${R_ARCH}/Makeconf" 2>/dev/null`
  fk_openmp=no
  if test -n "${fk_openmp_flags}"; then
    fk_saved_cflags="${CFLAGS}"
    CFLAGS="${CFLAGS} ${fk_openmp_flags}"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <omp.h>]], [[
      int sum = 0;
      #pragma omp parallel reduction(+ : sum)
      sum += omp_get_num_threads();
      return sum < 0;]])], [fk_openmp=yes], [fk_openmp=no])
    CFLAGS="${fk_saved_cflags}"
  fi
  AC_MSG_RESULT([${fk_openmp}])
  if test "${fk_openmp}" = yes; then
    FK_OPENMP_FLAGS='$(SHLIB_OPENMP_CFLAGS)'
  else
    FK_OPENMP_FLAGS=
    AC_MSG_NOTICE([without OpenMP the package runs on one thread])
  fi
  AC_SUBST([FK_OPENMP_FLAGS])
])
