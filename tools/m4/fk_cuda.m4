# Looks for the CUDA toolkit: --with-cuda=DIR|yes|no, then CUDA_HOME, then nvcc on PATH, then
# /usr/local/cuda. This version of the package has no CUDA sources yet, so that a toolkit is only reported.
AC_DEFUN([FK_CUDA], [
  AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR],
    [root of the CUDA toolkit, or "no" (default: CUDA_HOME, nvcc on PATH, /usr/local/cuda)])],
    [], [with_cuda=auto])
  fk_cuda=no
  fk_nvcc=
  AS_CASE([${with_cuda}],
    [no], [fk_cuda="no (as asked)"],
    [auto|yes], [
      for fk_dir in "${CUDA_HOME}" "${CUDA_PATH}"; do
        if test -z "${fk_nvcc}" && test -n "${fk_dir}" && test -x "${fk_dir}/bin/nvcc"; then
          fk_nvcc="${fk_dir}/bin/nvcc"
        fi
      done
      if test -z "${fk_nvcc}"; then
        AC_PATH_PROG([fk_nvcc_path], [nvcc], [], [${PATH}${PATH_SEPARATOR}/usr/local/cuda/bin])
        fk_nvcc="${fk_nvcc_path}"
      fi],
    [if test -x "${with_cuda}/bin/nvcc"; then
       fk_nvcc="${with_cuda}/bin/nvcc"
     else
       AC_MSG_ERROR([--with-cuda=${with_cuda}: no ${with_cuda}/bin/nvcc])
     fi])
  if test -n "${fk_nvcc}"; then
    fk_cuda="toolkit found (${fk_nvcc}); this version computes on the CPU only"
  elif test "${with_cuda}" = yes; then
    AC_MSG_ERROR([--with-cuda: no nvcc in CUDA_HOME, on PATH or in /usr/local/cuda])
  elif test "${with_cuda}" = auto; then
    fk_cuda="no nvcc found: CPU only (--with-cuda=DIR tells where it is)"
  fi
])
