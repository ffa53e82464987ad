#!/bin/sh
# Runs a compiler, and writes what ptxas says of kernels to a file beside the object instead of to the screen:
#   ptxas_log.sh OBJECT COMMAND ...
# CMake starts it for the files of the cuda device (cmake/cuda.cmake). Everything else the compiler says is printed.
object=$1
shift
said=$object.said
"$@" 2>"$said"
code=$?
info="^ptxas info|^ +[0-9]+ bytes stack frame"
grep -E "$info" "$said" >"$object.ptxas"
grep -vE "$info" "$said" >&2
rm -f "$said"
exit $code
