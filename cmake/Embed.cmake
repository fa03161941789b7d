# cmake -DIN=FILE -DOUT=FILE.c -DNAME=SYMBOL -P Embed.cmake: writes a file as a NUL-terminated C
# array.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
get_filename_component(from ${IN} NAME)
file(WRITE ${OUT} "/* ${from}, by cmake/Embed.cmake. */\nextern const char ${NAME}[];\n"
    "const char ${NAME}[] = {\n${bytes}0\n};\n")
