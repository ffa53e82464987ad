#!/bin/sh
# orders.sh -- runs a test of the stand-in in several orders of its streams (TRIREME_STAND_IN_SEED, stand_in/runtime.h), and
# prints the seed of each. The kinds of order repeat every three seeds: three orders have all of them.
#   orders.sh NAME COUNT COMMAND ...
# The first seed is made of the test's name, so that tests differ, and of TRIREME_STAND_IN_ROUND (0), so that another round
# has other orders. TRIREME_STAND_IN_SEED repeats one order.
set -eu
name=$1
count=$2
shift 2
first=$(($(printf %s "$name" | cksum | cut -d ' ' -f 1) % 1000 + ${TRIREME_STAND_IN_ROUND:-0} * 1000))
if [ -n "${TRIREME_STAND_IN_SEED-}" ]; then
    first=$TRIREME_STAND_IN_SEED
    count=1
fi
seed=$first
while [ $seed -lt $((first + count)) ]; do
    echo "$name: TRIREME_STAND_IN_SEED=$seed"
    TRIREME_STAND_IN_SEED=$seed "$@"
    seed=$((seed + 1))
done
