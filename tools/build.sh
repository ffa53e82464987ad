# build.sh -- configures and builds Trireme into a folder. Sourced by ./test and ./demo.

# build_into FOLDER [cmake argument ...]
build_into() {
    folder=$1
    shift
    # An existing folder keeps the generator that it was made with.
    [ -e "$folder/CMakeCache.txt" ] || set -- -G Ninja "$@"
    mkdir -p "$folder"
    echo "$0: building into $folder/ (its log is $folder/build.log)"
    if ! { cmake -S . -B "$folder" "$@" && cmake --build "$folder" -j "$(nproc)"; } \
        >"$folder/build.log" 2>&1 </dev/null; then
        grep -n -m 20 -A 5 -e 'FAILED' -e 'CMake Error' "$folder/build.log" >&2 ||
            tail -n 30 "$folder/build.log" >&2
        echo "$0: the build failed; all of it is in $folder/build.log" >&2
        exit 1
    fi
}
