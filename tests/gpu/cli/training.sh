# training.sh -- what the promises of training are on GPUs: losses near those of the CPU, and the same bits from two
# runs, from recorded and issued steps, from every recomputation, memory tier and policy, and after a resume. Several
# ranks share the GPUs there are. Runs on the stand-in, and by ./check-gpu on a GPU.
#   training.sh TRIREME
on_gpus=1
. "$(dirname "$0")/../../cli/lib.sh" "$1"
make_data
gpt2='family: gpt2, layers: 2, hidden: 32, heads: 4, vocab: 320, max_seq: 16, drop_embed: 0.1, drop_attention: 0.1, drop_residual: 0.1'
llama='family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, vocab: 320, max_seq: 16'
common='--train.global_batch 4 --launch.ranks 1 --launch.device cuda --train.save_every 2 --train.steps'

same_losses() { # RUN STEPS RUN...: the losses of all are those of the first, bit for bit
    local first=$1 one
    expect_steps "$first" "$2"
    shift 2
    for one; do expect_same_losses "$first" "$one"; done
}

# ---- Near the CPU's losses, twenty steps in fp32
for family in gpt2 llama; do
    make_job "${!family}"
    still='--train.global_batch 4 --train.steps 20 --launch.ranks 1'
    [ $family = gpt2 ] && still="$still --model.drop_embed 0 --model.drop_attention 0 --model.drop_residual 0"
    train $still --launch.device cpu --train.out cpu-$family
    train $still --launch.device cuda --train.out gpu-$family
    expect_near_losses cpu-$family gpu-$family 1e-4
done

# ---- The same bits, one rank
for precision in fp32 bf16; do
    make_job "$gpt2"
    run="$common 4 --train.precision $precision"
    train $run --train.out $precision-one
    train $run --train.out $precision-two
    train $run --train.out $precision-issued --launch.cuda_graphs false
    train $run --train.out $precision-selective --parallel.recompute selective
    train $run --train.out $precision-full --parallel.recompute full
    train $run --train.out $precision-host --parallel.offload.optimizer host
    same_losses $precision-one 4 $precision-two $precision-issued $precision-selective $precision-full $precision-host
    expect_same_checkpoint $precision-one $precision-two
done
train $common 2 --train.precision bf16 --train.out resumed
train $common 4 --train.precision bf16 --train.out resumed
same_losses bf16-one 4 resumed

# ---- The same bits for every policy, ranks that share the GPUs
ranks='--train.global_batch 8 --train.steps 4 --launch.device cuda --parallel.no_sync true --launch.ranks'
train $ranks 2 --train.out ddp
train $ranks 2 --train.out zero3 --parallel.dp zero3
train $ranks 4 --train.out pp --parallel.pp 2
same_losses ddp 4 zero3 pp
# Threads need a GPU each (docs/gpus.md); those of the stand-in may share one.
if [ -n "${TRIREME_STAND_IN_BYTES-}" ] || [ "$(nvidia-smi -L | wc -l)" -gt 1 ]; then
    train $ranks 2 --train.out threads --parallel.dp zero3 --launch.as threads
    same_losses ddp 4 threads
fi
train $ranks 4 --train.out tp --parallel.tp 2
train $ranks 8 --train.out cube --parallel.tp 2 --parallel.pp 2 --parallel.dp zero3
same_losses tp 4 cube
finish
