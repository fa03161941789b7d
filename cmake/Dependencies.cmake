# All dependencies with their purpose. scripts/install-deps.sh has the packages of a fresh machine.
#
#   Threads    required      the progress thread
#   libm       required      the cost model (log2)
#   libcrypto  required      HMAC-SHA256 of the token, to reject connections that are not from ranks
#              of
#                            the job (boot); Tutti has no cryptography of its own
#   libssl     required      TLS 1.3: connections between hosts, and between members of an elastic
#              run
#                            and its coordinator (secure)
#   SQLite     required      the coordinator's journal (coordinator)
#   libmicrohttpd required   the coordinator's status page and metrics (coordinator)
#   libcurl    optional      a journal, and rank 0's address, in etcd, over its JSON gateway
#   libibverbs optional      RDMA devices (wire)
#   libfabric  optional      headers only: EFA, Slingshot, Omni-Path and other providers
#                            (src/wire/ofi/ofi_library.c)
#   PMIx       optional      headers only: start-up under Open MPI's mpirun and srun
#              (src/boot/pmix.c)
#   json-c     required      descriptions of machines (src/topo/file.c), algorithms as data (comm),
#              and
#                            `--json` output
#   hwloc      required      the sockets of NICs, GPUs and cores (src/topo/discover.c)
#   OpenBLAS   optional      not linked: examples/tensor loads it at run time
#   CUDA 13    tests         headers only: the emulation of GPUs (emu); optional
#   cmocka     tests         the unit test runner
#   Python 3   tests         test scripts (src/LAYERS, installation)
#
# An optional one (verbs, libfabric, CUDA, PMIx) is found here, adds itself to TUTTI_LIBRARIES and
# defines TUTTI_HAVE_<NAME>=1 for tutti_objects. The build must also succeed without it. An option
# leaves it out although it is installed, so that packages do not depend on the build machine.

option(TUTTI_VERBS "RDMA devices, if libibverbs is found" ON)
option(TUTTI_OFI "Providers of libfabric, if its headers are found" ON)
option(TUTTI_ETCD "Journals and rendezvous in etcd, if libcurl is found" ON)
option(TUTTI_PMIX "Start-up by PMIx, if its headers are found" ON)

# Finds a pkg-config module as <prefix>_FOUND, unless `enabled` is off.
macro(tutti_find_optional prefix enabled module)
    if(${enabled})
        pkg_check_modules(${prefix} QUIET ${module})
    else()
        unset(${prefix}_FOUND CACHE)        # of an earlier configuration
        set(${prefix}_FOUND FALSE)
    endif()
endmacro()

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(PkgConfig REQUIRED)
pkg_check_modules(json_c REQUIRED IMPORTED_TARGET json-c)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd)
# Libraries by name, because exported targets contain these names.
set(TUTTI_LIBRARIES Threads::Threads m OpenSSL::SSL OpenSSL::Crypto ${json_c_LIBRARIES} ${hwloc_LIBRARIES} ${sqlite3_LIBRARIES}
    ${microhttpd_LIBRARIES} ${CMAKE_DL_LIBS})
# libraries whose static versions can be linked with their private dependencies
set(TUTTI_PC_REQUIRES "libssl libcrypto json-c sqlite3")
set(TUTTI_PC_LIBS "-lmicrohttpd")

tutti_find_optional(verbs TUTTI_VERBS libibverbs)
if(verbs_FOUND)
    list(APPEND TUTTI_LIBRARIES ${verbs_LIBRARIES})
    string(APPEND TUTTI_PC_LIBS " -libverbs")
    message(STATUS "libibverbs ${verbs_VERSION}: ranks may use RDMA devices (wire verbs)")
else()
    message(STATUS "libibverbs not found, or TUTTI_VERBS is off: ranks cannot use RDMA devices")
endif()

# Headers only: the library is loaded when the transport is used.
tutti_find_optional(ofi TUTTI_OFI libfabric>=1.9)
if(ofi_FOUND)
    message(STATUS "libfabric ${ofi_VERSION}: ranks may use its providers (wire ofi)")
else()
    message(STATUS "libfabric not found, or TUTTI_OFI is off: ranks cannot use its providers (EFA, Slingshot, Omni-Path)")
endif()

tutti_find_optional(curl TUTTI_ETCD libcurl)
if(curl_FOUND)
    list(APPEND TUTTI_LIBRARIES ${curl_LIBRARIES})
    string(APPEND TUTTI_PC_LIBS " -lcurl")
    message(STATUS "libcurl ${curl_VERSION}: journals and rendezvous may be in etcd")
else()
    message(STATUS "no libcurl, or TUTTI_ETCD is off: journals and rendezvous cannot be in etcd")
endif()

# Headers only: the launcher's library is loaded when a rank starts under it.
tutti_find_optional(pmix TUTTI_PMIX pmix)
if(pmix_FOUND)
    set(TUTTI_PMIX_INCLUDES ${pmix_INCLUDE_DIRS})
    message(STATUS "PMIx ${pmix_VERSION}: start-up under Open MPI's mpirun on several hosts, and srun --mpi=pmix")
else()
    message(STATUS "PMIx not found, or TUTTI_PMIX is off: under Open MPI's mpirun, start-up works on one host only")
endif()

macro(tutti_require_cmocka)
    if(NOT TARGET PkgConfig::cmocka)
        pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
    endif()
endmacro()

find_package(Python3 COMPONENTS Interpreter)
