#!/bin/sh
# No file decides by the kind of a graph's node: the row of an op says what others must know of it (graph/op.h).
#   check_ops.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

check() {
    if (cd "$1" && grep -rnE '(case|[=!]=) *OP_[A-Z]|OP_[A-Z_]+ *[=!]=' src --include='*.[ch]'); then
        echo "a file decides by the kind of a node"
        return 1
    fi
}

mkdir -p "$scratch/tree/src"
echo 'row[] = {[OP_ADD] = &op_add}; node->op = OP_ADD;' >"$scratch/tree/src/a.c"
control_passes "$scratch/tree"
for line in 'if (n->op == OP_ADD)' 'case OP_ADD:' 'return OP_ADD != n->op;'; do
    echo "$line" >"$scratch/tree/src/a.c"
    control_fails "$scratch/tree" 'decides by the kind'
done
control_verdict 'no file decides by the kind of a node'
