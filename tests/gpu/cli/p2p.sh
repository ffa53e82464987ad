# p2p.sh -- ranks on the GPUs of the stand-in, as processes that share memory by IPC and as threads: the losses
# have the same bits under every policy and pipeline, with one GPU for all ranks and with one for each. And
# the benchmark of collectives finds no wrong number.
on_gpus=1
. "$(dirname "$0")/../../cli/lib.sh" "$1"
make_data
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0'
common="--train.steps 4 --train.global_batch 8 --parallel.no_sync true --launch.device cuda --launch.ranks"

export TRIREME_STAND_IN_DEVICES=1
train $common 2 --train.out ddp
train $common 2 --train.out ddp-threads --launch.as threads
train $common 2 --train.out zero3 --parallel.dp zero3
train $common 4 --train.out pp --parallel.pp 2
train $common 2 --train.out issued --launch.cuda_graphs false
export TRIREME_STAND_IN_DEVICES=2
train $common 2 --train.out ddp-two-gpus
train $common 2 --train.out zero3-two-gpus --parallel.dp zero3 --launch.as threads
train $common 4 --train.out pp-two-gpus --parallel.pp 2
train $common 2 --train.out cpu --launch.device cpu
expect_steps ddp 4
for run in ddp-threads zero3 pp issued ddp-two-gpus zero3-two-gpus pp-two-gpus; do expect_same_losses ddp $run; done
expect_near_losses cpu ddp 1e-4

# Ranks of tensor parallelism have bits of their own, which the pipeline and zero1 do not change.
train $common 4 --train.out tp --parallel.tp 2
train $common 8 --train.out 3d --parallel.tp 2 --parallel.pp 2 --parallel.dp zero1
expect_same_losses tp 3d
expect_near_losses cpu tp 1e-4

for what in all_reduce reduce_scatter all_gather broadcast sendrecv; do
    for as in processes threads; do
        ok "$trireme" bench $what --device cuda --ranks 3 --as $as -b 1000 -e 100000 -f 10 -n 2 -w 1
        expect_line 'Out of bounds values : 0 OK' stdout
        expect_line 'device  1 .* cuda$' stdout
    done
done
for what in all_reduce reduce sendrecv alltoall; do # recorded calls
    ok "$trireme" bench $what --device cuda --ranks 2 -b 1000 -e 100000 -f 10 -n 2 -w 1 -G 3
    expect_line 'graph: 3 ' stdout
    expect_line 'Out of bounds values : 0 OK' stdout
done
refused 2 'bench: -G 1: the communicator solo records no calls' "$trireme" bench all_reduce --device cuda --ranks 1 -b 4K -e 4K -G 1
ok "$trireme" bench all_reduce --device cuda --ranks 2 -d bfloat16 -o max -b 64K -e 64K -n 1 --memory private
expect_line 'Out of bounds values : 0 OK' stdout
finish
