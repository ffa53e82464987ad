# calibrate.sh -- trireme bench calibrate writes a machine file, and what reads it predicts the same twice; files that are none,
# and flags that it does not know, are refused with one line.
. "${0%/*}/lib.sh" "$1"

ok "$trireme" bench calibrate --out machines/here.json --ranks 2 --threads 1 --seconds 0.5 --precision fp32
expect_line '^2 ranks of 1 thread on .*: memory [0-9.]+ GB/s a rank, [0-9]+ points of kernels, [0-9]+ of calls, in [0-9]+ s$' stdout
expect_line '^products of fp32: [0-9.]+ GFLOP/s a rank$' stdout
expect_line '^kernels take [0-9.]+ times as long in a step as alone; a step takes [0-9.]+ ms beside its instructions$' stdout
expect_line '^files: read [0-9.]+ GB/s, write [0-9.]+ GB/s$' stdout
expect_line '^wrote machines/here.json$' stdout
expect_file machines/here.json
tr -d '\n' <machines/here.json >line.json
expect_json_lines line.json

# Two readings give the same numbers. The memory of the program itself is measured each time.
numbers() {
    tr ',' '\n' <stdout | grep -Ev '^"(runtime|total)":'
}
make_data
make_job
ok "$trireme" explain job.yaml --time --machine machines/here.json --json
numbers >first
grep -q '"step_ms_predicted":[0-9]' first || fail "no predicted step"
ok "$trireme" explain job.yaml --time --machine machines/here.json --json
numbers | cmp -s first - || fail "two readings of a machine file differ"
ok "$trireme" bench kernels --machine machines/here.json --device cpu --threads 1 --tokens 4 --seconds 1e-3 --model gpt2 \
    --precision fp32 --only norm
expect_line '^gpt2 +norm +4 x 768 .* [+-][0-9.]+ %$' stdout
expect_line '^median error [0-9.]+ %, 90th percentile [0-9.]+ %, of 2 kernels$' stdout

# What is no machine file is refused.
machine_refused() { # CONTENTS LINE
    printf '%s' "$1" >bad.json
    refused 2 "$2" "$trireme" explain job.yaml --time --machine bad.json
}
machine_refused '{' '^trireme: bad.json:1: no JSON: '
machine_refused '[]' '^trireme: bad.json: valid is one object, as `bench calibrate` writes it$'
machine_refused '{"format":7}' '^trireme: bad.json: format: found 7; valid is 1, of a file that `bench calibrate` wrote$'
sed 's/"ranks": 2/"ranks": 0/' machines/here.json >bad.json
refused 2 '^trireme: bad.json: ranks: valid is a whole number from 1 on$' "$trireme" explain job.yaml --time --machine bad.json
sed 's/"factor": [0-9.]*/"factor": "much"/' machines/here.json >bad.json
refused 2 '^trireme: bad.json: host.factor: valid is a number from 0.01 on$' "$trireme" explain job.yaml --time --machine bad.json
sed 's/"kernel": "[a-z_]*"/"kernel": "nrom"/' machines/here.json >bad.json
refused 2 '^trireme: bad.json: kernels.rows\[[0-9]+\].kernel: found nrom; valid is the name of a kernel, such as matmul$' \
    "$trireme" explain job.yaml --time --machine bad.json
sed 's/"communicator": "local"/"communicator": "other"/' machines/here.json >bad.json
refused 2 '^trireme: bad.json: calls.rows: found none of communicator local; ' "$trireme" explain job.yaml --time --machine bad.json

refused 2 "^trireme: bench calibrate: --precision: found 'fp32,int8'; valid is a list of fp32, bf16, fp16\$" \
    "$trireme" bench calibrate --out m.json --precision fp32,int8
refused 2 '^trireme: bench calibrate: --seconds: found 0; valid are numbers above 0, up to 3600$' \
    "$trireme" bench calibrate --out m.json --seconds 0
refused 2 '^trireme: bench calibrate: --out: found /dev/null/m.json; valid is a file in a folder that can be written$' \
    "$trireme" bench calibrate --out /dev/null/m.json
expect_no_file m.json
finish
