# Every dependency, and why. What a fresh machine must install for them is in scripts/install-deps.sh.
#
#   Threads    required           the progress thread
#   libm       required           the cost model (log2)
#   libcrypto  required           HMAC-SHA256: a stranger's connection is told from a rank's (boot); no cryptography of our own
#   libssl     required           TLS 1.3: connections between hosts, and between members of an elastic run and its coordinator (secure)
#   SQLite     required           the coordinator's journal (coordinator)
#   libmicrohttpd required        the coordinator's status page and metrics (coordinator)
#   libcurl    optional           a journal in etcd, over its JSON gateway (coordinator)
#   libibverbs optional           RDMA devices (wire)
#   libfabric  optional           headers only: EFA, Slingshot, Omni-Path and what else it has providers for (src/wire/ofi_library.c)
#   PMIx       optional           headers only: start-up under Open MPI's mpirun and srun (src/boot/pmix.c)
#   json-c     required           descriptions of machines (src/topo/file.c), algorithms that are read as data (comm), and `--json` output
#   hwloc      required           which socket a NIC, a GPU and a core belong to (src/topo/discover.c)
#   OpenBLAS   optional           not linked: examples/tensor looks for it when it runs
#   cmocka     tests              the unit test runner
#   Python 3   tests              tests that are scripts (src/LAYERS, installation)
#
# An optional one (verbs, libfabric, CUDA, PMIx) is found here, adds itself to TUTTI_LIBRARIES and defines TUTTI_HAVE_<NAME>=1
# for tutti_objects; without it the build must still succeed.

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(PkgConfig REQUIRED)
pkg_check_modules(json_c REQUIRED IMPORTED_TARGET json-c)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd)
# By name, as an exported target can tell them.
set(TUTTI_LIBRARIES Threads::Threads m OpenSSL::SSL OpenSSL::Crypto ${json_c_LIBRARIES} ${hwloc_LIBRARIES} ${sqlite3_LIBRARIES}
    ${microhttpd_LIBRARIES} ${CMAKE_DL_LIBS})
set(TUTTI_PC_REQUIRES "libssl libcrypto json-c sqlite3")    # those that have a static library whose own needs are there
set(TUTTI_PC_LIBS "-lmicrohttpd")

pkg_check_modules(verbs QUIET libibverbs)
if(verbs_FOUND)
    list(APPEND TUTTI_LIBRARIES ${verbs_LIBRARIES})
    string(APPEND TUTTI_PC_LIBS " -libverbs")
    message(STATUS "libibverbs ${verbs_VERSION}: ranks may use RDMA devices (wire verbs)")
else()
    message(STATUS "libibverbs not found: ranks cannot use RDMA devices")
endif()

# Only the headers: the library is loaded where the wire is used.
pkg_check_modules(ofi QUIET libfabric>=1.9)
if(ofi_FOUND)
    message(STATUS "libfabric ${ofi_VERSION}: ranks may use its providers (wire ofi)")
else()
    message(STATUS "libfabric not found: ranks cannot use its providers (EFA, Slingshot, Omni-Path)")
endif()

pkg_check_modules(curl QUIET libcurl)
if(curl_FOUND)
    list(APPEND TUTTI_LIBRARIES ${curl_LIBRARIES})
    string(APPEND TUTTI_PC_LIBS " -lcurl")
    message(STATUS "libcurl ${curl_VERSION}: a coordinator may keep its journal in etcd")
else()
    message(STATUS "libcurl not found: a coordinator keeps its journal in a file, not in etcd")
endif()

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
