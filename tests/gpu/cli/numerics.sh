# numerics.sh -- what a job lets a GPU do for speed: products in TF32 (train.precision tf32) and attention's gradient in
# any order (train.deterministic false). And what is said where cuDNN is missing. The call tape shows what ran.
#   numerics.sh PROGRAM_WITH_STAND_IN PROGRAM
on_gpus=1
. "${0%/*}/../../cli/lib.sh" "$1"
cat >job.yaml <<'END'
model: {family: gpt2, layers: 1, hidden: 64, heads: 2, vocab: 64, max_seq: 64, drop_embed: 0, drop_attention: 0, drop_residual: 0}
data: {train: mock, seq_len: 64}
train: {steps: 2, global_batch: 2, micro_batch: 1, save_every: 0, eval_every: 0}
launch: {device: cuda, ranks: 1}
END

trains() { # NAME [FLAG...]: the run's losses and calls are in NAME.losses and NAME.tape
    local name=$1
    shift
    ok env TRIREME_STAND_IN_TAPE="$PWD/$name.tape" "$trireme" train job.yaml --train.out "$name" "$@"
    grep -o '"loss": *[0-9.]*' "$name/log.jsonl" >"$name.losses"
    expect_lines 2 "$name.losses"
}

near() { # A B: all losses differ by less than 1 %
    paste -d' ' "$1.losses" "$2.losses" | tr -d '":a-z' |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 0.01 * $1) exit 1 }' || fail "$1 and $2 have other losses"
}

# ---- TF32
trains fp32
trains tf32 --train.precision tf32
trains high --train.precision high
expect_no_line 'compute=77' fp32.tape
expect_line '^matmul type=fp32 .*compute=77' tf32.tape
expect_no_line 'compute=68' tf32.tape
near fp32 tf32
! cmp -s fp32.losses tf32.losses || fail 'tf32 gives the losses of fp32'
expect_same tf32.losses high.losses
expect_line '"precision": ?"tf32"' tf32/log.jsonl
expect_line '^  precision: tf32$' high/job.yaml
for program in "$trireme" "$2"; do
    refused 2 'train.precision: found tf32, which the device cpu does not have; valid: fp32, bf16, fp16, or launch.device cuda$' \
        "$program" train job.yaml --launch.device cpu --train.precision tf32
done

# ---- The gradient of attention
trains fixed --train.precision bf16
trains any --train.precision bf16 --train.deterministic false
near fixed any
expect_line '^attention ' fixed.tape
expect_no_line '^attention_grad' fixed.tape
expect_line '^attention_grad ' any.tape
ok "$trireme" explain job.yaml --train.precision bf16
expect_line '^attention: forward by cuDNN, gradient by own kernel$' stdout
ok "$trireme" explain job.yaml --train.precision bf16 --train.deterministic false
expect_line '^attention: forward by cuDNN, gradient by cuDNN$' stdout
ok "$trireme" explain job.yaml --train.precision bf16 --train.deterministic false --json
expect_line '"attention":\{"forward":"cuDNN","gradient":"cuDNN"\}' stdout
ok "$trireme" explain job.yaml
expect_line '^attention: forward by own kernel, gradient by own kernel$' stdout

# ---- On the CPU the key changes nothing
for word in true false; do
    ok "$2" train job.yaml --launch.device cpu --train.out "cpu-$word" --train.deterministic $word
    grep -o '"loss": *[0-9.]*' "cpu-$word/log.jsonl" >"cpu-$word.losses"
done
expect_same cpu-true.losses cpu-false.losses

# ---- Without cuDNN
lacks='device cuda: cuDNN is not on this machine: the stand-in was told so; own kernels compute all attention'
export TRIREME_STAND_IN_WITHOUT=cuDNN
trains without --train.precision bf16 --train.deterministic false
expect_line "^trireme: $lacks\$"
[ "$(grep -c cuDNN stderr)" = 1 ] || fail "cuDNN is named more than once: $(cat stderr)"
expect_no_line '^attention' without.tape
near fixed without
ok "$trireme" explain job.yaml --train.precision bf16
expect_line "^attention: forward by own kernel, gradient by own kernel\$" stdout
expect_line "^$lacks\$" stdout
unset TRIREME_STAND_IN_WITHOUT
trains with --train.precision bf16
expect_no_line cuDNN
finish
