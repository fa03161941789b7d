# The rooms of src/, as listed in src/LAYERS, and their sources. New files in a room are found
# automatically.

file(STRINGS src/LAYERS layers REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/LAYERS)
string(REGEX MATCHALL "[a-z0-9_]+" rooms "${layers}")
if(TUTTI_ROOMS)
    set(rooms ${TUTTI_ROOMS})
endif()

function(tutti_room_sources out)
    set(all)
    foreach(room ${rooms})
        file(GLOB_RECURSE found CONFIGURE_DEPENDS src/${room}/*.c)
        list(APPEND all ${found})
    endforeach()
    set(${out} ${all} PARENT_SCOPE)
endfunction()

# Adds a file to the sources in `out`, as the NUL-terminated array `const char name[]`
# (cmake/Embed.cmake).
function(tutti_embed out file name)
    set(made ${CMAKE_BINARY_DIR}/${name}.c)
    add_custom_command(
        OUTPUT ${made}
        COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUT=${made} -DNAME=${name}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/Embed.cmake
        DEPENDS ${file} cmake/Embed.cmake)
    set(${out} ${${out}} ${made} PARENT_SCOPE)
endfunction()
