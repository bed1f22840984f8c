/* The register blocks of the loops are arrays: they live in registers only if every loop over them is
 * unrolled. Macros of the form "a pragma before a loop". */
#ifdef __clang__
#define FK_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FK_UNROLL _Pragma("GCC unroll 16")
#endif
