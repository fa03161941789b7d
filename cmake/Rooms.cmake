# The rooms of src/, as src/LAYERS lists them, and their sources. A new file in a room is found by itself.

file(STRINGS src/LAYERS layers REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/LAYERS)
string(REGEX MATCHALL "[a-z0-9_]+" rooms "${layers}")
if(TUTTI_ROOMS)
    set(rooms ${TUTTI_ROOMS})
endif()

function(tutti_room_sources out)
    set(all)
    foreach(room ${rooms})
        file(GLOB found CONFIGURE_DEPENDS src/${room}/*.c)
        list(APPEND all ${found})
    endforeach()
    set(${out} ${all} PARENT_SCOPE)
endfunction()
