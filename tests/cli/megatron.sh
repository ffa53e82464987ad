# megatron.sh -- `trireme translate megatron`: a launch script becomes a job that trains, in the order of GPTDataset, on
# any number of ranks and after a restart.
. "${0%/*}/lib.sh" "$1"
make_data

cat >gpt.sh <<'END'
#!/bin/bash
# Trains a small GPT.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=2
PREFIX=toy # tokens
DISTRIBUTED_ARGS=(--nproc_per_node $GPUS_PER_NODE --master_addr $MASTER_ADDR)
GPT_ARGS="
    --num-layers 1 \
    --hidden-size 16 --num-attention-heads 2 \
    --seq-length 16 --max-position-embeddings 16
"
ARGS=(
    --micro-batch-size 2 --global-batch-size 4 # sequences
    --train-iters ${STEPS:-3}
    --lr 1e-2 --lr-decay-style cosine --lr-warmup-iters 1 --min-lr 1e-3
    --tokenizer-type NullTokenizer --vocab-size 320 --make-vocab-size-divisible-by 64
    --attention-dropout 0 --hidden-dropout 0 --eval-interval 2 --eval-iters 1
)
if [ -n "$DEBUG" ]; then
    ARGS+=(--log-interval 1)
fi
torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py $GPT_ARGS \
    --data-path "$PREFIX" --split 90,10,0 --use-distributed-optimizer --save out 2>&1 | tee log
END
sed -i 's/\$GPT_ARGS \\/$GPT_ARGS "${ARGS[@]}" \\/' gpt.sh
# A value that depends on a condition cannot be known.
refused 2 '^trireme: gpt\.sh:22: found \$\{ARGS\[@\]\}, which a condition of the script sets' \
    "$trireme" translate megatron gpt.sh
sed -i '/^if/,/^fi/d' gpt.sh
ok "$trireme" translate megatron gpt.sh
cp stdout job.yaml
expect_line '^  family: gpt2 +# gpt\.sh:8: --num-layers$' job.yaml
expect_line '^  order: megatron +# gpt\.sh:20: --data-path' job.yaml
expect_line '^  train: \[\{path: toy, documents: \[0, 0\.9\]\}\]' job.yaml
expect_line '^  ranks: 2 ' job.yaml
expect_line "^  betas: \[0\.9, 0\.999\] +# Megatron-LM's default of --adam-beta1$" job.yaml

# It trains; the same on one rank, and after a stop.
ok "$trireme" train job.yaml --quiet --train.out two --train.save_every 1
expect_steps two 3
ok "$trireme" train job.yaml --quiet --train.out one --launch.ranks 1
losses one >one.losses
losses two >two.losses
expect_near_losses one two 1e-5
mkdir -p three/checkpoints
ok "$trireme" train job.yaml --quiet --train.out three --resume two/checkpoints/step-00000001 --overwrite
expect_line '"step":3,' three/log.jsonl
[ "$(grep -h '"step":3,' two/log.jsonl | grep -o '"loss":[^,]*' | head -n 1)" = \
    "$(grep -h '"step":3,' three/log.jsonl | grep -o '"loss":[^,]*' | head -n 1)" ] || fail 'another loss after a stop'
# The order is not the one of `shuffle`.
ok "$trireme" train job.yaml --quiet --train.out shuffled --launch.ranks 1 --data.order shuffle
! cmp -s one.losses <(losses shuffled) || fail 'the order of shuffle has the same losses'

# An argument file, as --data-args-path has one, and its refusals.
printf -- '--seed 5\n--lr 1\n--num-expert 8\n' >arguments
refused 2 '^trireme: arguments:3: --num-expert: unknown option of Megatron-LM; did you mean --num-experts\?$' "$trireme" translate megatron arguments
printf -- '--seed 5\n--lr 1\n--num-experts 8\n' >arguments
refused 2 '^trireme: arguments:3: --num-experts: mixtures of experts are planned' "$trireme" translate megatron arguments
refused 2 'data\.order: found megatron; it needs token shards' "$trireme" train job.yaml --data.train mock --data.valid mock
finish
