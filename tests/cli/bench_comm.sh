# bench_comm.sh -- `trireme bench all_reduce` and the other collectives of nccl-tests: each is checked on several
# numbers of ranks, the columns are nccl-tests', and a call that gives wrong data is noticed.
# $2 is the program with calls of comm.h that spoil one byte of their result (wrong_calls.c).
. "$(dirname "$0")/lib.sh" "$1"
wrong=$2

# The size column, the count column, root and the factor from algbw to busbw, on N ranks.
expect_rows() { # NAME RANKS SIZE COUNT REDOP ROOT FACTOR
    awk -v size="$3" -v count="$4" -v redop="$5" -v root="$6" -v factor="$7" '
        function near(a, b) { return a - b <= 0.013 + b * 0.01 && b - a <= 0.013 + b * 0.01 }
        /^ *[0-9]/ {
            rows++
            if (NF != 13 || $1 != size || $2 != count || $3 != "float" || $4 != redop || $5 != root || $9 != 0) exit 1
            if (!near($8, $7 * factor)) exit 1
            if ($13 != 0 && $13 != "N/A") exit 1
        }
        END { if (rows != 1) exit 1 }' stdout || fail "$1 on $2 ranks printed: $(grep -E '^ *[0-9]' stdout)"
    expect_line '^# Out of bounds values : 0 OK$' stdout
    expect_line '^# Avg bus bandwidth    : [0-9.]+ $' stdout
    expect_line "^# Collective test starting: $1_perf$" stdout
    expect_line "^# Collective test concluded: $1_perf$" stdout
    expect_line '^# +size +count +type +redop +root +time +algbw +busbw +#wrong +time +algbw +busbw +#wrong$' stdout
}

bench() { # NAME RANKS ARGUMENTS...
    local name=$1 ranks=$2
    shift 2
    ok "$trireme" bench "$name" --device cpu --ranks "$ranks" -n 2 -w 1 "$@"
}

# 3145728 bytes: more than a message that is buffered.
for ranks in 2 4; do
    n=$ranks
    size=3145728
    each=$((size / 4 / n))
    rows() { # NAME COUNT REDOP ROOT FACTOR
        bench "$1" $n -b $size -e $size ${6-}
        expect_rows "$1" $n $size "$2" "$3" "$4" "$5"
    }
    others=$(awk "BEGIN { print ($n - 1) / $n }")
    for memory in shared private; do
        rows all_reduce $((size / 4)) sum -1 "$(awk "BEGIN { print 2 * ($n - 1) / $n }")" "--memory $memory"
        rows reduce_scatter $each sum -1 "$others" "--memory $memory"
        rows all_gather $each none -1 "$others" "--memory $memory"
        rows broadcast $((size / 4)) none 0 1 "--memory $memory"
        rows reduce $((size / 4)) sum 1 1 "--memory $memory -r 1"
        rows alltoall $each none -1 "$others" "--memory $memory"
        rows sendrecv $((size / 4)) none -1 1 "--memory $memory"
        rows scatter $each none 1 "$others" "--memory $memory -r 1"
        rows gather $each none 1 "$others" "--memory $memory -r 1"
        rows hypercube $each none -1 1 "--memory $memory"
    done
done

# Odd numbers of ranks and elements, one rank, small sizes, other types, and threads.
for name in all_reduce reduce_scatter all_gather broadcast reduce alltoall sendrecv scatter gather; do
    bench $name 3 -b 4 -e 4004 -i 1000 -d half
    expect_line '^# Out of bounds values : 0 OK$' stdout
    expect_line ' half ' stdout
    bench $name 5 -b 64K -e 64K -d double -o max --as threads
    expect_line '^# Out of bounds values : 0 OK$' stdout
    [ $name = sendrecv ] || bench $name 1 -b 1K -e 4K -f 2
done
refused 2 '^trireme: bench: hypercube: found 3 ranks; valid is a power of two$' "$trireme" bench hypercube --ranks 3
refused 2 '^trireme: bench: sendrecv needs two ranks or more$' "$trireme" bench sendrecv --ranks 1

# The JSON answer, and no check.
bench gather 2 -b 64K -e 256K -f 2 --json
tr -d '\n' <stdout >one
echo >>one
expect_json_lines one
[ "$(grep -o '"wrong":0' stdout | wc -l)" = 7 ] || fail "expected 3 rows of 2 checks and their sum: $(cat stdout)"
bench alltoall 2 -b 64K -e 64K -c 0
expect_line '^ +65536 .* N/A +N/A +N/A +N/A +N/A$' stdout

# Wrong data is noticed, in each collective.
for name in all_reduce reduce_scatter all_gather broadcast reduce alltoall sendrecv scatter gather hypercube; do
    run "$wrong" bench $name --device cpu --ranks 2 -b 4K -e 4K -n 1 -w 0
    expect_exit 1
    expect_line '^# Out of bounds values : [1-9][0-9]* FAILED$' stdout
done
run "$wrong" bench link --comm local --device cpu -b 64 -e 64 -n 2
expect_exit 1
expect_line '^trireme: rank 0: bench link: [1-9][0-9]* bytes arrived wrong$'
run "$wrong" run --nproc-per-node 2 bench all_reduce --device cpu -b 4K -e 4K -n 1
expect_exit 1
expect_line '^# Out of bounds values : [1-9][0-9]* FAILED$' stdout
finish
