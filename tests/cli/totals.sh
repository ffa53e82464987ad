# totals.sh -- explain, plan and bench print the same bytes of memory for a rank; only the runtime bytes, which are
# measured, may differ. Jobs of more ranks than this machine can start are planned, and refused where they would
# run.
. "${0%/*}/lib.sh" "$1"
cat >job.yaml <<END
model: {family: gpt2, layers: 2, hidden: 32, heads: 4, vocab: 128, max_seq: 32}
data: {train: mock, seq_len: 32}
train: {steps: 3, global_batch: 16, micro_batch: 1, save_every: 0, eval_every: 0, out: out}
launch: {ranks: 2, threads_per_rank: 1}
END

figure() { # NAME: the first such number in stdout
    grep -o "\"$1\": *[0-9]*" stdout | head -n 1 | grep -o '[0-9]*$'
}

for how in '' '--parallel.dp zero3' '--train.precision bf16 --parallel.dp zero2' '--parallel.pp 2 --train.micro_batch 4'; do
    ok "$trireme" explain job.yaml $how --json
    sed -n 's/.*"bytes_per_rank":\({[^}]*}\).*/\1/p' stdout >bytes && mv bytes stdout
    explained=$(($(figure total) - $(figure runtime)))
    ok "$trireme" plan job.yaml $how --json
    planned=$(($(figure total) - $(figure runtime)))
    ok "$trireme" bench train job.yaml $how --json
    measured=$(($(figure plan_bytes_per_rank) - $(figure runtime_bytes_per_rank)))
    [ "$explained" -gt 100000 ] || fail "explain $how: $explained bytes"
    [ "$explained" = "$planned" ] || fail "with '$how' explain says $explained bytes, plan $planned"
    [ "$explained" = "$measured" ] || fail "with '$how' explain says $explained bytes, bench $measured"
done

# ---- 16,384 ranks
cat >large.yaml <<END
model: {family: llama, layers: 80, hidden: 8192, heads: 64, kv_heads: 8, ffn: 28672, vocab: 128256, max_seq: 8192}
data: {train: mock, seq_len: 4096}
train: {steps: 10, global_batch: 2048, micro_batch: 1, precision: bf16, out: out}
parallel: {pp: 16, tp: 8, dp: zero1}
launch: {ranks: 16384}
END
ok timeout 60 "$trireme" plan large.yaml
expect_line '^job: 16384 ranks \(pp 16, dp_replicate 1, dp_shard 128, cp 1, tp 8\), .*; no memory.budget, and the memory of the ranks is not known$' stdout
expect_no_line 'it fits' stdout
ok timeout 60 "$trireme" plan large.yaml --memory.budget 80Gi
expect_line '; budget 80.00 GiB a rank$' stdout
ok timeout 60 "$trireme" plan large.yaml --json
expect_line '"ranks":16384,"budget_bytes":null,"fits":null,' stdout
ok timeout 60 "$trireme" explain large.yaml --rank 16383
expect_line '^rank 16383 of 16384, pp 15, dp_shard 127, tp 7$' stdout
refused 2 'large.yaml:5: launch.ranks: found 16384; valid to run on this machine: 1 to 4096' "$trireme" train large.yaml
refused 2 'launch.ranks: found 20000; valid: ' "$trireme" plan large.yaml --launch.ranks 20000
expect_no_file out
finish
