/* Operations that AVX2 and AVX-512 share; V_OP(name) is the intrinsic of their width and type. Included by
 * vec_avx2.h and vec_avx512.h. */
#define V_LOAD(p) V_OP(loadu)(p)
#define V_STORE(p, a) V_OP(storeu)(p, a)
#define V_SET(x) V_OP(set1)(x)
#define V_ADD(a, b) V_OP(add)(a, b)
#define V_SUB(a, b) V_OP(sub)(a, b)
#define V_MUL(a, b) V_OP(mul)(a, b)
#define V_DIV(a, b) V_OP(div)(a, b)
#define V_SQRT(a) V_OP(sqrt)(a)
#define V_ABS(a) V_OP(andnot)(V_SET(-0.0), a)
#define V_FMA(a, b, c) V_OP(fmadd)(a, b, c)
#define V_FNMA(a, b, c) V_OP(fnmadd)(a, b, c)
#define V_MAX(a, b) V_OP(max)(a, b) /* b where one is NaN, as V_MIN */
#define V_MIN(a, b) V_OP(min)(a, b)
