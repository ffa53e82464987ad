# many_layers.sh -- models of many layers are planned quickly, and they train with a weight slot for every block.
. "${0%/*}/lib.sh" "$1"
cat >job.yaml <<END
model: {family: gpt2, layers: 10000, hidden: 8, heads: 1, vocab: 64, max_seq: 16}
data: {train: mock, seq_len: 16}
train: {steps: 2, global_batch: 4, micro_batch: 2, save_every: 0, eval_every: 0, out: out}
launch: {ranks: 2, threads_per_rank: 1}
END

# It takes less than a second; the limit is for a busy machine.
ok timeout 60 "$trireme" explain job.yaml
expect_line '^model: .* parameters' stdout
ok timeout 60 "$trireme" plan job.yaml
expect_line '^\* as the job is ' stdout

# More than 512 slots.
for how in '--parallel.dp ddp' '--parallel.dp zero3 --parallel.reshard_after_forward false'; do
    ok timeout 120 "$trireme" train job.yaml --quiet --model.layers 600 --parallel.no_sync true $how --train.out "${how##* }"
done
expect_same_losses ddp false
refused 2 '--model.layers: found 2147483647, valid are whole numbers from 1 to 65536' "$trireme" train job.yaml --model.layers 2147483647
finish
