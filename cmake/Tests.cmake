# To add a test, add a file:
#
#   tests/<room>/test_<file>.c      a cmocka program: the ctest test <room>.<file>; exit status 77
#                                   means skipped
#   tests/<room>/<other>.c          linked into every test of that folder that needs it (cases,
#                                   fakes)
#   tests/support/*.c               linked into every test that needs it; headers are included as
#                                   "support/..."
#   tests/<folder>/prog_<name>.c    a program started by tests: <build>/tests/<folder>/prog_<name>
#   tests/fuzz/fuzz_<name>.c        defines LLVMFuzzerTestOneInput; its corpus is
#                                   tests/fuzz/corpus/<name>/
#   tests/test_*.py, *.sh and tests/<folder>/test_*.py, *.sh
#                                   run directly; exit status 77 means skipped. With sanitizers, a
#                                   quarter of the unittest cases of a script run, in turn
#                                   (tests/support/turns.py)
#   tests/<folder>/plugin_<what>.c  a shared object loaded by tests
#   tests/<room>/test_planted.c     compiled with the room's sources and TT_PLANTED_BUGS; not with
#                                   sanitizers
#
# A test over many similar cases runs a share of them in `make test`, another share in each turn,
# and all of them in `make test-long`: programs by unit_draw, unit_has_turn or unit_share
# (tests/support/unit.h), scripts by of_turn (tests/support/share.py). Of other scripts of the
# slowest folders, half of the cases run (halved_scripts, below). The ctest label of all these is
# "long".
#
# Tests must pass while others run beside them. The limit is TUTTI_TEST_TIMEOUT_S, for hangs: the
# slowest test takes a fifth of it beside others, and a machine of a third of the usual speed must
# not reach it. Tests that take more than a few seconds are listed in tests/seconds.txt. Scripts find
# the build in TUTTI_BUILD_DIR and the sources in TUTTI_SOURCE_DIR.

set(TUTTI_TEST_TIMEOUT_S 900 CACHE STRING "Seconds one test may take")
set(TUTTI_FUZZ_RUNS 20000 CACHE STRING "Inputs that each fuzzer tries in ctest")
string(JOIN " " sanitize_flags ${TUTTI_SANITIZE_FLAGS})
set(alone_tests cluster.bounds)         # needs most of the memory
# The tested code of these folders has no threads and no memory shared by processes, so TSan has
# nothing to check. Exceptions are tools, examples and install: their programs use the library,
# whose threads the tests of cluster cover; their own few threads are not checked.
set(single_threaded algo analyze elastic ringorder examples fuzz install sched sim tests tools topo tune)

set(tests_dir ${CMAKE_CURRENT_SOURCE_DIR}/tests)
tutti_require_cmocka()

# Long tests start early, so that no core is idle at the end.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS tests/seconds.txt)
file(STRINGS tests/seconds.txt lines REGEX "^[^#]")
foreach(line ${lines})
    string(REGEX MATCH "^([^ ]+) +([0-9]+)$" good "${line}")
    if(NOT good)
        message(FATAL_ERROR "tests/seconds.txt: \"${line}\" must be a test and a number of seconds")
    endif()
    set(seconds_of_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
endforeach()

# All of tests/support. Only the objects that a test uses are linked.
file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.c)
add_library(tests_support INTERFACE)
target_include_directories(tests_support INTERFACE ${tests_dir})
target_link_libraries(tests_support INTERFACE tutti_inside PkgConfig::cmocka)
# Link-time optimization would take a minute for each of hundreds of programs. Optimized code is
# tested by all tests that start the tutti command or load the shared library.
if(whole)
    target_link_options(tests_support INTERFACE -fno-lto)
endif()
if(support_sources)
    add_library(tests_support_objects STATIC ${support_sources})
    target_include_directories(tests_support_objects PRIVATE ${tests_dir})
    target_link_libraries(tests_support_objects PRIVATE tutti_inside PkgConfig::cmocka)
    target_link_libraries(tests_support INTERFACE tests_support_objects tutti_static)
endif()

if(ofi_FOUND)       # these tests include internal headers of the transport
    set_source_files_properties(tests/wire/test_ofi.c PROPERTIES
        COMPILE_DEFINITIONS TUTTI_HAVE_OFI=1 INCLUDE_DIRECTORIES "${ofi_INCLUDE_DIRS}")
endif()
if(verbs_FOUND)
    set_source_files_properties(tests/cluster/held_posts.c tests/wire/test_verbs.c
        tests/wire/test_verbs_device.c PROPERTIES COMPILE_DEFINITIONS TUTTI_HAVE_VERBS=1)
endif()

# Reference computations. TSan would spend most of a test's time on them, although one thread
# computes them in private memory. TSan still intercepts memset, memcpy and memcmp, by which these
# files access the buffers of a call.
if(TUTTI_SANITIZE MATCHES thread)
    set_source_files_properties(tests/cluster/calls.c tests/reduce/reference.c tests/support/pattern.c PROPERTIES
        COMPILE_OPTIONS -fno-sanitize=thread)
endif()

# Files that use shares contain this. over_all_ways, in tests/cluster/windows.c, uses a share of the
# ways.
set(share_pattern "unit_draw\\(|unit_has_turn\\(|unit_share\\(|over_all_ways\\(|import .*(of_turn|share)")
# Scripts of these folders that have no shares of their own run half of their cases in `make test`.
set(halved_scripts cluster coordinator tools)

# Labels the test "long" if its file uses shares.
function(tutti_label_long test source)
    file(STRINGS ${source} found LIMIT_COUNT 1 REGEX "${share_pattern}")
    if(found)
        set_property(TEST ${test} APPEND PROPERTY LABELS long)
    endif()
endfunction()

# Sets the common properties of a test in any language.
function(tutti_test_properties test folder)
    set(environment
        "TUTTI_BUILD_DIR=${CMAKE_BINARY_DIR}" "TUTTI_SOURCE_DIR=${CMAKE_SOURCE_DIR}" "CC=${CMAKE_C_COMPILER}"
        "CFLAGS=${sanitize_flags}"
        "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
        "LSAN_OPTIONS=suppressions=${tests_dir}/support/lsan.supp:print_suppressions=0"
        "UBSAN_OPTIONS=print_stacktrace=1" "TSAN_OPTIONS=second_deadlock_stack=1")
    set_tests_properties(${test} PROPERTIES
        ENVIRONMENT "${environment}" TIMEOUT ${TUTTI_TEST_TIMEOUT_S} LABELS "${folder}")
    # run first: otherwise it would wait until all cores happen to be idle at the same time
    if(test IN_LIST alone_tests)
        set_tests_properties(${test} PROPERTIES RUN_SERIAL TRUE COST 1000)
    elseif(DEFINED seconds_of_${test})
        set_tests_properties(${test} PROPERTIES COST ${seconds_of_${test}})
    endif()
endfunction()

# Adds the cmocka programs of tests/<folder>, and the programs that they start.
function(tutti_add_c_tests folder)
    file(GLOB tests CONFIGURE_DEPENDS tests/${folder}/test_*.c)
    file(GLOB progs CONFIGURE_DEPENDS tests/${folder}/prog_*.c)
    file(GLOB common CONFIGURE_DEPENDS tests/${folder}/*.c)
    if(common)
        list(FILTER common EXCLUDE REGEX "/(test|prog|fuzz|plugin)_[^/]*$")
    endif()
    if(TUTTI_SANITIZE)      # only the release build checks that tests find planted bugs
        list(FILTER tests EXCLUDE REGEX "/test_planted\\.c$")
    endif()
    if(common)
        add_library(tests_${folder} STATIC ${common})
        target_link_libraries(tests_${folder} PUBLIC tests_support)
    endif()

    set(plugins)
    file(GLOB plugin_sources CONFIGURE_DEPENDS tests/${folder}/plugin_*.c)
    foreach(source ${plugin_sources})
        get_filename_component(file ${source} NAME_WE)
        add_library(${folder}_${file} MODULE ${source})
        list(APPEND plugins ${folder}_${file})
        set_target_properties(${folder}_${file} PROPERTIES
            OUTPUT_NAME ${file} PREFIX "" LIBRARY_OUTPUT_DIRECTORY tests/${folder}
            C_VISIBILITY_PRESET hidden)
        target_include_directories(${folder}_${file} PRIVATE include)
        target_link_libraries(${folder}_${file} PRIVATE tutti_flags)
    endforeach()

    foreach(source ${tests} ${progs})
        get_filename_component(file ${source} NAME_WE)
        set(target ${folder}_${file})
        add_executable(${target} ${source})
        set_target_properties(${target} PROPERTIES
            OUTPUT_NAME ${file} RUNTIME_OUTPUT_DIRECTORY tests/${folder})
        if(file STREQUAL "test_planted")
            get_target_property(room tutti_objects SOURCES)
            list(FILTER room INCLUDE REGEX "/src/${folder}/")
            target_sources(${target} PRIVATE ${room} ${common})
            target_compile_definitions(${target} PRIVATE TT_PLANTED_BUGS)
        elseif(common)
            target_link_libraries(${target} PRIVATE tests_${folder})
        endif()
        target_link_libraries(${target} PRIVATE tests_support)
        if(plugins)
            add_dependencies(${target} ${plugins})
        endif()
        if(file MATCHES "^test_(.*)$")
            set(test ${folder}.${CMAKE_MATCH_1})
            add_test(NAME ${test} COMMAND ${target})
            tutti_test_properties(${test} ${folder})
            tutti_label_long(${test} ${source})
            set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77)
        endif()
    endforeach()
endfunction()

# Adds tests/fuzz: with libFuzzer if TUTTI_FUZZ is set, otherwise with a driver that replays the
# corpus and then mutates it.
function(tutti_add_fuzzers)
    file(GLOB fuzzers CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
    if(NOT TARGET tutti_emu_verbs)
        list(FILTER fuzzers EXCLUDE REGEX "/fuzz_emu_rdma\\.c$")
    endif()
    set(slow_fuzzers peer shm)      # these open a transport or an engine for each input
    add_custom_target(fuzzers)
    foreach(source ${fuzzers})
        get_filename_component(file ${source} NAME_WE)
        string(REGEX REPLACE "^fuzz_" "" name ${file})
        set(runs ${TUTTI_FUZZ_RUNS})
        if(name IN_LIST slow_fuzzers)
            math(EXPR runs "${runs} / 4")
        endif()
        set(corpus ${tests_dir}/fuzz/corpus/${name})
        add_executable(${file} ${source})
        set_target_properties(${file} PROPERTIES RUNTIME_OUTPUT_DIRECTORY tests/fuzz)
        target_link_libraries(${file} PRIVATE tests_support)
        if(name STREQUAL "emu_rdma")
            target_sources(${file} PRIVATE emu/verbs/fault.c emu/verbs/shared.c)
            target_include_directories(${file} PRIVATE emu/verbs)
        endif()
        # libFuzzer calls the function by name; no header declares it.
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Wno-missing-prototypes)
        if(TUTTI_FUZZ)
            target_link_options(${file} PRIVATE -fsanitize=fuzzer)
            # directory of new inputs, outside the sources
            set(found ${CMAKE_BINARY_DIR}/tests/fuzz/found/${name})
            file(MAKE_DIRECTORY ${found})
            set(seeds ${found})
            if(IS_DIRECTORY ${corpus})
                list(APPEND seeds ${corpus})
            endif()
            add_test(NAME fuzz.${name} COMMAND ${file} -runs=${runs} -seed=1 -timeout=10
                -error_exitcode=1 ${seeds})
        else()
            target_sources(${file} PRIVATE tests/fuzz/replay.c)
            add_test(NAME fuzz.${name} COMMAND ${file} ${runs} 1 ${corpus})
        endif()
        add_dependencies(fuzzers ${file})
        tutti_test_properties(fuzz.${name} fuzz)
    endforeach()
endfunction()

# Adds the test scripts tests/*.py and tests/*/*.sh.
function(tutti_add_script_tests)
    file(GLOB scripts CONFIGURE_DEPENDS
        tests/test_*.py tests/test_*.sh tests/*/test_*.py tests/*/test_*.sh)
    foreach(script ${scripts})
        get_filename_component(folder ${script} DIRECTORY)
        get_filename_component(folder ${folder} NAME)
        # builds with sanitizers have no Python package, and Python cannot preload their libraries
        if(NOT folder IN_LIST folders OR (TUTTI_SANITIZE AND folder MATCHES "^(python|emu)$"))
            continue()
        endif()
        get_filename_component(file ${script} NAME_WE)
        string(REGEX REPLACE "^test_" "" name ${file})
        set(halved FALSE)
        if(script MATCHES "\\.py$")
            if(NOT Python3_FOUND)
                message(FATAL_ERROR "${script} needs Python 3")
            endif()
            set(interpreter ${Python3_EXECUTABLE})
            if(TUTTI_SANITIZE)
                list(APPEND interpreter ${tests_dir}/support/turns.py 4)
            elseif(folder IN_LIST halved_scripts)
                file(STRINGS ${script} own_shares LIMIT_COUNT 1 REGEX "${share_pattern}")
                if(NOT own_shares)
                    list(APPEND interpreter ${tests_dir}/support/turns.py share)
                    set(halved TRUE)
                endif()
            endif()
        else()
            set(interpreter bash)
        endif()
        add_test(NAME ${folder}.${name} COMMAND ${interpreter} ${script})
        tutti_test_properties(${folder}.${name} ${folder})
        tutti_label_long(${folder}.${name} ${script})
        if(halved)
            set_property(TEST ${folder}.${name} APPEND PROPERTY LABELS long)
        endif()
        # not for fuzzers: libFuzzer uses this status for failures
        set_tests_properties(${folder}.${name} PROPERTIES SKIP_RETURN_CODE 77)
    endforeach()
endfunction()

# Adds the tool with the example algorithm of docs/algorithms.md: its file and its line in the
# register.
function(tutti_add_worked_example)
    set(example ${CMAKE_BINARY_DIR}/worked_example)
    add_custom_command(
        OUTPUT ${example}/broadcast_halves.c ${example}/algos.c
        COMMAND ${Python3_EXECUTABLE} ${tests_dir}/support/worked_example.py ${CMAKE_SOURCE_DIR} ${example}
        DEPENDS tests/support/worked_example.py docs/algorithms.md src/algo/algos.c)
    add_executable(tutti_with_example
        $<TARGET_OBJECTS:tutti_tool> ${example}/broadcast_halves.c ${example}/algos.c)
    set_target_properties(tutti_with_example PROPERTIES RUNTIME_OUTPUT_DIRECTORY tests/tools)
    target_link_libraries(tutti_with_example PRIVATE tutti_inside PkgConfig::json_c)
endfunction()

# Adds tests over libfabric: windows, puts with signals, registered memory and sizes; without
# sanitizers (which cover their code elsewhere) also devices in all modes; and dynamic exchanges
# with the layers above. All with few rounds.
function(tutti_add_ofi_tests)
    if(NOT TUTTI_SANITIZE)
        foreach(test device dynamic moe)
            add_test(NAME ofi.${test} COMMAND cluster_test_${test})
            tutti_test_properties(ofi.${test} cluster)
            set_property(TEST ofi.${test} APPEND PROPERTY ENVIRONMENT
                "TUTTI_TEST_IN_PLACE_OF_TCP=ofi" "TUTTI_TEST_FEW=1")
        endforeach()
        add_test(NAME ofi.modes COMMAND ${CMAKE_SOURCE_DIR}/scripts/conformance --modes ofi
            --build ${CMAKE_BINARY_DIR})
        tutti_test_properties(ofi.modes cluster)
    endif()
    foreach(test registered sizes windows window_order)
        add_test(NAME ofi.${test} COMMAND cluster_test_${test})
        tutti_test_properties(ofi.${test} cluster)
        set_property(TEST ofi.${test} APPEND PROPERTY ENVIRONMENT "TUTTI_TEST_IN_PLACE_OF_TCP=ofi")
    endforeach()
endfunction()

# Adds the programs tests/<folder>/programs/*.c, which are run by tests of the folder, linked with
# libraries. Sets `programs` to their targets.
function(tutti_add_programs folder)
    file(GLOB sources CONFIGURE_DEPENDS tests/${folder}/programs/*.c)
    set(targets)
    foreach(source ${sources})
        get_filename_component(file ${source} NAME_WE)
        set(target ${folder}_program_${file})
        add_executable(${target} ${source})
        set_target_properties(${target} PROPERTIES
            OUTPUT_NAME ${file} RUNTIME_OUTPUT_DIRECTORY tests/${folder}/programs)
        target_link_libraries(${target} PRIVATE ${ARGN} tutti_flags)
        list(APPEND targets ${target})
    endforeach()
    set(programs ${targets} PARENT_SCOPE)
endfunction()

# Adds tests of the verbs transport on the emulation of RDMA devices, by the programs that test it on
# devices: emu.verbs_*.
function(tutti_add_emu_verbs_test name)
    add_test(NAME emu.verbs_${name} COMMAND ${tests_dir}/support/with_rdma.sh
        $<TARGET_FILE_DIR:tutti_emu_verbs> ${ARGN})
    tutti_test_properties(emu.verbs_${name} emu)
    set_tests_properties(emu.verbs_${name} PROPERTIES SKIP_RETURN_CODE 77)
    set_property(TEST emu.verbs_${name} APPEND PROPERTY ENVIRONMENT
        "TUTTI_WIRES=verbs" "TUTTI_TEST_ONLY=verbs"
        # ranks are children of a process that has looked for devices, and start threads
        "TSAN_OPTIONS=second_deadlock_stack=1:die_after_fork=0")
endfunction()

function(tutti_add_emu_verbs_tests)
    add_executable(rdma_calls tests/rdma/calls.c)
    set_target_properties(rdma_calls PROPERTIES OUTPUT_NAME calls RUNTIME_OUTPUT_DIRECTORY tests/rdma)
    target_link_libraries(rdma_calls PRIVATE tests_support)
    tutti_add_emu_verbs_test(calls $<TARGET_FILE:rdma_calls>)
    tutti_add_emu_verbs_test(lanes $<TARGET_FILE:wire_test_verbs>)
    tutti_add_emu_verbs_test(conformance $<TARGET_FILE:wire_test_conformance>)
    if(TUTTI_SANITIZE)
        set_property(TEST emu.verbs_conformance APPEND PROPERTY ENVIRONMENT "TUTTI_TEST_HALVES=1")
    endif()
    # with ThreadSanitizer these take minutes, and cluster.windows has their threads
    if(NOT TUTTI_SANITIZE MATCHES thread)
        foreach(test windows window_order sizes registered)
            tutti_add_emu_verbs_test(${test} $<TARGET_FILE:cluster_test_${test}>)
        endforeach()
    endif()
    if(TARGET tutti_emu_cuda)
        add_executable(rdma_gpu tests/rdma/gpu.c)
        set_target_properties(rdma_gpu PROPERTIES OUTPUT_NAME gpu RUNTIME_OUTPUT_DIRECTORY tests/rdma)
        target_link_libraries(rdma_gpu PRIVATE tests_support tutti_emu_cuda)
        tutti_add_emu_verbs_test(gpu $<TARGET_FILE:rdma_gpu>)
    endif()
    if(NOT TUTTI_SANITIZE)
        tutti_add_emu_verbs_test(trace ${Python3_EXECUTABLE} ${tests_dir}/tools/test_trace.py OverVerbs)
        tutti_add_emu_verbs_test(ranks ${Python3_EXECUTABLE} ${tests_dir}/rdma/ranks.py)
        tutti_add_emu_verbs_test(guide ${Python3_EXECUTABLE} ${tests_dir}/rdma/guide.py)
        tutti_add_emu_verbs_test(faults ${Python3_EXECUTABLE} ${tests_dir}/rdma/faults.py)
    endif()
endfunction()

# Adds tests/shmem/programs: OpenSHMEM programs, which use only the public headers of that library;
# and internal parts that a test includes.
function(tutti_add_shmem_programs)
    tutti_add_programs(shmem tutti_shmem m)
    foreach(program ${programs})
        # Their macros check every type, and compare floats that are exact.
        target_compile_options(${program} PRIVATE -Wno-float-equal)
    endforeach()
    target_sources(shmem_test_parts PRIVATE shim/shmem/fold.c shim/shmem/pieces.c shim/shmem/size.c)
    target_include_directories(shmem_test_parts PRIVATE shim/shmem shim/shmem/include)
    target_link_libraries(shmem_test_parts PRIVATE m)
endfunction()

set(folders ${rooms})
if(NOT TUTTI_ROOMS)
    list(APPEND folders cluster tools wan examples python shim shmem nccl fuzz install tests)
endif()
if(TARGET tutti_emu_cudart)
    list(APPEND folders emu)
endif()
if(TUTTI_SANITIZE MATCHES thread)
    list(REMOVE_ITEM folders ${single_threaded})
    # its programs poll words that plain puts change: valid in OpenSHMEM, but a race for TSan
    list(REMOVE_ITEM folders shmem)
endif()
foreach(folder ${folders})
    if(folder STREQUAL "fuzz")
        tutti_add_fuzzers()
    else()
        tutti_add_c_tests(${folder})
    endif()
endforeach()
# The example of a transport passes the conformance tests over a network that loses packets.
if("wire" IN_LIST folders AND NOT TUTTI_ROOMS)
    add_executable(wire_test_conformance_udp
        tests/wire/test_conformance.c examples/transport/udp.c)
    set_target_properties(wire_test_conformance_udp PROPERTIES
        OUTPUT_NAME test_conformance_udp RUNTIME_OUTPUT_DIRECTORY tests/wire)
    target_compile_definitions(wire_test_conformance_udp PRIVATE
        TUTTI_TEST_WIRE=tt_wire_udp UDP_DROP_EVERY=251)
    target_link_libraries(wire_test_conformance_udp PRIVATE tests_wire tests_support)
    add_test(NAME wire.conformance_udp COMMAND wire_test_conformance_udp)
    tutti_test_properties(wire.conformance_udp wire)
    set_tests_properties(wire.conformance_udp PROPERTIES SKIP_RETURN_CODE 77)
endif()
if("emu" IN_LIST folders)
    target_link_libraries(tests_emu PUBLIC tutti_emu_cudart tutti_emu_cuda)
endif()
# Programs written for NCCL, linked with the emulation of CUDA. They are run by tests/nccl/*.py.
if(TARGET tutti_emu_cudart AND "nccl" IN_LIST folders)
    tutti_add_programs(nccl tutti_nccl tutti_emu_cudart)
endif()
# The tests of src/gpu load the emulation of CUDA. Where it is not built, they use a GPU's driver, or
# are skipped.
if(TARGET tutti_emu_cuda AND "gpu" IN_LIST folders)
    file(GLOB gpu_tests CONFIGURE_DEPENDS tests/gpu/test_*.c)
    foreach(source ${gpu_tests})
        get_filename_component(file ${source} NAME_WE)
        string(REGEX REPLACE "^test_" "" name ${file})
        add_dependencies(gpu_${file} tutti_emu_cuda)
        set_property(TEST gpu.${name} APPEND PROPERTY ENVIRONMENT
            "LD_LIBRARY_PATH=$<TARGET_FILE_DIR:tutti_emu_cuda>" "TUTTI_EMU_DEVICES=8")
    endforeach()
endif()
if(ofi_FOUND AND "cluster" IN_LIST folders)
    tutti_add_ofi_tests()
endif()
if(TARGET tutti_emu_verbs AND "cluster" IN_LIST folders)
    tutti_add_emu_verbs_tests()
endif()
if("shmem" IN_LIST folders)
    tutti_add_shmem_programs()
endif()
if("tools" IN_LIST folders AND NOT TUTTI_ROOMS)
    tutti_add_worked_example()
endif()
if(NOT TUTTI_ROOMS)
    tutti_add_script_tests()
endif()
