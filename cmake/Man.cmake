# The manual pages, generated from the comments of the public headers and from the help of the
# tutti command (scripts/reference), in <build>/man. They need Python 3. When cross-compiling, the
# built command cannot run here, so the pages of the commands are left out.

option(TUTTI_MAN "Generate and install the manual pages" ON)
if(NOT TUTTI_MAN OR TUTTI_ROOMS OR NOT TARGET tutti_tool)
    return()
endif()
if(NOT Python3_FOUND)
    message(STATUS "Python 3 not found: no manual pages")
    return()
endif()

file(GLOB reference_sources CONFIGURE_DEPENDS scripts/reference/*.py include/tutti/*.h)
set(man_dir ${CMAKE_CURRENT_BINARY_DIR}/man)
set(man_tool)
if(NOT CMAKE_CROSSCOMPILING)
    set(man_tool --tool $<TARGET_FILE:tutti_tool>)
endif()
add_custom_command(OUTPUT ${man_dir}/stamp
    COMMAND ${CMAKE_COMMAND} -E make_directory ${man_dir}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/scripts/reference man
        --out ${man_dir} ${man_tool}
    COMMAND ${CMAKE_COMMAND} -E touch ${man_dir}/stamp
    DEPENDS ${reference_sources} shim/shmem/oshcc.in tutti_tool VERBATIM
    COMMENT "Generating the manual pages")
add_custom_target(tutti_man ALL DEPENDS ${man_dir}/stamp)
install(DIRECTORY ${man_dir}/ DESTINATION ${CMAKE_INSTALL_MANDIR} FILES_MATCHING PATTERN "man?/*")
