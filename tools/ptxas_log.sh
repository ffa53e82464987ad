#!/bin/sh
# Runs a compiler, and keeps what tools/gpu_registers.sh --objects reads beside the object:
#   ptxas_log.sh OBJECT COMMAND ...
#   OBJECT.ptxas    what ptxas says of kernels, instead of on the screen
#   OBJECT.ptx      the PTX of a file of nvcc (the object holds it compressed, for tools that not every toolkit has)
# CMake starts it for the files of the cuda device (cmake/cuda.cmake). Everything else the compiler says is printed.
object=$1
shift
said=$object.said
kept=$object.kept
case $object in
*.cu.o)
    mkdir -p "$kept"
    set -- "$@" -keep -keep-dir "$kept"
    ;;
esac
"$@" 2>"$said"
code=$?
info="^ptxas info|^ +[0-9]+ bytes stack frame"
grep -E "$info" "$said" >"$object.ptxas"
grep -vE "$info" "$said" >&2
[ ! -d "$kept" ] || mv -f "$kept"/*.ptx "$object.ptx" 2>/dev/null
rm -rf "$said" "$kept"
exit $code
