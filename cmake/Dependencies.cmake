# Every dependency, and why. What a fresh machine must install for them is in scripts/install-deps.sh.
#
#   Threads    required           the progress thread
#   libm       required           the cost model (log2)
#   libcrypto  required           HMAC-SHA256: a stranger's connection is told from a rank's (boot); no cryptography of our own
#   PMIx       optional           headers only: start-up under Open MPI's mpirun and srun (src/boot/pmix.c)
#   json-c     required           descriptions of machines (src/topo/file.c), algorithms that are read as data (comm), and `--json` output
#   hwloc      required           which socket a NIC, a GPU and a core belong to (src/topo/discover.c)
#   cmocka     tests              the unit test runner
#   Python 3   tests              tests that are scripts (src/LAYERS, installation)
#
# An optional one (verbs, libfabric, CUDA, PMIx) is found here, adds itself to TUTTI_LIBRARIES and defines TUTTI_HAVE_<NAME>=1
# for tutti_objects; without it the build must still succeed.

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(json_c REQUIRED IMPORTED_TARGET json-c)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
# By name, as an exported target can tell them.
set(TUTTI_LIBRARIES Threads::Threads m OpenSSL::Crypto ${json_c_LIBRARIES} ${hwloc_LIBRARIES} ${CMAKE_DL_LIBS})

# Only the headers: the library is the launcher's, opened when a rank starts under it.
pkg_check_modules(pmix QUIET pmix)
if(pmix_FOUND)
    set(TUTTI_PMIX_INCLUDES ${pmix_INCLUDE_DIRS})
    message(STATUS "PMIx ${pmix_VERSION}: start-up under Open MPI's mpirun on several hosts, and srun --mpi=pmix")
else()
    message(STATUS "PMIx not found: under Open MPI's mpirun, start-up works on one host only")
endif()

macro(tutti_require_cmocka)
    if(NOT TARGET PkgConfig::cmocka)
        pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
    endif()
endmacro()

find_package(Python3 COMPONENTS Interpreter)
