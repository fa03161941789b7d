/* OpenSHMEM: type-generic macros (C11). They select a function by the type that an argument points
 * to, without qualifiers. Macros with an optional context also select by their number of
 * arguments. int32_t, size_t, ptrdiff_t and similar types are aliases of standard types. */
#ifndef TUTTI_SHMEM_GENERIC_H
#define TUTTI_SHMEM_GENERIC_H

/* ---- selection by type: PRE_<type>_OP ---- */

/* clang-format off */
#define SHMEMI_AMO_CHOICES(PRE, OP)                                                                \
    int: PRE##_int_##OP, long: PRE##_long_##OP, long long: PRE##_longlong_##OP,                    \
    unsigned int: PRE##_uint_##OP, unsigned long: PRE##_ulong_##OP,                                \
    unsigned long long: PRE##_ulonglong_##OP
#define SHMEMI_RMA_CHOICES(PRE, OP)                                                                \
    SHMEMI_AMO_CHOICES(PRE, OP), float: PRE##_float_##OP, double: PRE##_double_##OP,               \
    long double: PRE##_longdouble_##OP, char: PRE##_char_##OP, signed char: PRE##_schar_##OP,      \
    short: PRE##_short_##OP, unsigned char: PRE##_uchar_##OP, unsigned short: PRE##_ushort_##OP

#define SHMEMI_BY_AMO(PRE, OP, x) _Generic(*(x), SHMEMI_AMO_CHOICES(PRE, OP))
#define SHMEMI_BY_EXTENDED_AMO(PRE, OP, x)                                                         \
    _Generic(*(x), SHMEMI_AMO_CHOICES(PRE, OP), float: PRE##_float_##OP,                           \
             double: PRE##_double_##OP)
#define SHMEMI_BY_WAIT(PRE, OP, x)                                                                 \
    _Generic(*(x), SHMEMI_AMO_CHOICES(PRE, OP), short: PRE##_short_##OP,                           \
             unsigned short: PRE##_ushort_##OP)
#define SHMEMI_BY_RMA(PRE, OP, x) _Generic(*(x), SHMEMI_RMA_CHOICES(PRE, OP))
#define SHMEMI_BY_SUM(PRE, OP, x)                                                                  \
    _Generic(*(x), SHMEMI_RMA_CHOICES(PRE, OP), shmemi_complexf: PRE##_complexf_##OP,              \
             shmemi_complexd: PRE##_complexd_##OP)
/* Of the signed integers, only the exact-width types support bitwise operations. */
#define SHMEMI_BY_BITWISE_AMO(PRE, OP, x)                                                          \
    _Generic(*(x), int32_t: PRE##_int32_##OP, int64_t: PRE##_int64_##OP,                           \
             unsigned int: PRE##_uint_##OP, unsigned long: PRE##_ulong_##OP,                       \
             unsigned long long: PRE##_ulonglong_##OP)
#define SHMEMI_BY_BITS(PRE, OP, x)                                                                 \
    _Generic(*(x), int8_t: PRE##_int8_##OP, int16_t: PRE##_int16_##OP, int32_t: PRE##_int32_##OP,  \
             int64_t: PRE##_int64_##OP, unsigned char: PRE##_uchar_##OP,                           \
             unsigned short: PRE##_ushort_##OP, unsigned int: PRE##_uint_##OP,                     \
             unsigned long: PRE##_ulong_##OP, unsigned long long: PRE##_ulonglong_##OP)

/* ---- selection by number of arguments: a context is an additional first argument ---- */

#define SHMEMI_PLAIN(BY, OP, x, ...) BY(shmem, OP, x)(x, __VA_ARGS__)
#define SHMEMI_CTX(BY, OP, ctx, x, ...) BY(shmem_ctx, OP, x)(ctx, x, __VA_ARGS__)
#define SHMEMI_PICK3(a, b, c, name, ...) name
#define SHMEMI_PICK4(a, b, c, d, name, ...) name
#define SHMEMI_PICK5(a, b, c, d, e, name, ...) name
#define SHMEMI_PICK6(a, b, c, d, e, f, name, ...) name
#define SHMEMI_PICK7(a, b, c, d, e, f, g, name, ...) name
#define SHMEMI_PICK8(a, b, c, d, e, f, g, h, name, ...) name
#define SHMEMI_CALL2(BY, OP, ...)                                                                  \
    SHMEMI_PICK3(__VA_ARGS__, SHMEMI_CTX, SHMEMI_PLAIN, 0)(BY, OP, __VA_ARGS__)
#define SHMEMI_CALL3(BY, OP, ...)                                                                  \
    SHMEMI_PICK4(__VA_ARGS__, SHMEMI_CTX, SHMEMI_PLAIN, 0)(BY, OP, __VA_ARGS__)
#define SHMEMI_CALL4(BY, OP, ...)                                                                  \
    SHMEMI_PICK5(__VA_ARGS__, SHMEMI_CTX, SHMEMI_PLAIN, 0)(BY, OP, __VA_ARGS__)
#define SHMEMI_CALL5(BY, OP, ...)                                                                  \
    SHMEMI_PICK6(__VA_ARGS__, SHMEMI_CTX, SHMEMI_PLAIN, 0)(BY, OP, __VA_ARGS__)
#define SHMEMI_CALL6(BY, OP, ...)                                                                  \
    SHMEMI_PICK7(__VA_ARGS__, SHMEMI_CTX, SHMEMI_PLAIN, 0)(BY, OP, __VA_ARGS__)
#define SHMEMI_CALL7(BY, OP, ...)                                                                  \
    SHMEMI_PICK8(__VA_ARGS__, SHMEMI_CTX, SHMEMI_PLAIN, 0)(BY, OP, __VA_ARGS__)

/* ---- remote memory access ---- */

#define shmem_put(...) SHMEMI_CALL4(SHMEMI_BY_RMA, put, __VA_ARGS__)
#define shmem_get(...) SHMEMI_CALL4(SHMEMI_BY_RMA, get, __VA_ARGS__)
#define shmem_put_nbi(...) SHMEMI_CALL4(SHMEMI_BY_RMA, put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...) SHMEMI_CALL4(SHMEMI_BY_RMA, get_nbi, __VA_ARGS__)
#define shmem_iput(...) SHMEMI_CALL6(SHMEMI_BY_RMA, iput, __VA_ARGS__)
#define shmem_iget(...) SHMEMI_CALL6(SHMEMI_BY_RMA, iget, __VA_ARGS__)
#define shmem_p(...) SHMEMI_CALL3(SHMEMI_BY_RMA, p, __VA_ARGS__)
#define shmem_g(...) SHMEMI_CALL2(SHMEMI_BY_RMA, g, __VA_ARGS__)
#define shmem_put_signal(...) SHMEMI_CALL7(SHMEMI_BY_RMA, put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) SHMEMI_CALL7(SHMEMI_BY_RMA, put_signal_nbi, __VA_ARGS__)

/* ---- atomics ---- */

#define shmem_atomic_fetch(...) SHMEMI_CALL2(SHMEMI_BY_EXTENDED_AMO, atomic_fetch, __VA_ARGS__)
#define shmem_atomic_set(...) SHMEMI_CALL3(SHMEMI_BY_EXTENDED_AMO, atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...) SHMEMI_CALL3(SHMEMI_BY_EXTENDED_AMO, atomic_swap, __VA_ARGS__)
#define shmem_atomic_compare_swap(...) SHMEMI_CALL4(SHMEMI_BY_AMO, atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_inc(...) SHMEMI_CALL2(SHMEMI_BY_AMO, atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...) SHMEMI_CALL2(SHMEMI_BY_AMO, atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_add(...) SHMEMI_CALL3(SHMEMI_BY_AMO, atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_add(...) SHMEMI_CALL3(SHMEMI_BY_AMO, atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_and(...) SHMEMI_CALL3(SHMEMI_BY_BITWISE_AMO, atomic_and, __VA_ARGS__)
#define shmem_atomic_fetch_and(...)                                                                \
    SHMEMI_CALL3(SHMEMI_BY_BITWISE_AMO, atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_or(...) SHMEMI_CALL3(SHMEMI_BY_BITWISE_AMO, atomic_or, __VA_ARGS__)
#define shmem_atomic_fetch_or(...) SHMEMI_CALL3(SHMEMI_BY_BITWISE_AMO, atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_xor(...) SHMEMI_CALL3(SHMEMI_BY_BITWISE_AMO, atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...)                                                                \
    SHMEMI_CALL3(SHMEMI_BY_BITWISE_AMO, atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_fetch_nbi(...)                                                                \
    SHMEMI_CALL3(SHMEMI_BY_EXTENDED_AMO, atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...)                                                                 \
    SHMEMI_CALL4(SHMEMI_BY_EXTENDED_AMO, atomic_swap_nbi, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...)                                                         \
    SHMEMI_CALL5(SHMEMI_BY_AMO, atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...)                                                            \
    SHMEMI_CALL3(SHMEMI_BY_AMO, atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...)                                                            \
    SHMEMI_CALL4(SHMEMI_BY_AMO, atomic_fetch_add_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...)                                                            \
    SHMEMI_CALL4(SHMEMI_BY_BITWISE_AMO, atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...)                                                             \
    SHMEMI_CALL4(SHMEMI_BY_BITWISE_AMO, atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...)                                                            \
    SHMEMI_CALL4(SHMEMI_BY_BITWISE_AMO, atomic_fetch_xor_nbi, __VA_ARGS__)

/* ---- waiting ---- */

#define shmem_wait_until(ivar, ...) SHMEMI_BY_WAIT(shmem, wait_until, ivar)(ivar, __VA_ARGS__)
#define shmem_wait_until_all(ivars, ...)                                                           \
    SHMEMI_BY_AMO(shmem, wait_until_all, ivars)(ivars, __VA_ARGS__)
#define shmem_wait_until_any(ivars, ...)                                                           \
    SHMEMI_BY_AMO(shmem, wait_until_any, ivars)(ivars, __VA_ARGS__)
#define shmem_wait_until_some(ivars, ...)                                                          \
    SHMEMI_BY_AMO(shmem, wait_until_some, ivars)(ivars, __VA_ARGS__)
#define shmem_wait_until_all_vector(ivars, ...)                                                    \
    SHMEMI_BY_AMO(shmem, wait_until_all_vector, ivars)(ivars, __VA_ARGS__)
#define shmem_wait_until_any_vector(ivars, ...)                                                    \
    SHMEMI_BY_AMO(shmem, wait_until_any_vector, ivars)(ivars, __VA_ARGS__)
#define shmem_wait_until_some_vector(ivars, ...)                                                   \
    SHMEMI_BY_AMO(shmem, wait_until_some_vector, ivars)(ivars, __VA_ARGS__)
#define shmem_test(ivar, ...) SHMEMI_BY_WAIT(shmem, test, ivar)(ivar, __VA_ARGS__)
#define shmem_test_all(ivars, ...) SHMEMI_BY_AMO(shmem, test_all, ivars)(ivars, __VA_ARGS__)
#define shmem_test_any(ivars, ...) SHMEMI_BY_AMO(shmem, test_any, ivars)(ivars, __VA_ARGS__)
#define shmem_test_some(ivars, ...) SHMEMI_BY_AMO(shmem, test_some, ivars)(ivars, __VA_ARGS__)
#define shmem_test_all_vector(ivars, ...)                                                          \
    SHMEMI_BY_AMO(shmem, test_all_vector, ivars)(ivars, __VA_ARGS__)
#define shmem_test_any_vector(ivars, ...)                                                          \
    SHMEMI_BY_AMO(shmem, test_any_vector, ivars)(ivars, __VA_ARGS__)
#define shmem_test_some_vector(ivars, ...)                                                         \
    SHMEMI_BY_AMO(shmem, test_some_vector, ivars)(ivars, __VA_ARGS__)

/* ---- collectives ---- */

#define SHMEMI_TEAM_CALL(BY, OP, team, dest, ...) BY(shmem, OP, dest)(team, dest, __VA_ARGS__)
#define shmem_broadcast(...) SHMEMI_TEAM_CALL(SHMEMI_BY_RMA, broadcast, __VA_ARGS__)
#define shmem_collect(...) SHMEMI_TEAM_CALL(SHMEMI_BY_RMA, collect, __VA_ARGS__)
#define shmem_fcollect(...) SHMEMI_TEAM_CALL(SHMEMI_BY_RMA, fcollect, __VA_ARGS__)
#define shmem_alltoall(...) SHMEMI_TEAM_CALL(SHMEMI_BY_RMA, alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) SHMEMI_TEAM_CALL(SHMEMI_BY_RMA, alltoalls, __VA_ARGS__)
#define shmem_and_reduce(...) SHMEMI_TEAM_CALL(SHMEMI_BY_BITS, and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...) SHMEMI_TEAM_CALL(SHMEMI_BY_BITS, or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...) SHMEMI_TEAM_CALL(SHMEMI_BY_BITS, xor_reduce, __VA_ARGS__)
#define shmem_max_reduce(...) SHMEMI_TEAM_CALL(SHMEMI_BY_RMA, max_reduce, __VA_ARGS__)
#define shmem_min_reduce(...) SHMEMI_TEAM_CALL(SHMEMI_BY_RMA, min_reduce, __VA_ARGS__)
#define shmem_sum_reduce(...) SHMEMI_TEAM_CALL(SHMEMI_BY_SUM, sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...) SHMEMI_TEAM_CALL(SHMEMI_BY_SUM, prod_reduce, __VA_ARGS__)
/* With one argument shmem_team_sync, else the deprecated shmem_sync of an active set. */
#define shmem_sync(...) SHMEMI_PICK4(__VA_ARGS__, shmem_sync, 0, 0, shmem_team_sync)(__VA_ARGS__)

/* ---- deprecated ---- */

#define shmem_fetch(source, pe) SHMEMI_BY_OLD_EXTENDED(fetch, source)(source, pe)
#define shmem_set(dest, value, pe) SHMEMI_BY_OLD_EXTENDED(set, dest)(dest, value, pe)
#define shmem_swap(dest, value, pe) SHMEMI_BY_OLD_EXTENDED(swap, dest)(dest, value, pe)
#define shmem_cswap(dest, cond, value, pe) SHMEMI_BY_OLD(cswap, dest)(dest, cond, value, pe)
#define shmem_finc(dest, pe) SHMEMI_BY_OLD(finc, dest)(dest, pe)
#define shmem_inc(dest, pe) SHMEMI_BY_OLD(inc, dest)(dest, pe)
#define shmem_fadd(dest, value, pe) SHMEMI_BY_OLD(fadd, dest)(dest, value, pe)
#define shmem_add(dest, value, pe) SHMEMI_BY_OLD(add, dest)(dest, value, pe)
#define shmem_wait(ivar, cmp_value) SHMEMI_BY_OLD_WAIT(ivar)(ivar, cmp_value)
#define SHMEMI_BY_OLD(OP, x)                                                                       \
    _Generic(*(x), int: shmem_int_##OP, long: shmem_long_##OP, long long: shmem_longlong_##OP)
#define SHMEMI_BY_OLD_EXTENDED(OP, x)                                                              \
    _Generic(*(x), float: shmem_float_##OP, double: shmem_double_##OP, int: shmem_int_##OP,        \
             long: shmem_long_##OP, long long: shmem_longlong_##OP)
#define SHMEMI_BY_OLD_WAIT(x)                                                                      \
    _Generic(*(x), short: shmem_short_wait, int: shmem_int_wait, long: shmem_long_wait,            \
             long long: shmem_longlong_wait)
/* clang-format on */

#endif
