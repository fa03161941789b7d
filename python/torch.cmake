# tutti/torch/_c: the backend for PyTorch. A backend is C++ against the headers of one PyTorch, and its like (same minor version) can load it.
#
# pip builds in an environment without PyTorch, but with the interpreter of the environment that the package goes into: that one is queried, without what
# the build environment adds by PYTHONPATH.

file(GLOB torch_sources CONFIGURE_DEPENDS src/torch/*.cpp)
set(torch ${TUTTI_TORCH})
if(torch STREQUAL "AUTO")
    set(torch "")
    if(PROJECT_IS_TOP_LEVEL)        # the tests of the library do without
        execute_process(
            COMMAND ${Python_EXECUTABLE} -E -c
                "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s and s.submodule_search_locations else '')"
            OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE torch)
    endif()
endif()
if(NOT torch OR NOT torch_sources)
    message(STATUS "tutti.torch is not built: no PyTorch for ${Python_EXECUTABLE}, or no sources of it")
    return()
endif()
if(NOT EXISTS ${torch}/version.py OR NOT EXISTS ${torch}/include/torch/csrc/distributed/c10d/Backend.hpp)
    message(FATAL_ERROR "TUTTI_TORCH=${torch}: not the folder of a PyTorch with its headers")
endif()
file(STRINGS ${torch}/version.py torch_version REGEX "^__version__ *= *'")
string(REGEX REPLACE "^[^']*'([^']*)'.*" "\\1" torch_version "${torch_version}")
message(STATUS "tutti.torch is built for PyTorch ${torch_version} (${torch})")

Python_add_library(tutti_torch MODULE WITH_SOABI ${torch_sources})
target_include_directories(tutti_torch SYSTEM PRIVATE ${torch}/include ${torch}/include/torch/csrc/api/include)
target_compile_definitions(tutti_torch PRIVATE
    _GLIBCXX_USE_CXX11_ABI=1 TORCH_EXTENSION_NAME=_c TORCH_API_INCLUDE_EXTENSION_H USE_C10D)
target_compile_options(tutti_torch PRIVATE -Wall -Wextra -fvisibility=hidden)
# Found when it is loaded: `import torch` comes first.
target_link_libraries(tutti_torch PRIVATE tutti)
foreach(library torch_python torch torch_cpu c10)
    target_link_libraries(tutti_torch PRIVATE ${torch}/lib/lib${library}.so)
endforeach()
set_target_properties(tutti_torch PROPERTIES
    OUTPUT_NAME _c LIBRARY_OUTPUT_DIRECTORY ${package}/torch
    BUILD_RPATH $<TARGET_FILE_DIR:tutti> SKIP_BUILD_RPATH OFF INSTALL_RPATH "$ORIGIN/..")

file(CONFIGURE OUTPUT ${package}/torch/_built_for.py CONTENT
"\"\"\"The PyTorch that tutti.torch was built for.\"\"\"

TORCH = \"@torch_version@\"
" @ONLY)
add_dependencies(tutti_python tutti_torch)
if(PROJECT_IS_TOP_LEVEL)
    install(TARGETS tutti_torch LIBRARY DESTINATION tutti/torch COMPONENT python)
    install(FILES ${package}/torch/_built_for.py DESTINATION tutti/torch COMPONENT python)
endif()
