# The Python package for its tests, in <build>/python. It needs the environment of
# scripts/install-python.sh. Users install the package by pip (python/). Not built with sanitizers,
# whose runtime a Python process cannot load without preparation.

set(TUTTI_PYTHON ${CMAKE_CURRENT_SOURCE_DIR}/build/python/bin/python CACHE FILEPATH
    "The Python that the package is built and tested with; it has nanobind, scikit-build-core and NumPy")
if(NOT TUTTI_TESTS OR TUTTI_ROOMS OR NOT PROJECT_IS_TOP_LEVEL OR TUTTI_SANITIZE)
    return()
endif()
include(CheckLanguage)
check_language(CXX)
if(EXISTS ${TUTTI_PYTHON} AND CMAKE_CXX_COMPILER)
    set(Python_EXECUTABLE ${TUTTI_PYTHON})
    add_subdirectory(python)
    add_custom_target(tutti_python_all ALL)
    add_dependencies(tutti_python_all tutti_python)
else()
    message(STATUS "The Python package is not built: no ${TUTTI_PYTHON} (scripts/install-python.sh makes it), or no C++ compiler")
endif()
