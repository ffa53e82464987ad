# equal.sh -- training does not depend on the number of ranks; the same command gives the same bits, with ranks
# as processes and as threads.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_points

same_whatever_the_ranks() { # NAME ARGUMENTS...
    local name=$1 n
    shift
    set -- --train.steps 20 --train.global_batch 12 --train.save_every 20 "$@"
    for n in 1 2 3 4; do
        train "$@" --launch.ranks $n --train.out "$name-$n"
        expect_steps "$name-$n" 20
    done
    for n in 2 3 4; do expect_near_losses "$name-1" "$name-$n" 1e-5; done
    train "$@" --launch.ranks 3 --train.out "$name-again"
    expect_same_losses "$name-3" "$name-again"
    expect_same_checkpoint "$name-3" "$name-again"
    train "$@" --launch.ranks 3 --launch.as threads --train.out "$name-threads"
    expect_same_losses "$name-3" "$name-threads"
    expect_same_checkpoint "$name-3" "$name-threads"
}

make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0.1, drop_attention: 0.2, drop_residual: 0.1'
same_whatever_the_ranks gpt2

make_job 'family: llama, layers: 2, hidden: 24, heads: 4, kv_heads: 2, head_dim: 8, ffn: 40, vocab: 320, max_seq: 16, rope_theta: 500'
same_whatever_the_ranks llama --optimizer.lr 3e-3 --train.eval_every 10
# An evaluation does not depend on the number of ranks either.
for n in 2 3 4; do
    sed -n 's/.*"event":"eval","step":\([0-9]*\),"loss":\([^,]*\).*/{"event":"step","step":\1,"loss":\2,}/p' llama-$n/log.jsonl >eval-$n.jsonl
    mkdir -p eval-1 eval-$n
    sed -n 's/.*"event":"eval","step":\([0-9]*\),"loss":\([^,]*\).*/{"event":"step","step":\1,"loss":\2,}/p' llama-1/log.jsonl >eval-1/log.jsonl
    mv eval-$n.jsonl eval-$n/log.jsonl
    expect_near_losses eval-1 eval-$n 1e-5
done
# A part of it does not either, because batches are global.
for n in 1 4; do
    ok "$trireme" eval job.yaml --model llama-1/checkpoints/latest --train.global_batch 4 --launch.ranks $n --train.eval_batches 3 --json
    sed 's/.*"loss":\([^,]*\).*"tokens":\([0-9]*\).*/{"event":"step","step":\2,"loss":\1,}/' stdout >eval-$n/log.jsonl
done
expect_near_losses eval-1 eval-4 1e-5
# bf16 also rounds differently where the batch is divided differently; fp32 only sums in another order.
for n in 1 2; do train --train.precision bf16 --train.steps 20 --train.global_batch 12 --optimizer.lr 3e-3 --launch.ranks $n --train.out bf16-$n; done
expect_near_losses bf16-1 bf16-2 2e-3
expect_near_losses llama-1 bf16-1 2e-2

make_job 'family: mlp, features: 4, hidden: 8, layers: 2, classes: 3'
sed -i 's/^data:.*/data: {train: points.safetensors, valid: points.safetensors}/' job.yaml
same_whatever_the_ranks mlp --optimizer.name sgd --optimizer.momentum 0.9

# ---- The size of buckets does not change the bits: initial weights do not depend on it either. The
# sizes are odd, so that buckets have gaps between them.
make_job 'family: gpt2, layers: 2, hidden: 12, heads: 2, vocab: 321, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0'
for bytes in 1000 10000 25Mi; do
    for n in 2 3; do
        train --parallel.bucket_bytes $bytes --launch.ranks $n --train.global_batch 6 --checks.replicas_every 1 --train.out buckets-$bytes-$n
        expect_same_losses buckets-1000-$n buckets-$bytes-$n
    done
done

# ---- Every CPU level of this machine
make_job
levels=generic
grep -qw avx2 /proc/cpuinfo && levels="$levels avx2"
grep -qw avx512bw /proc/cpuinfo && levels="$levels avx512"
grep -qw amx_bf16 /proc/cpuinfo && levels="$levels amx"
for precision in fp32 bf16; do
    for level in $levels; do
        TRIREME_CPU=$level train --train.precision $precision --train.out $level-$precision
        expect_near_losses generic-$precision $level-$precision $([ $precision = fp32 ] && echo 1e-5 || echo 2e-3)
    done
done
refused 2 'TRIREME_CPU.*sse3' env TRIREME_CPU=sse3 "$trireme" train job.yaml
finish
