# examples.sh -- examples/ has one job file per strategy, four with models of other families, and one of fine-tuning. Each
# runs unchanged, in the mesh and under the policy that it shows. It computes what DDP computes on as many data-parallel
# ranks with the same
# parallel.no_sync: the same bits, or within 1e-5 with tensor or context parallelism, where sums have another order. A
# file with another model computes what one rank computes, within 1e-5.
. "${0%/*}/lib.sh" "$1"
examples=${0%/*}/../../examples
ln -s "$examples" examples # sft.yaml names files below it

# References: DDP on 4, 2 and 1 ranks; the last with one micro-batch. each4 reduces sharded gradients after every
# micro-batch, as no_sync auto does.
ok "$trireme" train "$examples/ddp.yaml" --quiet --train.out dp4
ok "$trireme" train "$examples/zero2.yaml" --quiet --train.out each4 --parallel.no_sync false
ok "$trireme" train "$examples/ddp.yaml" --quiet --train.out dp2 --launch.ranks 2
ok "$trireme" train "$examples/ddp.yaml" --quiet --train.out dp1 --launch.ranks 1 --train.micro_batch 16
[ "$(losses dp4)" != "$(losses dp2)" ] || fail "sums over 4 and over 2 ranks must differ in their last bits"
[ "$(losses dp4)" != "$(losses each4)" ] || fail "the order of sums must show in the last bits"

# NAME POLICY PP DP_REPLICATE DP_SHARD CP TP, and the reference of its losses
table="
ddp             ddp   1 4 1 1 1 same dp4
zero1           zero1 1 1 4 1 1 same dp4
zero2           zero2 1 1 4 1 1 each each4
zero3           zero3 1 1 4 1 1 each each4
fsdp_full       zero3 1 1 4 1 1 each each4
fsdp_grad_op    zero2 1 1 4 1 1 each each4
hsdp            ddp.x.zero3 1 2 2 1 1 hybrid each4
cpu_offload     zero3 1 1 4 1 1 each each4
nvme_offload    zero3 1 1 4 1 1 same dp4
layer_placement ddp   2 1 1 1 1 same dp1
tp              ddp   1 2 1 1 2 near dp2
tp_sequence     ddp   1 2 1 1 2 near dp2
pp              ddp   2 2 1 1 1 same dp2
pp_interleaved  ddp   2 2 1 1 1 same dp2
pp_zero_bubble  ddp   2 2 1 1 1 same dp2
3d              zero1 2 1 2 1 2 near dp2
powersgd        ddp   1 4 1 1 1 powersgd dp4
fp16            zero2 1 1 4 1 1 fp16 each4
freeze          zero3 1 1 4 1 1 groups dp4
layer_lr        zero1 1 1 4 1 1 groups dp4
lora            zero3 1 1 4 1 1 groups dp4
qlora           zero3 1 1 2 1 1 alone -
cp              ddp   1 1 1 4 1 alone -
cp_fsdp         zero3 1 1 2 2 1 alone -
qwen3           zero3 1 1 2 1 1 alone -
gemma3          ddp   1 1 1 1 2 alone -
lfm2            ddp   1 1 1 2 1 alone -
qwen3_5         ddp   1 1 1 1 2 alone -
sft             zero3 1 1 2 1 1 alone -
dpo             zero3 1 1 2 1 1 alone -
"

# Every line has a finite number.
expect_finite() {
    losses "$1" | awk '$2 !~ /^[0-9.]+(e-?[0-9]+)?$/ { bad = 1 } END { exit bad || NR == 0 }' ||
        fail "a loss of $1 is not finite: $(losses "$1")"
}

expect_like() { # HOW RUN REFERENCE
    case $1 in
    same) expect_same_losses "$2" "$3" ;;
    each | hybrid) # hybrid: one axis is summed after each micro-batch, the other at the end of the step
        if [ "$1" = each ]; then expect_same_losses "$2" "$3"; else expect_near_losses "$2" "$3" 1e-5; fi
        ok "$trireme" train "$2/job.yaml" --quiet --train.out "$2-summed" --parallel.no_sync true
        expect_same_losses "$2-summed" dp4
        ;;
    near) expect_near_losses "$2" "$3" 1e-5 ;;
    groups) # the first loss is that of the same model; other weights change afterwards, equally under each policy
        [ "$(losses "$2" | head -n 1)" = "$(losses "$3" | head -n 1)" ] || fail "the first losses of $2 and $3 differ"
        [ "$(losses "$2" | sed -n 2p)" != "$(losses "$3" | sed -n 2p)" ] || fail "the groups of $2 change nothing"
        ok "$trireme" train "$2/job.yaml" --quiet --train.out "$2-ddp" --parallel.dp ddp --parallel.no_sync true
        ok "$trireme" train "$2/job.yaml" --quiet --train.out "$2-summed" --parallel.no_sync true
        expect_same_losses "$2-summed" "$2-ddp"
        ;;
    alone) # one rank, which has the whole model and whole sequences
        ok "$trireme" train "$2/job.yaml" --quiet --train.out "$2-alone" --parallel.cp 1 --parallel.tp 1 --launch.ranks 1
        expect_near_losses "$2" "$2-alone" 1e-5
        ;;
    fp16)
        expect_near_losses "$2" "$3" 1e-3
        [ "$(losses "$2")" != "$(losses "$3")" ] || fail "fp16 computes as fp32 does"
        ;;
    powersgd) # steps 1 and 2 are not compressed, so the third loss is the last equal one
        [ "$(losses "$2" | head -n 3)" = "$(losses "$3" | head -n 3)" ] || fail "losses of steps without compression differ"
        [ "$(losses "$2")" != "$(losses "$3")" ] || fail "nothing was compressed"
        expect_near_losses "$2" "$3" 1e-2
        ;;
    esac
}

while read -r name policy pp replicate shard cp tp how reference; do
    [ -n "$name" ] || continue
    ok "$trireme" train "$examples/$name.yaml" --quiet
    out=runs/$name
    expect_line "\"mesh\":\{\"pp\":$pp,\"dp_replicate\":$replicate,\"dp_shard\":$shard,\"cp\":$cp,\"tp\":$tp\}" $out/log.jsonl
    expect_line "\"policy\":\"$policy\"" $out/log.jsonl
    expect_steps $out 8
    expect_finite $out
    expect_like "$how" $out "$reference"
done <<END
$table
END

# Every job file stands in the table above and in examples/README.md.
for file in "$examples"/*.yaml; do
    name=$(basename "$file" .yaml)
    grep -q "\`$name.yaml\`" "$examples/README.md" || fail "examples/README.md does not list $name.yaml"
    [ "$name" = demo ] || grep -q "^$name " <<<"$table" || fail "$name.yaml has no line here"
done
finish
