# async_save.sh -- checkpoints that are written while steps go on have the bytes of those that are waited for, a kill at
# any moment leaves a run that resumes, and a save that fails ends the run with its reason.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: llama, layers: 4, hidden: 32, heads: 2, vocab: 320, max_seq: 16'

# ---- The same bytes, also where ranks have shards, in 16 bits, and with state in files
n=0
for how in '--parallel.dp ddp' '--parallel.dp zero3 --train.precision bf16' '--parallel.tp 2' '--parallel.pp 2 --launch.as threads' \
    '--parallel.dp zero2 --parallel.offload.optimizer file --parallel.offload.path nvme --optimizer.ema 0.9'; do
    n=$((n + 1))
    train $how --train.save_every 2 --train.keep 0 --train.out waits-$n
    train $how --train.save_every 2 --train.keep 0 --train.out beside-$n --train.async_save true
    for step in 2 4 6 8; do
        for file in model.safetensors trireme/state.safetensors trireme/manifest.json; do
            expect_same waits-$n/checkpoints/step-0000000$step/$file beside-$n/checkpoints/step-0000000$step/$file
        done
    done
    expect_same_losses waits-$n beside-$n
    [ "$(grep -c '"event":"save"' beside-$n/log.jsonl)" = 4 ] || fail "saves of $how: $(grep '"save"' beside-$n/log.jsonl)"
    expect_line '"event":"save","step":8,"path":"[^"]*step-00000008"' beside-$n/log.jsonl
done

# ---- The plan counts the copy
buffers() { "$trireme" explain job.yaml --json "$@" | sed -n 's/.*"buffers": *\([0-9]*\).*/\1/p' | head -n 1; }
[ "$(buffers --train.async_save true)" -gt "$(buffers)" ] || fail "buffers: $(buffers --train.async_save true), without $(buffers)"

# ---- Killed again and again while it saves in every step
train --train.save_every 400 --train.steps 400 --train.out straight
for round in 1 2 3 4 5 6; do
    set -m
    "$trireme" train job.yaml --quiet --train.steps 1000000 --train.save_every 1 --train.keep 2 --train.async_save true --train.out killed \
        >/dev/null 2>killed.err </dev/null &
    starter=$!
    set +m
    wait_for_line "\"event\":\"save\",\"step\":$((round * 20))," killed/log.jsonl
    kill -9 -- -$starter
    { wait $starter; } 2>/dev/null
    ok "$trireme" checkpoint verify killed/checkpoints/latest
done
train --train.save_every 400 --train.steps 400 --train.keep 2 --train.async_save true --train.out killed
losses straight >straight.losses
expect_none 'other losses' "$(losses killed | grep -vxFf straight.losses)"
expect_same_checkpoint straight killed

# ---- A folder that is gone
set -m
"$trireme" train job.yaml --quiet --train.steps 1000000 --train.save_every 1 --train.async_save true --train.out gone >stdout 2>stderr </dev/null &
starter=$!
set +m
wait_for_line '"event":"save","step":20,' gone/log.jsonl
until rm -rf gone 2>/dev/null; do :; done # its ranks still write there
{ wait $starter; } 2>/dev/null
code=$?
expect_exit 1
expect_line 'gone'
finish
