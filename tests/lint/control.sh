# control.sh -- the negative control of every checker: it must pass on the tree and fail on a tiny
# tree that breaks its rule. The checkers source it, with the tree's root as their $1.
#
# A checker defines check ROOT, which prints one line for each breach and returns 1 when there is
# any, and calls control_fails for trees that it has made under $scratch, then control_passes.

root=${1:?usage: $0 ROOT}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Tree $1 breaks the rule. The message must contain $2.
control_fails() {
    if found=$(check "$1" 2>&1); then
        echo "$0: negative control: a broken tree passed, where '$2' should have been found" >&2
        exit 1
    fi
    case "$found" in
    *"$2"*) ;;
    *)
        echo "$0: negative control: looked for '$2' in: $found" >&2
        exit 1
        ;;
    esac
}

# A tree that keeps the rule.
control_passes() {
    if ! check "$1" >&2; then
        echo "$0: control: a good tree was refused" >&2
        exit 1
    fi
}

# The verdict on the tree itself; $2 says what holds.
control_verdict() {
    if ! check "$root" >&2; then
        echo "$0: FAILED" >&2
        exit 1
    fi
    echo "$0: $1"
}
