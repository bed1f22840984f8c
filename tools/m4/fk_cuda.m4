# Is the GPU engine built, a shared object beside the package's? Found is not enough: a toolkit is
# used only after a small kernel has been compiled with the flags of the build and linked as the
# engine will be, by the C compiler with the static CUDA runtime, into a library that needs neither
# libcudart nor libstdc++.
#   --with-cuda=DIR|yes|no|auto   environment FLASHKERNEL_CUDA; default auto
#   --with-cuda-arch="80 90a"     environment FLASHKERNEL_CUDA_ARCH; "90-ptx" is PTX of compute_90
#   --with-nvcc-ccbin=PROGRAM     host compiler of nvcc
# Sets fk_cuda, the line of the summary, and substitutes what Makevars.in and fk_config.h.in use.

# All architectures that a release carries, each if nvcc knows it: 90a because wgmma exists there
# alone, and PTX for devices to come.
m4_define([FK_CUDA_RELEASE_ARCHS], [75 80 86 89 90a 100 120 90-ptx])

AC_DEFUN([FK_CUDA], [
  AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR],
    [root of the CUDA toolkit, or yes, no, auto (default: FLASHKERNEL_CUDA, else auto: CUDA_HOME,
     CUDA_PATH, nvcc on PATH, /usr/local/cuda, and none if that fails)])],
    [], [with_cuda="${FLASHKERNEL_CUDA:-auto}"])
  AC_ARG_WITH([cuda-arch], [AS_HELP_STRING([--with-cuda-arch=LIST],
    [architectures to build for, as "80 90a" (default: FLASHKERNEL_CUDA_ARCH, else those of]
     FK_CUDA_RELEASE_ARCHS [that nvcc knows)])],
    [], [with_cuda_arch="${FLASHKERNEL_CUDA_ARCH}"])
  AC_ARG_WITH([nvcc-ccbin], [AS_HELP_STRING([--with-nvcc-ccbin=PROGRAM],
    [C++ compiler for nvcc to use (default: its own choice, else that of R)])],
    [], [with_nvcc_ccbin=])

  # Each step says in fk_cuda_why what it failed on, and the steps after it are left out.
  fk_cuda_why= fk_nvcc= fk_cuda_archs= fk_cuda_toolkit=
  AS_IF([test "${with_cuda}" = no],
    [fk_cuda_why="not asked for"],
    [FK_CUDA_FIND
     AS_IF([test -z "${fk_cuda_why}"], [FK_CUDA_ARCHS])
     AS_IF([test -z "${fk_cuda_why}"], [FK_CUDA_TRY])])

  AS_IF([test -z "${fk_cuda_why}"], [
    FK_GPU_ENGINE=flashkernel-gpu.so
    FK_CUDA_RULES=conftest.rules
    sh tools/cuda-rules.sh >${FK_CUDA_RULES} || AC_MSG_ERROR([tools/cuda-rules.sh failed])
    fk_cuda="toolkit ${fk_cuda_toolkit} (${fk_nvcc}), for ${fk_cuda_archs}"
  ], [
    AS_CASE([${with_cuda}],
      [no], [],
      [auto], [
        # a machine without a toolkit is nothing to point out, a toolkit left unused is
        AS_IF([test -n "${fk_nvcc}"], [AC_MSG_NOTICE([
  ------------------------------------------------------------------------------
  flashkernel is built without its GPU engine: ${fk_cuda_why}.
  --with-cuda=DIR, or FLASHKERNEL_CUDA=DIR in the environment, tells where the
  CUDA toolkit is; "yes" makes this an error, "no" leaves the toolkit alone.
  ------------------------------------------------------------------------------])])],
      [AC_MSG_ERROR([CUDA was asked for (${with_cuda}), but ${fk_cuda_why}])])
    FK_GPU_ENGINE=
    FK_CUDA_RULES=/dev/null
    fk_nvcc= fk_nvcc_flags= fk_cuda_archs= fk_cuda_toolkit= fk_cuda_libs= fk_cuda_libdir=
    fk_cuda="${fk_cuda_why}: no GPU engine is built"
  ])
  AC_SUBST([FK_GPU_ENGINE])
  AC_SUBST_FILE([FK_CUDA_RULES])
  AC_SUBST([FK_CUDA_ARCHS], [${fk_cuda_archs}])
  AC_SUBST([FK_CUDA_LIBS], [${fk_cuda_libs}])
  AC_SUBST([FK_CUDA_LIBDIR], [${fk_cuda_libdir}])
  AC_SUBST([NVCC], [${fk_nvcc}])
  AC_SUBST([NVCC_FLAGS], [${fk_nvcc_flags}])
])

# Which nvcc, and is it new enough? Sets fk_nvcc and fk_cuda_toolkit.
AC_DEFUN([FK_CUDA_FIND], [
  AC_MSG_CHECKING([for nvcc])
  AS_CASE([`uname -s`/${with_cuda}],
    [Linux/auto|Linux/yes], [
      fk_cuda_why="no nvcc in CUDA_HOME, CUDA_PATH, on PATH or in /usr/local/cuda"
      for fk_file in "${CUDA_HOME:+${CUDA_HOME}/bin/nvcc}" "${CUDA_PATH:+${CUDA_PATH}/bin/nvcc}" \
          "`command -v nvcc 2>/dev/null`" /usr/local/cuda/bin/nvcc; do
        AS_IF([test -x "${fk_file}"], [fk_nvcc="${fk_file}"; fk_cuda_why=; break])
      done],
    [Linux/*], [
      fk_nvcc="${with_cuda}/bin/nvcc"
      AS_IF([test ! -x "${fk_nvcc}"], [fk_cuda_why="there is no ${fk_nvcc}"])],
    [fk_cuda_why="there is no CUDA engine for `uname -s`"])
  AC_MSG_RESULT([${fk_nvcc:-no}])
  AS_IF([test -z "${fk_cuda_why}"], [
    fk_cuda_toolkit=`"${fk_nvcc}" --version 2>/dev/null | sed -n 's/^.*release \([[0-9.]]*\),.*$/\1/p'`
    AS_CASE([${fk_cuda_toolkit}],
      [""], [fk_cuda_why="${fk_nvcc} does not tell its version"],
      [[[1-9].*|1[01].*]], [fk_cuda_why="${fk_nvcc} is of CUDA ${fk_cuda_toolkit}, and 12.0 is needed"])
  ])
])

# Sets fk_cuda_archs, and fk_nvcc_flags to all flags but the host compiler.
AC_DEFUN([FK_CUDA_ARCHS], [
  AC_MSG_CHECKING([for the architectures to build])
  AS_IF([test -n "${with_cuda_arch}"],
    [fk_cuda_archs=`echo ${with_cuda_arch} | tr -s ',; ' '   '`],
    [fk_known=" "`"${fk_nvcc}" --list-gpu-code 2>/dev/null | tr '\n' ' '`
     for fk_arch in FK_CUDA_RELEASE_ARCHS; do
       # sm_90 stands for 90a and 90-ptx, which not every nvcc lists
       AS_CASE([${fk_known}],
         [*" sm_`echo ${fk_arch} | sed 's/[[^0-9]].*//'` "*],
         [fk_cuda_archs="${fk_cuda_archs}${fk_cuda_archs:+ }${fk_arch}"])
     done])
  AC_MSG_RESULT([${fk_cuda_archs:-none}])

  # Visibility and PIC as for the C files. Exceptions and guarded statics would need libstdc++.
  # Several architectures are compiled side by side.
  fk_nvcc_flags="-O3 -std=c++17 -cudart static --threads=4 -Xfatbin -compress-all"
  fk_nvcc_flags="${fk_nvcc_flags} -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-threadsafe-statics"
  for fk_arch in ${fk_cuda_archs}; do
    AS_CASE([${fk_arch}],
      [*-ptx], [fk_arch="${fk_arch%-ptx}"; fk_code="compute_${fk_arch}"],
      [fk_code="sm_${fk_arch}"])
    fk_nvcc_flags="${fk_nvcc_flags} -gencode=arch=compute_${fk_arch},code=${fk_code}"
  done
  AS_CASE([" ${fk_cuda_archs} "],
    [*" 90a "*], [fk_nvcc_flags="${fk_nvcc_flags} -DFK_CUDA_SM90A"],
    ["  "], [fk_cuda_why="${fk_nvcc} knows no architecture that flashkernel is built for"])
])

# Compiles and links a kernel. Sets fk_cuda_libs and fk_cuda_libdir, and completes fk_nvcc_flags.
AC_DEFUN([FK_CUDA_TRY], [
  cat >conftest.cu <<'_FK_END'
#include <cuda_fp16.h>
#include <cuda_runtime.h>
__global__ void probe_kernel(float *x) { *x = __half2float(__float2half(1.0f)); }
extern "C" int probe_launch(float *x) {
  probe_kernel<<<1, 32>>>(x);
  return (int)cudaGetLastError();
}
_FK_END

  # The static runtime is where nvcc itself would look for it, else left for the linker to find.
  fk_cuda_libs=-lcudart_static fk_cuda_libdir=
  for fk_dir in `"${fk_nvcc}" --dryrun -o conftest conftest.cu 2>&1 |
      sed -n 's/^.* LIBRARIES=//p' | tr -d '"' | sed 's/-L//g'`; do
    AS_IF([test -f "${fk_dir}/libcudart_static.a"],
      [fk_cuda_libdir=`cd "${fk_dir}" && pwd -P`
       fk_cuda_libs="${fk_cuda_libdir}/libcudart_static.a"])
  done
  fk_cuda_libs="${fk_cuda_libs} -ldl -lrt -lpthread"

  # nvcc's own host compiler first: that of R may be too new for it.
  AS_IF([test -n "${with_nvcc_ccbin}"],
    [fk_ccbins="${with_nvcc_ccbin}"],
    [fk_ccbins="default `"${R_HOME}/bin/R" CMD config CXX17 2>/dev/null | sed 's/ .*//'`"])
  for fk_ccbin in ${fk_ccbins}; do
    AC_MSG_CHECKING([whether nvcc works (host compiler: ${fk_ccbin})])
    fk_flags="${fk_nvcc_flags}"
    AS_IF([test "${fk_ccbin}" != default], [fk_flags="-ccbin ${fk_ccbin} ${fk_flags}"])
    # the linker refuses symbols that nobody defines, as those of libstdc++
    AS_IF([{ "${fk_nvcc}" ${fk_flags} -c conftest.cu -o conftest.o &&
        ${CC} -shared -o conftest.so conftest.o ${fk_cuda_libs} -Wl,-z,defs; } >conftest.log 2>&1],
      [fk_cuda_why=], [fk_cuda_why=failed])
    cat conftest.log >&AS_MESSAGE_LOG_FD
    AS_IF([test -z "${fk_cuda_why}"], [
      AC_MSG_RESULT([yes])
      fk_nvcc_flags="${fk_flags}"
      break
    ])
    AC_MSG_RESULT([no])
    fk_cuda_why=`grep -iE 'error|fatal|unsupported|cannot' conftest.log | sed -n 1p`
    fk_cuda_why="${fk_nvcc} cannot build a small kernel (${fk_cuda_why:-no message})"
  done
  rm -f conftest.cu conftest.o conftest.so conftest.log
])
