# bench_kernels.sh -- trireme bench kernels measures every kernel of the cpu device against its limit, as a table and as JSON, and
# refuses what it does not know.
. "${0%/*}/lib.sh" "$1"
quick="--device cpu --threads 1 --tokens 4 --seconds 1e-3"

# shellcheck disable=SC2086 # the words of $quick are flags
ok "$trireme" bench kernels $quick --model gpt2 --json
expect_json_lines stdout
expect_line '^{"device":"cpu","kind":"[a-z0-9]+","precision":"bf16","copy_gb_per_s":[0-9.]+,"product_gflop_per_s":[0-9.e+]+,' stdout
for kernel in matmul bias_grad embedding embedding_grad norm norm_grad attention attention_grad activation activation_grad add \
    dropout init cross_entropy cross_entropy_stats square_error sum_squares clip update convert copy_rows fill digest reduce orthogonalize; do
    expect_line "{\"model\":\"gpt2\",\"kernel\":\"$kernel\",\"shape\":\"[^\"]+\",\"us\":[0-9.e+]+,\"gb_per_s\":[0-9.e+-]+,\"gflop_per_s\":[0-9.e+-]+,\"of_limit\":[0-9.]+}" stdout
done

# shellcheck disable=SC2086
ok "$trireme" bench kernels $quick --precision fp32 --model llama --only glu
expect_line '^device cpu .*: copies [0-9.]+ GB/s, read and written; products of fp32 [0-9.]+ GFLOP/s$' stdout
expect_line '^llama +glu +4 x 8192 +[0-9.]+ +[0-9.]+ +0.0 +[0-9]+ %$' stdout
expect_line '^llama +glu_grad +4 x 8192 ' stdout
expect_lines 4 stdout
# shellcheck disable=SC2086
ok "$trireme" bench kernels $quick --model llama --only rope
expect_line '^llama +rope +4 x ' stdout
expect_lines 3 stdout

refused 2 "^trireme: bench kernels: --model: found 'gpt3'; valid are gpt2, small, llama\$" "$trireme" bench kernels --model gpt3
refused 2 "^trireme: bench kernels: --only: found 'nrom'; valid is the start of a kernel's name, such as norm\$" \
    "$trireme" bench kernels --only nrom
refused 2 "^trireme: bench kernels: --precision: found 'int8'; valid are fp32, bf16, fp16\$" "$trireme" bench kernels --precision int8
refused 2 '^trireme: bench kernels: --seconds: found 0; valid are numbers above 0, up to 60$' "$trireme" bench kernels --seconds 0
finish
