# cmake -D FILE=… -D NAME=… -D OUT=… -P embed.cmake: writes the bytes of FILE, which is ASCII, to the C file OUT as the
# string `const char NAME[]`.
file(READ ${FILE} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "extern const char ${NAME}[];\nconst char ${NAME}[] = {${bytes}0};\n")
