# bench_scaling.sh -- `trireme bench scaling`: the rows that it runs, with the batch of each, and what it refuses.
. "$(dirname "$0")/lib.sh" "$1"
make_job
sed -i 's/toy_valid/mock/; s/toy/mock/' job.yaml
few='--train.steps 1 --rounds 1'

# ranks, threads, batch, ms, tokens/s, speed-up, efficiency, and the guide's. The speed-up is that of the tokens.
expect_rows() { # BATCH...
    awk -v batches="$*" '
        function near(a, b) { return a - b <= 0.011 + b * 0.01 && b - a <= 0.011 + b * 0.01 }
        BEGIN { count = split(batches, batch, " "); split("1 1.9 3.5", guide, " ") }
        /^ *[0-9]/ {
            rows++
            ranks = 2 ^ (rows - 1)
            if (rows == 1) first = $5
            speedup = substr($6, 1, length($6) - 1)
            if (NF != 11 || $1 != ranks || $2 < 1 || $3 != batch[rows] || $4 <= 0) exit 1
            if (!near(speedup, $5 / first) || !near($7 / 100, $5 / first / ranks)) exit 1
            if ($9 != sprintf("%.2fx", guide[rows]) || !near($10 / 100, guide[rows] / ranks)) exit 1
        }
        END { if (rows != count) exit 1 }' stdout || fail "unexpected rows: $(cat stdout)"
}
ok "$trireme" bench scaling job.yaml $few --ranks 1,2,4
expect_line '^strong scaling: median of 1 steps, ' stdout
expect_rows 4 4 4
ok "$trireme" bench scaling job.yaml $few --ranks 1,2,4 --weak --parallel.dp zero1
expect_line '^weak scaling: ' stdout
expect_rows 4 8 16

# The smallest number need not be 1, and a number that the guide lacks has no figures of it. Nothing is left behind.
ok "$trireme" bench scaling job.yaml --train.steps 3 --rounds 2 --ranks 2,4,6 --weak --train.global_batch 2 --launch.as threads --json
tr -d '\n' <stdout >one
echo >>one
expect_json_lines one
expect_line '^\{"scaling":"weak","cores":[0-9]+,"steps":6,"rows":\[\{"ranks":2,.*"global_batch":2,.*"speedup":1,"efficiency":1,"guide_speedup":1,' one
expect_line '"ranks":4,"threads_per_rank":[0-9]+,"global_batch":4,.*"guide_speedup":1.9,"guide_efficiency":0.95' one
expect_line '"ranks":6,"threads_per_rank":[0-9]+,"global_batch":6,.*"guide_speedup":null,"guide_efficiency":null' one
ok "$trireme" bench scaling $few --ranks 1,2 --launch.threads_per_rank 1
expect_rows 16 16
ok "$trireme" bench scaling job.yaml $few
expect_line '^ +1 ' stdout
expect_line '^ +2 ' stdout
expect_no_file out
[ "$(ls)" = "$(printf 'job.yaml\none\nstderr\nstdout')" ] || fail "files were left: $(ls)"

refused 2 "^trireme: --ranks: found '2,1'; valid are rising numbers as 1,2,4$" "$trireme" bench scaling job.yaml --ranks 2,1
refused 2 "^trireme: --ranks: found '1,,2'; valid: up to 8 numbers as 1,2,4$" "$trireme" bench scaling job.yaml --ranks 1,,2
refused 2 "^trireme: --ranks: found '0'; valid: up to 8 numbers" "$trireme" bench scaling job.yaml --ranks 0
refused 2 '^trireme: --rounds: found 0; valid: 1 to 1000$' "$trireme" bench scaling job.yaml --rounds 0
refused 2 '^trireme: bench scaling: --launch.ranks: --ranks LIST gives' "$trireme" bench scaling job.yaml --launch.ranks 2
refused 2 'train.global_batch: found 4, not a multiple of 3 ranks' "$trireme" bench scaling job.yaml --ranks 1,3
finish
