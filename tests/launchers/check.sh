# check.sh -- shared by the tests of real launchers: checks with a line each, and the processes of a run. Sourced after lib.sh.

# check NAME FUNCTION [ARGUMENT...]: a line that says whether all expectations of the function held.
check() {
    local before=$failures begin=$(now_ms)
    "${@:2}"
    printf '%-50s %s, %d ms\n' "$1" "$([ "$failures" = "$before" ] && echo passed || echo FAILED)" $(($(now_ms) - begin))
}
# The processes of Trireme whose arguments have the folder $1; first those that the launcher has started.
processes_of() {
    local f
    for f in /proc/[0-9]*; do
        [ "$(cat "$f/comm" 2>/dev/null)" = trireme ] && grep -qszxF -- "$1" "$f/cmdline" && basename "$f"
    done
    true
}
expect_like_forked() { # RUN
    expect_steps "$1" 8
    expect_same_losses forked "$1"
    expect_same_checkpoint forked "$1"
}
