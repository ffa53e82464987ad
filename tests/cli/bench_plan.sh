# bench_plan.sh -- trireme bench plan predicts published runs: rows that ship are read and possible, the errors are in a
# range that a broken model would leave, and mistakes in a file of rows are named.
case $0 in /*) here=${0%/*} ;; *) here=$PWD/${0%/*} ;; esac
. "${0%/*}/lib.sh" "$1"
clusters=$here/../../examples/clusters

# bench plan of one file; further arguments are flags.
rows() {
    file=$1
    shift
    ok "$trireme" bench plan --cluster-folder "$clusters" --rows "$file" "$@"
}

for source in torchtitan megatron-2022; do
    rows "$clusters/rows/$source.csv" --json
    python3 - "$source" stdout <<'PYTHON'
import json, sys
found = json.load(open(sys.argv[2]))
assert all(r["predicted"] for r in found["rows"] if r["counted"]), "a row is not possible"
(source,) = found["sources"]
assert source["source"] == sys.argv[1] and source["median"] < 0.12, source
PYTHON
done

rows "$clusters/rows/megatron-2022.csv"
expect_line '^megatron-2022 +megatron-22b +selene +8 +fp16 +tp 8 .* 930\.9 +[0-9.]+ +[-+0-9.]+ %$' stdout
expect_line '^megatron-2022 +8 ' stdout

# One row, with other words in single fields.
head=$(grep '^source,' "$clusters/rows/automodel.csv")
row=$(grep '^automodel,' "$clusters/rows/automodel.csv")
wrong() { # EDIT OF THE ROW, MESSAGE
    printf '%s\n%s\n' "$head" "$(printf '%s' "$row" | sed "$1")" >wrong.csv
    refused 2 "$2" "$trireme" bench plan --cluster-folder "$clusters" --rows wrong.csv
}
wrong 's/866.77/fast/' '^trireme: wrong.csv:2: tokens_per_s_per_gpu: found fast; valid: a number above 0$'
wrong 's/llama3-70b/llama9/' '^trireme: wrong.csv:2: model llama9 is not in models.csv$'
wrong 's/,default,/,magic,/' '^trireme: wrong.csv:2: attention: found magic; valid: default, '
wrong 's/dgx-h100/dgx-x/' 'dgx-x.yaml'
wrong 's/,[^,]*$//' '^trireme: wrong.csv:2: [0-9]+ fields of [0-9]+$'
printf '%s\n' "$head" | sed 's/,tp,/,tq,/' >wrong.csv
refused 2 '^trireme: wrong.csv: column tq; valid' "$trireme" bench plan --cluster-folder "$clusters" --rows wrong.csv
refused 2 'fit nobody: no counted rows' "$trireme" bench plan --cluster-folder "$clusters" --fit nobody

# A layout that is not possible is printed, and does not count.
printf '%s\n%s\n' "$head" "$(printf '%s' "$row" | sed 's/,64,bf16/,63,bf16/')" >odd.csv
rows odd.csv
expect_line 'not possible: ' stdout
expect_line '^automodel +0 ' stdout
finish
