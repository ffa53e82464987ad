#!/bin/sh
# Only src/cmd/ and src/monitor/ print, and only src/cmd/ ends the process (launch/processes.c, worker.c,
# guard.c and secret_input.c end the children that they have forked, with _exit, and device/cuda/cuda_gpus_ask.c, doctor/gpu/gpu_p2p.c, rendezvous/store_process.c and session/exporter.c theirs). No text is cut at a byte by a precision of "%s".
#   check_prints.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

check() {
    (cd "$1" && find src -name '*.[ch]' -o -name '*.cu' | sort | xargs awk '
        { code = $0; sub(/\/\/.*/, "", code) }
        code ~ /%[-0-9]*\.[0-9]+s/ { say("cuts at a byte (TEXT_CUT cuts at a character)") }
        code ~ /fprintf\(stderr, "trireme/ { say("prints text as it comes (console_say escapes it)") }
        FILENAME ~ /^src\/(cmd|monitor)\// { next }
        code ~ /(^|[^A-Za-z0-9_])(printf|vprintf|puts|putchar|perror)\(/ ||
        code ~ /(^|[^A-Za-z0-9_])(stdout|stderr)([^A-Za-z0-9_]|$)/ { say("prints") }
        code ~ /(^|[^A-Za-z0-9_])(exit|quick_exit|_Exit)\(/ { say("ends the process") }
        code ~ /(^|[^A-Za-z0-9_])_exit\(/ && FILENAME !~ /^src\/(launch\/(processes|worker|guard|secret_input)|device\/cuda\/cuda_gpus_ask|doctor\/gpu\/gpu_p2p|rendezvous\/store_process|session\/exporter)\.c$/ { say("ends the process") }
        function say(what) { print FILENAME ":" FNR ": " what ": " $0; bad = 1 }
        END { exit bad }')
}

mkdir -p "$scratch/tree/src/optim" "$scratch/tree/src/cmd"
file=$scratch/tree/src/optim/a.c
printf '// never printf(x), never exit(1)\nint a(char *b) { return snprintf(b, 2, "x"); }\n' >"$file"
printf 'int main(void) { printf("x"); exit(1); }\n' >"$scratch/tree/src/cmd/main.c"
control_passes "$scratch/tree"
printf '    printf("x");\n' >"$file"
control_fails "$scratch/tree" 'a.c:1: prints'
printf '    fprintf(stderr, "x");\n' >"$file"
control_fails "$scratch/tree" 'a.c:1: prints'
printf '    if (x) exit(1);\n' >"$file"
control_fails "$scratch/tree" 'ends the process'
printf '    _exit(1);\n' >"$file"
control_fails "$scratch/tree" 'ends the process'

printf '    fprintf(stderr, "trireme: %%s", x);\n' >"$scratch/tree/src/cmd/b.c"
control_fails "$scratch/tree" 'b.c:1: prints text as it comes'
rm "$scratch/tree/src/cmd/b.c"
printf '    snprintf(b, 2, "%%.1s", "x");\n' >"$file"
control_fails "$scratch/tree" 'cuts at a byte'

control_verdict "only cmd/ and monitor/ print, only cmd/ exits"
