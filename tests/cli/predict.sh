# predict.sh -- every sample is predicted once and in order, on any mesh. The loss of the logits is that of eval.
# Also the accuracy of classes, NumPy arrays, and that an interrupted prediction leaves no file.
. "${0%/*}/lib.sh" "$1"

# "loss right labels" of JSON lines with logits: mean cross-entropy over the labels, and hits.
score() {
    awk '{
        labels = $0; sub(/.*"labels?":\[?/, "", labels); sub(/[]}].*|,"logits.*/, "", labels)
        classes = $0; sub(/.*"class(es)?":\[?/, "", classes); sub(/[]}].*|,"label.*/, "", classes)
        n = split(labels, label, ","); split(classes, class, ",")
        logits = $0; sub(/.*"logits":\[+/, "", logits); gsub(/\]+}?$/, "", logits)
        split(logits, row, "\\],\\[")
        for (i = 1; i <= n; i++) {
            if (label[i] < 0) continue
            cols = split(row[i], v, ","); most = v[1] + 0; sum = 0
            for (k = 1; k <= cols; k++) if (v[k] + 0 > most) most = v[k] + 0
            for (k = 1; k <= cols; k++) sum += exp(v[k] - most)
            loss += log(sum) + most - v[label[i] + 1]; labels_all++
            right += label[i] == class[i]
            if (v[class[i] + 1] + 0 != most) wrong_class = 1
        }
    } END { if (wrong_class) print "a class is not that of the largest logit"; else printf "%.9f %d %d\n", loss / labels_all, right, labels_all }' "$1"
}

# agrees LINES: expects the loss of eval, and the hits of the summary in `summary`.
agrees() {
    local loss found right labels
    loss=$(sed 's/.*"loss":\([^,}]*\).*/\1/' evaluated)
    read -r found right labels <<<"$(score "$1")"
    awk -v a="$loss" -v b="$found" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-5 * a) }' ||
        fail "eval says $loss, the logits of $1 say $found"
    grep -q "($right of $labels)" summary || fail "$right of $labels are right, the summary says $(cat summary)"
}

expect_in_order() { # LINES COUNT
    sed 's/{"sample":\([0-9]*\),.*/\1/' "$1" | cmp -s - <(seq 0 $(($2 - 1))) || fail "$1 has not samples 0 to $(($2 - 1)) in order"
}

# ---- A language model
make_data
make_job
train --train.steps 8 --train.save_every 8 --train.out run
model=run/checkpoints/latest
ok "$trireme" eval job.yaml --model $model --json
cp stdout evaluated
ok "$trireme" predict job.yaml --model $model --what logits
cp stdout logits
cp stderr summary
expect_json_lines logits
expect_lines 1 summary
count=$(wc -l <logits)
expect_in_order logits "$count"
agrees logits
ok "$trireme" predict job.yaml --model $model
expect_same <(sed 's/,"logits":.*/}/' logits) stdout
ok "$trireme" predict job.yaml --model $model --what logits --positions last
expect_in_order stdout "$count"
cut -d '[' -f 2- stdout >last
sed 's/.*\],\[/[/; s/\]\]}$/]}/' logits | cut -d '[' -f 2- >ends
expect_same last ends

# ---- Any mesh gives the same bytes; tensor parallelism sums in another order
for mesh in '--launch.ranks 1' '--launch.ranks 3 --train.global_batch 3' '--parallel.dp zero3' '--parallel.pp 2' '--launch.as threads'; do
    ok "$trireme" predict job.yaml --model $model --what logits $mesh
    cmp -s stdout logits || fail "$mesh: other logits"
done
ok "$trireme" predict job.yaml --model $model --what logits --parallel.tp 2
cp stdout tp
agrees tp
ok "$trireme" predict job.yaml --model $model --what logits --launch.ranks 1 --train.global_batch 3 --train.micro_batch 3
cp stdout large
agrees large
expect_in_order large "$count"

# ---- Files: an array with the same numbers, complete or not there
ok "$trireme" predict job.yaml --model $model --what classes --output classes.npy --json
expect_line "^\{\"samples\":$count,\"positions\":16,\"what\":\"classes\",\"accuracy\":" stdout
head -c 127 classes.npy | tail -c 117 >head
printf '%-117s' "{'descr': '<i4', 'fortran_order': False, 'shape': ($count, 16), }" >expected
expect_same head expected
od -An -v -t d4 -w64 -j 128 classes.npy | awk '{ $1 = $1; print }' OFS=, >numbers
sed 's/.*"classes":\[\([^]]*\)\].*/\1/' logits >expected
expect_same numbers expected
ok "$trireme" predict job.yaml --model $model --what vectors --positions last --output vectors.npy
[ "$(stat -c %s vectors.npy)" = $((128 + count * 16 * 4)) ] || fail "vectors.npy has $(stat -c %s vectors.npy) bytes"
ok "$trireme" predict job.yaml --model $model --output lines.jsonl
expect_line "^$count samples, accuracy" stdout
expect_in_order lines.jsonl "$count"

# ---- Another data set, and refusals
ok "$trireme" predict job.yaml --model $model --data toy
[ "$(wc -l <stdout)" -gt "$count" ] || fail 'toy has no more samples than toy_valid'
mv run model_run
model=model_run/checkpoints/latest
refused 2 'predict: --model DIR is missing' "$trireme" predict job.yaml
refused 2 "--what: found 'logit'; valid: logits, classes, vectors" "$trireme" predict job.yaml --model $model --what logit
refused 2 '--format npy needs --output' "$trireme" predict job.yaml --model $model --format npy
refused 2 '--output: cannot create' "$trireme" predict job.yaml --model $model --output nowhere/a.npy
refused 2 'nowhere' "$trireme" predict job.yaml --model $model --data nowhere
code=0
"$trireme" predict job.yaml --model $model >/dev/full 2>stderr || code=$?
[ "$code" = 1 ] || fail "exit code $code with a full stdout"

# ---- An interrupted prediction leaves no file
"$trireme" predict job.yaml --model $model --data mock --what logits --output cut.npy >stdout 2>stderr &
pid=$!
# Bytes are written by ranks, which start after the program has taken the signals over: before, a shell's job ignores SIGINT.
while ! [ -s cut.npy.tmp-$pid ] && kill -0 $pid 2>/dev/null; do sleep 0.02; done
kill -INT $pid
code=0
wait $pid || code=$?
[ "$code" = 130 ] || fail "exit code $code when interrupted: $(cat stderr)"
[ -z "$(ls | grep '^cut.npy')" ] || fail "an interrupted prediction left $(ls | grep '^cut.npy')"

# ---- Vectors in: a classifier
make_points
cat >mlp.yaml <<END
model: {family: mlp, layers: 2, hidden: 8, features: 4, classes: 3}
data: {train: points.safetensors}
train: {steps: 20, global_batch: 8, micro_batch: 2, save_every: 20, eval_every: 0, out: mlp}
optimizer: {lr: 1e-2}
launch: {ranks: 2}
END
ok "$trireme" train mlp.yaml --quiet
ok "$trireme" eval mlp.yaml --model mlp/checkpoints/latest --json
cp stdout evaluated
ok "$trireme" predict mlp.yaml --model mlp/checkpoints/latest --what logits
cp stdout logits
cp stderr summary
expect_json_lines logits
expect_in_order logits 48
agrees logits
expect_line '^\{"sample":0,"class":[0-2],"label":[0-2],"logits":\[[^]]*\]\}$' logits
ok "$trireme" predict mlp.yaml --model mlp/checkpoints/latest --what vectors
expect_line '^\{"sample":47,"vector":\[[^],]*(,[^],]*){7}\]\}$' stdout
expect_line '^trireme: 48 samples$' stderr
finish
