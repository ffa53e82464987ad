# build.sh -- configures and builds Trireme into a folder. Sourced by ./test and ./demo.

# build_only TARGET: what build_into builds from now on, instead of everything.
build_only() {
    build_target=$1
}

# cuda_code: what nvcc makes code for in a build for this machine alone: its first GPU. Where it has none, PTX alone, which a
# driver compiles: ptxas takes as long as all else of nvcc.
cuda_code() {
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
    case $capability in
    8? | 9? | 1??) echo "sm_$capability,compute_80" ;;
    *) echo compute_80 ;;
    esac
}

# build_release: builds into build/, for this machine alone. It has the cuda device where this machine has a GPU, or where
# TRIREME_CUDA (auto or on) asks for it: nvcc takes longer than all else of the program.
build_release() {
    if [ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || [ -n "${TRIREME_CUDA-}" ]; then
        build_into build -DCMAKE_BUILD_TYPE=Release -DTRIREME_CUDA="${TRIREME_CUDA:-auto}" -DTRIREME_CUDA_CODE="$(cuda_code)"
    else
        build_into build -DCMAKE_BUILD_TYPE=Release -DTRIREME_CUDA=off
    fi
}

# build_program: builds build/trireme alone, and in an existing folder as it was configured.
build_program() {
    build_only trireme
    if [ -e build/CMakeCache.txt ]; then
        build_into build
    else
        build_release
    fi
}

# build_into FOLDER [cmake argument ...]: with build_on_failure=continue it builds what it can after a failure, too;
# with build_seconds it ends after so long.
build_into() {
    folder=$1
    shift
    # An existing folder keeps the generator that it was made with.
    [ -e "$folder/CMakeCache.txt" ] || ! command -v ninja >/dev/null || set -- -G Ninja "$@"
    mkdir -p "$folder"
    keep=
    if [ "${build_on_failure:-stop}" = continue ]; then
        case "$*$(cat "$folder/CMakeCache.txt" 2>/dev/null)" in *Ninja*) keep="-- -k 0" ;; *) keep="-- -k" ;; esac
    fi
    echo "$0: building into $folder/ (its log is $folder/build.log)"
    if ! { cmake -S . -B "$folder" "$@" && ${build_seconds:+timeout "$build_seconds"} cmake --build "$folder" -j "$(nproc)" --target "${build_target:-all}" $keep; } \
        >"$folder/build.log" 2>&1 </dev/null; then
        grep -n -m 20 -A 5 -e 'FAILED' -e 'CMake Error' "$folder/build.log" >&2 ||
            tail -n 30 "$folder/build.log" >&2
        echo "$0: the build failed; all of it is in $folder/build.log" >&2
        exit 1
    fi
    # Which says whether nvcc was found.
    sed -n "s,^-- device cuda: ,$0: device cuda: ,p" "$folder/build.log"
}
