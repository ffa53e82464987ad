# cmake -D FILES=… -D NAME=… -D OUT=… -P embed.cmake: writes the bytes of FILES, which are ASCII, one after the other to
# the C file OUT as the string `const char NAME[]`.
if(NOT FILES)
  message(FATAL_ERROR "embed.cmake: FILES is missing")
endif()
foreach(file ${FILES})
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND all "${bytes}")
endforeach()
file(WRITE ${OUT} "extern const char ${NAME}[];\nconst char ${NAME}[] = {${all}0};\n")
