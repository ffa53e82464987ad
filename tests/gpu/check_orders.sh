#!/bin/sh
# orders.sh gives a test other orders than another test, the same in every run, and all three kinds.
#   check_orders.sh ORDERS
set -eu
orders=$1
unset TRIREME_STAND_IN_SEED TRIREME_STAND_IN_ROUND
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
    echo "$*"
    exit 1
}
# The seeds that `COUNT` orders of the test NAME have; `orders.sh` prints the same ones.
seeds() { # NAME COUNT
    "$orders" "$1" "$2" sh -c 'echo "seed $TRIREME_STAND_IN_SEED"' >"$scratch/said"
    sed -n 's/^seed //p' "$scratch/said" | tee "$scratch/seeds"
    sed -n "s,^$1: TRIREME_STAND_IN_SEED=,,p" "$scratch/said" | cmp -s - "$scratch/seeds" || fail "the seeds are not printed"
}

first=$(seeds gpu/one 3)
[ "$(for seed in $first; do echo $((seed % 3)); done | sort -u | wc -l)" = 3 ] || fail "three orders are not of three kinds: $first"
[ "$(seeds gpu/one 3)" = "$first" ] || fail "two runs have other orders"
[ "$(seeds gpu/two 3)" != "$first" ] || fail "two tests have one order"
[ "$(TRIREME_STAND_IN_ROUND=1 seeds gpu/one 3)" != "$first" ] || fail "two rounds have one order"
[ "$(TRIREME_STAND_IN_SEED=7 seeds gpu/one 3)" = 7 ] || fail "one order is not repeated"
if "$orders" gpu/one 3 false >/dev/null; then fail "a test that fails passes"; fi
