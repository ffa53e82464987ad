# threads.sh -- the bits of a run depend neither on the number of threads nor on the cores that it may use. No more
# threads than cores are started.
. "$(dirname "$0")/lib.sh" "$1"

same_on_any_team() { # NAME MODEL SEQ BATCH ARGUMENTS...
    local name=$1 model=$2 seq=$3 batch=$4 n
    shift 4
    cat >job.yaml <<END
model: {$model}
data: {train: mock, seq_len: $seq}
train: {steps: 4, global_batch: $batch, micro_batch: $batch, save_every: 0, eval_every: 0}
launch: {ranks: 1}
END
    for n in 1 2 3; do
        ok "$trireme" train job.yaml --quiet --launch.threads_per_rank $n --train.out "$name-$n" "$@"
        grep '"event":"step"' "$name-$n/log.jsonl" | sed 's/,"seconds.*//' >"$name-$n.steps"
        expect_lines 4 "$name-$n.steps"
    done
    expect_same "$name-1.steps" "$name-2.steps"
    expect_same "$name-1.steps" "$name-3.steps"
}

gpt2='family: gpt2, layers: 1, hidden: 24, heads: 4, vocab: 1000, max_seq: 64'
llama='family: llama, layers: 2, hidden: 40, heads: 4, kv_heads: 2, head_dim: 10, ffn: 72, vocab: 517, max_seq: 64'
same_on_any_team odd "$gpt2" 33 1
same_on_any_team one "$gpt2" 1 1
same_on_any_team six "$gpt2" 3 2 --parallel.recompute full
for precision in bf16 fp16; do same_on_any_team $precision "$gpt2" 33 1 --train.precision $precision; done
same_on_any_team llama "$llama" 29 3
same_on_any_team llama16 "$llama" 29 3 --train.precision bf16
# Long sums over k must not be divided among threads.
same_on_any_team deep 'family: gpt2, layers: 1, hidden: 32, heads: 2, vocab: 5003, max_seq: 512' 512 6 --train.precision bf16 --train.steps 4

ok taskset -c 0 "$trireme" train job.yaml --train.precision bf16 --launch.threads_per_rank 2 --train.out pinned
expect_line 'warning: launch.threads_per_rank is 2, more than the cores that this process may use; each rank uses 1'
grep '"event":"step"' pinned/log.jsonl | sed 's/,"seconds.*//' >pinned.steps
expect_same deep-1.steps pinned.steps

# The mfu of a short run: it is known from the third step on, and never above 100 %.
ok "$trireme" train job.yaml --launch.threads_per_rank 1 --train.steps 8 --train.out share
sed -n 's/.*"matmul_share":\([^,}]*\).*/\1/p' share/log.jsonl >shares
expect_lines 6 shares
awk '!($1 > 0 && $1 <= 1) { exit 1 }' shares || fail "shares of the matmul peak: $(tr '\n' ' ' <shares)"
finish
