# bench_comm_flags.sh -- flags of nccl-tests that choose how `trireme bench all_reduce` repeats, waits and reports: each
# works, or is refused in one line.
. "$(dirname "$0")/lib.sh" "$1"
unset NCCL_TESTS_MIN_BW NCCL_TESTS_SPLIT NCCL_TESTS_SPLIT_MASK NCCL_TESTS_DEVICE

bench() { # ARGUMENTS...
    ok "$trireme" bench all_reduce --device cpu --ranks 2 -b 1K -e 4K -f 2 -n 2 -w 1 "$@"
}
rows() { grep -cE '^ +[0-9]+ ' "$1"; }
expect_rows() { # COUNT
    [ "$(rows stdout)" = "$1" ] || fail "expected $1 rows: $(cat stdout)"
    expect_line '^# Out of bounds values : 0 OK$' stdout
}

# ---- Repetition: -N, -m, -z, -a and -p.
bench -N 3
expect_rows 9
bench --run_cycles 2 --agg_iters 4 --blocking 1 --parallel_init 1
expect_rows 6
expect_line ' agg iters: 4 ' stdout
for blocking in 0 2 3; do
    bench -z $blocking -m 2
    expect_rows 3
done
for mean in 0 1 2 3; do
    bench -a $mean
    expect_rows 3
done
# Without an end, until the reader has gone.
timeout 120 "$trireme" bench all_reduce --device cpu --ranks 2 -b 1K -e 1K -n 1 -N 0 2>stderr | head -n 200 >stdout
[ "${PIPESTATUS[0]}" != 124 ] || fail 'the benchmark did not end with its reader'
[ "$(rows stdout)" -ge 180 ] || fail "$(rows stdout) rows"

# ---- Defaults of nccl-tests without a meaning here are accepted.
bench -p 0 -D 0 -V 16 -M 0 -u 0 -I 0 -K 0
expect_rows 3
bench --device_implementation 0 --memory_report 0 --unalign 0 --per_iter_timing 0 --per_iter_skip 0
expect_rows 3

# ---- Memory: -R chooses as --memory does.
bench -R 0 --json
expect_line '"memory":"private"' stdout
for registered in 1 2; do
    bench --local_register $registered --json
    expect_line '"memory":"shared"' stdout
done

# ---- Reports: -C, -S and -J.
bench -C 1
expect_rows 3
expect_line '^# +size +count +type +redop +root +cputime +algbw +busbw +#wrong +cputime ' stdout
bench -C 1 --json
[ "$(grep -o '"cpu_us":' stdout | wc -l)" = 6 ] || fail "expected 6 cpu_us: $(cat stdout)"
bench -S 1
expect_line '^ +1024 .* 20[0-9-]{8} [0-9:]{8}$' stdout
expect_line 'busbw +#wrong +timestamp$' stdout
bench -S 1 --json
tr -d '\n' <stdout >one
echo >>one
expect_json_lines one
[ "$(grep -o '"timestamp":"20' stdout | wc -l)" = 3 ] || fail "expected 3 timestamps: $(cat stdout)"

bench -J all.json -z 1
expect_rows 3
tr -d '\n' <all.json >one
echo >>one
expect_json_lines one
for member in '"version":3,' '"program":"trireme ' '"start_time":"20' '"-J","all.json"' '"minimum_bytes":1024' '"step_factor":2' '"blocking_collectives":true' \
    '"size":4096,"count":1024,"type":"float","redop":"sum","root":-1,"out_of_place":{"time":' '"nwrong":0' \
    '"out_of_bounds":{"count":0,"okay":true}' '"average_bus_bandwidth":{"bandwidth":' '"end_time":"20'; do
    grep -qF "$member" one || fail "all.json has no $member: $(cat one)"
done
[ "$(grep -o '"experiment_name":"all_reduce_perf"' one | wc -l)" = 3 ] || fail "expected 3 results: $(cat one)"
grep -o '"rank":[0-9]*' one >ranks
printf '"rank":0\n"rank":1\n' >expected
expect_same ranks expected
ok "$trireme" bench sendrecv --device cpu --ranks 2 -b 1K -e 1K -n 1 -C 1 -c 0 --output_file checked.json --as threads
expect_line '"out_of_place":\{"cpu_time":[^}]*"nwrong":null\},"in_place":null' checked.json

# ---- The time that a rank waits: one that was stopped is named.
timeout 200 "$trireme" bench all_reduce --device cpu --ranks 2 -b 1K -e 1K -n 10 -N 0 -T 5 >rows 2>stderr &
pid=$!
wait_for_line '^ +1024 ' rows
stopped=$(awk '/^#  Rank  1 / { print $7 }' rows)
kill -STOP "$stopped"
wait $pid
[ $? = 1 ] || fail "exit code $?, expected 1"
expect_line '^trireme: Watchdog caught collective operation timeout: rank 1 did not come to [a-z_]+ within 5(.0)? s'
expect_gone 20000 "$stopped"

# ---- The least bandwidth that is expected.
ok env NCCL_TESTS_MIN_BW=1e-9 "$trireme" bench all_reduce --device cpu -b 1K -e 1K -n 2
expect_line '^# Avg bus bandwidth    : [0-9.e-]+ OK$' stdout
run env NCCL_TESTS_MIN_BW=1e9 "$trireme" bench all_reduce --device cpu -b 1K -e 1K -n 2 -J slow.json
expect_exit 1
expect_line '^# Avg bus bandwidth    : [0-9.e-]+ FAILED$' stdout
expect_line '"average_bus_bandwidth":\{"bandwidth":[0-9.e-]+,"okay":false\}' slow.json

# ---- Refused
refused 2 "^trireme: bench: NCCL_TESTS_MIN_BW: found 'much'; valid are GB/s above 0$" env NCCL_TESTS_MIN_BW=much "$trireme" bench gather
refused 2 '^trireme: bench: NCCL_TESTS_SPLIT has no effect here' env NCCL_TESTS_SPLIT=AND2 "$trireme" bench gather
refuse() { # REGEX ARGUMENTS...
    local pattern=$1
    shift
    refused 2 "$pattern" "$trireme" bench all_reduce --device cpu -b 1K -e 1K "$@"
}
refuse '^trireme: .*bench: -G 2: the device cpu records no calls; valid is -G 0, or ranks on GPUs' -G 2
refuse '^trireme: bench: -p: found 2; valid are 0 to 1$' -p 2
refuse '^trireme: bench: -z: found 4; valid are 0 to 3$' -z 4
refuse '^trireme: bench: -G and -z: ' -G 1 -z 1
refuse '^trireme: bench: -R: found 3; valid are 0 to 2$' -R 3
for op in prod avg all; do
    refuse "^trireme: bench: -o: found '$op'; valid are sum, max or min, one for a run: ranks reduce by nothing else$" -o $op
done
refuse '^trireme: bench: -R and --memory both' -R 1 --memory private
refuse '^trireme: bench: -a: found 4; valid are 0 to 3$' -a 4
refuse "^trireme: bench: -T: found 'soon'; valid are seconds" -T soon
refuse "^trireme: bench: -T: found '-1'; valid are seconds" -T -1
refuse "^trireme: bench: -J: found 'a.txt'; valid is a name that ends with .json$" -J a.txt
refuse '^trireme: bench: -J: cannot create nowhere/a.json' -J nowhere/a.json
refuse '^trireme: bench: -n times -m is' -n 1G -m 2
refuse '^trireme: bench: -q: not a flag, --help lists those that are valid' -q 1
for flag in -D -M -u -I -K; do
    refuse "^trireme: bench: $flag: found '1'; valid is 0: [a-z]" $flag 1
done
refuse "^trireme: bench: -V: found '8'; valid is 16: [a-z]" -V 8

# ---- Processes that another launcher has started are the ranks, and rank 0 prints.
ok "$trireme" run --nproc-per-node 3 bench reduce --device cpu -b 1K -e 4K -f 2 -n 2 -g 1 -J launched.json
expect_rows 3
expect_none 'ranks print to stderr' "$(cat stderr)"
expect_line '^# nThread 1 nGpus 1 ' stdout
[ "$(grep -cE '^#  Rank  [0-2] Group  0 Pid +[1-9][0-9]* on ' stdout)" = 3 ] || fail "expected 3 ranks: $(cat stdout)"
[ "$(awk '/^#  Rank / { print $7 }' stdout | sort -u | wc -l)" = 3 ] || fail "expected 3 processes: $(cat stdout)"
tr -d '\n' <launched.json | grep -q '"rank":2,"group":0,"pid":[1-9].*"average_bus_bandwidth"' || fail "launched.json: $(cat launched.json)"
ok "$trireme" run --nproc-per-node 2 bench sendrecv --device cpu -b 1K -e 4K -f 2 -n 2 --memory private --json --ranks 2
expect_line '"wrong":0,"bus_gb_per_s"' stdout
under_run() { # REGEX ARGUMENTS...
    run "$trireme" run --nproc-per-node 2 bench all_reduce --device cpu "${@:2}"
    expect_exit 1
    expect_line "$1" stderr
    expect_none 'a row is printed' "$(cat stdout)"
}
under_run '^trireme: bench: found 4 ranks; trireme run has started 2 processes, and each is one rank$' -t 2 -g 2
under_run '^trireme: bench: --as threads: trireme run has started a process for each rank$' --as threads
cat >differ.sh <<'END'
exec "$0" bench all_reduce --device cpu -b 1K -e $((1024 * (1 + RANK)))
END
run "$trireme" run --nproc-per-node 2 --no-python sh -c "$(cat differ.sh)" "$trireme"
expect_exit 1
expect_line '^trireme: rank 1: all_reduce: this process and that of rank 0 have different arguments; valid: the same ones for all$' stderr
finish
