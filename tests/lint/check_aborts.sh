#!/bin/sh
# The library never ends the process: only src/cmd/ calls abort, exit and the like. The child that
# launch/processes.c, worker.c, guard.c and secret_input.c fork ends itself with _exit, and so do those that device/cuda/cuda_gpus_ask.c, doctor/gpu/gpu_p2p.c, rendezvous/store_process.c and session/exporter.c fork. Heap memory comes from base/alloc.h, so that
# running out of it is one error: no raw malloc and its like outside base/alloc.c and device/.
#   check_aborts.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

check() {
    (cd "$1" && find src -name '*.[ch]' | sort | xargs awk '
        { code = $0; sub(/\/\/.*/, "", code); gsub(/"([^"\\]|\\.)*"/, "", code) }
        FILENAME !~ /^src\/(device\/|base\/alloc\.c$)/ &&
        code ~ /(^|[^A-Za-z0-9_>.])(malloc|calloc|realloc|reallocarray|strdup|strndup|aligned_alloc|posix_memalign|v?asprintf)\(/ {
            say("takes memory past base/alloc.h")
        }
        FILENAME ~ /^src\/cmd\// { next }
        code ~ /(^|[^A-Za-z0-9_>.])(abort|exit|quick_exit|_Exit|__builtin_trap|__builtin_abort|assert)\(/ {
            say("ends the process")
        }
        code ~ /(^|[^A-Za-z0-9_>.])_exit\(/ && FILENAME !~ /^src\/(launch\/(processes|worker|guard|secret_input)|device\/cuda\/cuda_gpus_ask|doctor\/gpu\/gpu_p2p|rendezvous\/store_process|session\/exporter)\.c$/ {
            say("ends the process")
        }
        function say(what) { print FILENAME ":" FNR ": " what ": " $0; bad = 1 }
        END { exit bad }')
}

mkdir -p "$scratch/tree/src/optim" "$scratch/tree/src/cmd" "$scratch/tree/src/launch" \
    "$scratch/tree/src/base" "$scratch/tree/src/device/cpu"
file=$scratch/tree/src/optim/a.c
printf '// never abort()\nint a(comm *c) { c->ops->abort(c, "exit(1)"); return comm_abort(c); }\n' >"$file"
printf 'int main(void) { exit(1); }\n' >"$scratch/tree/src/cmd/main.c"
printf '    _exit(1);\n' >"$scratch/tree/src/launch/processes.c"
printf 'p = malloc(n);\n' >"$scratch/tree/src/base/alloc.c"
printf 'p = aligned_alloc(64, n);\n' >"$scratch/tree/src/device/cpu/a.c"
control_passes "$scratch/tree"
for call in 'malloc(n)' 'calloc(1, n)' 'realloc(p, n)' 'reallocarray(p, 2, n)' 'strdup(s)' \
    'strndup(s, n)' 'aligned_alloc(64, n)' 'posix_memalign(&p, 64, n)' 'asprintf(&p, s)' \
    'vasprintf(&p, s, args)'; do
    printf '    if (!p) p = %s;\n' "$call" >"$file"
    control_fails "$scratch/tree" 'a.c:1: takes memory past base/alloc.h'
done
printf 'char *a(void) { return trm_malloc(3); } // malloc(n)\n' >"$file"
control_passes "$scratch/tree"
printf 'p = malloc(n);\n' >"$scratch/tree/src/cmd/b.c"
control_fails "$scratch/tree" 'b.c:1: takes memory past base/alloc.h'
rm "$scratch/tree/src/cmd/b.c"
for call in 'abort()' 'exit(1)' '_exit(1)' '_Exit(1)' '__builtin_trap()' 'assert(p)'; do
    printf '    if (!p) %s;\n' "$call" >"$file"
    control_fails "$scratch/tree" 'a.c:1: ends the process'
done
printf '    exit(1);\n' >"$scratch/tree/src/launch/processes.c"
printf 'int a;\n' >"$file"
control_fails "$scratch/tree" 'processes.c:1: ends the process'

control_verdict "only cmd/ ends the process, and heap memory comes from base/alloc.h"
