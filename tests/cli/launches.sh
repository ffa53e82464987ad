# launches.sh -- work on the parameters of a bucket is one kernel launch, not one for each parameter. What zero3 launches
# beyond ddp is work on buckets: a step of the model itself has the same launches under both.
. "${0%/*}/lib.sh" "$1"
cat >job.yaml <<END
model: {family: gpt2, layers: 4, hidden: 32, heads: 4, vocab: 128, max_seq: 32}
data: {train: mock, seq_len: 32}
train: {steps: 4, global_batch: 2, micro_batch: 1, save_every: 0, eval_every: 0, out: out}
launch: {ranks: 2, threads_per_rank: 1}
END

launches() { # ARGUMENT...: kernel launches of a step
    ok "$trireme" bench train job.yaml "$@" --json
    launched=$(grep -o '"launches":[0-9]*' stdout | grep -o '[0-9]*$')
}

launches --parallel.dp ddp && ddp=$launched
launches --parallel.dp zero3 && zero3=$launched
# zero3 has a bucket for each of the 6 blocks: it adds squares and updates. The reduce-scatter writes the shards. 52
# parameters are more.
[ "$ddp" -gt 100 ] || fail "a step of ddp has $ddp launches"
[ "$zero3" -gt "$ddp" ] && [ "$zero3" -le $((ddp + 2 * 6)) ] || fail "zero3 has $zero3 launches, ddp $ddp"

# A dropout before a sum costs a launch in the backward, and one in the forward where the sum is else joined with the norm after
# it: once a block. That of the embedding costs one in both.
launches --parallel.dp ddp --model.drop_residual 0 --model.drop_embed 0
[ "$ddp" -eq $((launched + 2 * 4 + 4 + 2)) ] || fail "without dropout ddp has $launched launches, with it $ddp"
finish
