# reshard.sh -- a run resumes under another mesh and policy than those of its checkpoint. The HuggingFace folder
# always has the full model. A failed save ends every rank of a sharded run.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: gpt2, layers: 2, hidden: 32, heads: 2, vocab: 320, max_seq: 16'
endless=1000000000
sed -i 's/lr: 1e-2/lr: 1e-3/' job.yaml # so that rounding does not grow
echo 'parallel: {no_sync: true}' >>job.yaml # so that all layouts sum in one order

# NAME, the reference with the same order of sums, and the arguments.
layouts='
one     one     --launch.ranks 1
ddp2    ddp2    --launch.ranks 2
zero1   ddp2    --launch.ranks 2 --parallel.dp zero1
pp2     one     --launch.ranks 2 --parallel.pp 2
zero3   ddp2    --launch.ranks 2 --parallel.dp zero3
ddp4    ddp4    --launch.ranks 4
hsdp    ddp4    --launch.ranks 4 --parallel.dp zero3 --parallel.dp_replicate 2 --parallel.dp_shard 2
tp2     tp2     --launch.ranks 4 --parallel.tp 2
file    ddp2    --launch.ranks 2 --parallel.dp zero3 --parallel.offload.optimizer file --parallel.offload.gradients file --parallel.offload.weights file --parallel.offload.path nvme
cp2     cp2     --launch.ranks 2 --parallel.cp 2
cpzero3 cp2     --launch.ranks 2 --parallel.cp 2 --parallel.dp zero3
3d      tp2     --launch.ranks 8 --parallel.tp 2 --parallel.pp 2 --parallel.dp_shard 2 --parallel.dp zero3
zero2   ddp4    --launch.ranks 4 --parallel.dp zero2 --launch.as threads
pp4     one     --launch.ranks 4 --parallel.pp 4 --parallel.pp_schedule gpipe
'

# ---- The bytes of a checkpoint do not depend on how the ranks sharded the state
while read -r name like how; do
    [ -n "$name" ] || continue
    train --train.global_batch 8 --train.save_every 4 --train.steps 4 --train.out "$name" $how
    [ "$name" = "$like" ] && continue
    expect_same_losses "$like" "$name"
    expect_same_checkpoint "$like" "$name"
done <<<"$layouts"

# ---- One run through all layouts: each is killed after a save, and the next one resumes from there
last=0
while read -r name like how; do
    [ -n "$name" ] || continue
    rm -f journey/log.jsonl
    set -m
    "$trireme" train job.yaml --quiet --train.global_batch 8 --train.save_every 3 --train.keep 2 \
        --train.steps $endless --train.out journey --resume auto $how >stdout 2>stderr </dev/null &
    starter=$!
    set +m
    wait_for_line "\"event\":\"save\",\"step\":$((last + 3))," journey/log.jsonl
    ranks=$(children_of $starter)
    kill -9 $starter
    { wait $starter; } 2>/dev/null
    expect_gone 60000 $starter $ranks
    [ "$last" = 0 ] || expect_line "\"resumed_from\":$last\b" journey/log.jsonl
    cat journey/log.jsonl >>journey.log
    ok "$trireme" checkpoint verify journey
    last=$(newest_step journey)
done <<<"$layouts"
train --train.global_batch 8 --train.save_every "$((last + 3))" --train.steps "$((last + 3))" --train.out journey
cp journey/log.jsonl journey.last
cat journey.last >>journey.log
cp journey.log journey/log.jsonl
train --train.global_batch 8 --train.steps "$((last + 3))" --train.out straight
# Another layout runs the steps again that were not saved.
losses journey | awk -v last="$((last + 3))" '$1 <= last' >journey.losses
losses straight >straight.losses
paste -d ' ' straight.losses journey.losses | awk '
    NF != 4 || $1 != $3 { bad = "the steps differ" }
    { d = ($2 - $4) / $2; if (d < 0) d = -d; if (!(d <= 1e-4)) bad = "step " $1 " " $2 " " $4 }
    END { if (NR < 30) bad = "only " NR " steps"; if (bad) print bad; exit bad != "" }' >difference ||
    fail "the run through all layouts is not near the run without stops: $(cat difference)"

# ---- A disk that is full within the weights, then within the state: all ranks end with one line, and the run
# resumes from the older checkpoint. (A limit on the length of files simulates the disk.)
make_job 'family: gpt2, layers: 2, hidden: 64, heads: 2, vocab: 2000, max_seq: 16'
for how in '--launch.ranks 4 --parallel.dp zero3' '--launch.ranks 2 --parallel.pp 2'; do
    for limit in 400000 1200000; do
        rm -rf out
        trap '' XFSZ # the write fails, instead of the signal
        set -m
        "$trireme" train job.yaml --quiet --train.steps $endless --train.save_every 20 $how \
            >stdout 2>stderr </dev/null &
        starter=$!
        set +m
        trap - XFSZ
        wait_for_line '"event":"save","step":20,' out/log.jsonl
        ranks=$(children_of $starter)
        for pid in $starter $ranks; do prlimit --pid "$pid" --fsize=$limit:$limit; done
        { wait $starter; } 2>/dev/null
        code=$?
        expect_exit 1
        expect_gone 60000 $starter $ranks
        expect_lines 1 stderr
        # Both ranks write; the one that comes to the limit first is named.
        expect_line 'rank [01]: .*the checkpoint of step [0-9]+ is not saved, older ones stay: .*safetensors.*File too large'
        expect_line '^\{"event":"end","reason":"failed"' out/log.jsonl
        expect_none 'left over' "$(find out/checkpoints -name '.tmp*')"
        last=$(readlink out/checkpoints/latest | sed 's/.*-0*//')
        ok "$trireme" checkpoint verify out/checkpoints/latest
        train --train.steps "$((last + 1))" --launch.ranks 1
        expect_line "\"resumed_from\":$last\b" out/log.jsonl
    done
done
finish
