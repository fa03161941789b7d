# Compiler flags. SIMD kernels select their instructions per function (target attributes), so one
# build runs on every CPU of the architecture, without -m flags. tt_assert is enabled in every
# build.

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(TUTTI_OPTIMIZE -O3 CACHE STRING "How release builds are optimized")
set(CMAKE_C_FLAGS_RELEASE "${TUTTI_OPTIMIZE} -g")
set(CMAKE_C_FLAGS_DEBUG "-Og -g3")

find_program(CCACHE ccache)
mark_as_advanced(CCACHE)
if(CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()

# Link-time optimization, see CMakeLists.txt. Only gcc (and clang from version 17) adds ordinary
# code to such objects, which is all that the static library then contains.
set(TUTTI_WHOLE ON CACHE BOOL "Release builds with gcc: optimize across the files that short calls go through")
set(whole OFF)
if(TUTTI_WHOLE AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 10 AND
   CMAKE_BUILD_TYPE STREQUAL "Release" AND CMAKE_OBJCOPY AND NOT TUTTI_SANITIZE)
    include(CheckIPOSupported)
    check_ipo_supported(RESULT whole LANGUAGES C)
endif()
if(whole)
    set(TUTTI_WHOLE_COMPILE -flto=auto -ffat-lto-objects)
    set(TUTTI_WHOLE_LINK -flto=auto)
endif()

add_library(tutti_flags INTERFACE)
target_compile_definitions(tutti_flags INTERFACE _GNU_SOURCE
    $<$<NOT:$<BOOL:${TUTTI_TRACE}>>:TT_WITHOUT_TRACE>)
target_compile_options(tutti_flags INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wvla -Wundef
    -Wpointer-arith -Wwrite-strings -Wformat=2 -Wno-format-nonliteral -Wimplicit-fallthrough -Wdate-time
    -fno-strict-aliasing    # user buffers are accessed as other types
    # the same bits on every machine: no implicit fused multiply-add
    -fno-math-errno -ffp-contract=off)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(tutti_flags INTERFACE -Wlogical-op -Wduplicated-cond)
else()
    # some loops cannot be vectorized with sanitizers
    target_compile_options(tutti_flags INTERFACE -Wno-pass-failed)
endif()
# By default, gcc clears and copies every larger struct with `rep stos` and `rep movs`, whose
# start-up alone takes longer than a short call.
include(CheckCCompilerFlag)
foreach(what memset memcpy)
    set(flag -m${what}-strategy=unrolled_loop:512:noalign,libcall:-1:noalign)
    check_c_compiler_flag(${flag} TUTTI_HAVE_${what}_STRATEGY)
    if(TUTTI_HAVE_${what}_STRATEGY)
        target_compile_options(tutti_flags INTERFACE ${flag})
    endif()
endforeach()
if(TUTTI_WERROR)
    target_compile_options(tutti_flags INTERFACE -Werror)
endif()

# Sanitizers instrument everything that is built; the first finding ends the process.
if(TUTTI_SANITIZE)
    set(TUTTI_SANITIZE_FLAGS -fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_compile_options(${TUTTI_SANITIZE_FLAGS})
    add_link_options(${TUTTI_SANITIZE_FLAGS})
    # lld links the hundreds of large test programs in a third of the time.
    find_program(TUTTI_LLD ld.lld)
    mark_as_advanced(TUTTI_LLD)
    if(TUTTI_LLD)
        add_link_options(-fuse-ld=lld)
    endif()
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # otherwise it reports NULL + 0; accesses through NULL are still reported
        add_compile_options(-fno-delete-null-pointer-checks)
        foreach(sanitizer address thread)       # gcc defines these macros itself
            if(TUTTI_SANITIZE MATCHES ${sanitizer})
                string(TOUPPER ${sanitizer} name)
                add_compile_definitions(__SANITIZE_${name}__=1)
            endif()
        endforeach()
    endif()
endif()
if(TUTTI_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "TUTTI_FUZZ needs clang (its libFuzzer); other compilers build the replay driver")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
