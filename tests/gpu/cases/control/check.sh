#!/usr/bin/env bash
# Checks that the runner of cases reports the mistakes of control.c: check.sh PROGRAM
said=$("$1" cpu 2>&1)
[ $? -eq 1 ] || { echo "the program with mistakes ended well: $said"; exit 1; }
failed=0
expect() {
  grep -q "^FAILED $1, .*: .*$2" <<< "$said" || { echo "no line '$1: $2'"; failed=1; }
}
expect "another result" "y\[.*off by"
expect "another third launch" "two launches gave other bits of y"
expect "a written input" "input 0 was written"
expect "a byte outside" "was written outside"
expect "a foreign pointer" "is in no array of its space"
expect "an unset workspace" "two launches gave other bits of y"
# A second argument leaves out other cases; without any case the program fails.
few=$("$1" cpu "byte out" 2>&1)
grep -q "^1 cases on cpu" <<< "$few" || { echo "not one case was run: $few"; failed=1; }
! "$1" cpu "no such case" > /dev/null 2>&1 || { echo "no case passes"; failed=1; }
[ $failed -eq 0 ] || echo "$said"
exit $failed
