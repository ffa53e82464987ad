# lib.sh -- shared by the tests of the program: a scratch folder, small text, data and jobs, and expectations.
# Sourced as `. lib.sh "$1"` with the path of the program; a script ends with `finish`. After a failed
# expectation the script prints it and continues, so that one run shows all of them.
set -u
export LC_ALL=C
# These tests are of ranks on the CPU. Those of tests/gpu/cli/ say on_gpus=1 before they source this file.
[ -n "${on_gpus-}" ] || export CUDA_VISIBLE_DEVICES=
trireme=$1
scratch=$(mktemp -d "${TMPDIR:-/tmp}/trireme-cli.XXXXXX")
cd "$scratch" || exit 1
failures=0
code=0
# How the line of a rank ends that was killed: what it was doing, and its last call unless it was just being recorded.
killed='was killed by signal 9 \(Killed\); it was in [A-Zn][^;]*(; its last call is [a-z_]+ [0-9]+[^;]*, (issued|started|completed) [0-9.]+ s ago)?'
trap 'cd / && rm -rf "$scratch"' EXIT

fail() {
    failures=$((failures + 1))
    printf 'FAILED (%s line %s): %s\n' "${0##*/}" "${BASH_LINENO[$((${#BASH_LINENO[@]} - 2))]}" "$*"
}

finish() {
    [ "$failures" = 0 ] && exit 0
    printf '%d expectations failed\n' "$failures"
    exit 1
}

# Runs a command; afterwards its exit code is $code, its output lies in `stdout` and `stderr`.
run() {
    timeout 240 "$@" >stdout 2>stderr </dev/null
    code=$?
}

expect_exit() {
    [ "$code" = "$1" ] || fail "exit code $code, expected $1: $(head -c 400 stderr)"
}

# A line of a file (default: stderr) matches an extended regular expression.
expect_line() {
    grep -Eq -- "$1" "${2:-stderr}" || fail "no line of ${2:-stderr} matches '$1': $(tail -n 3 "${2:-stderr}")"
}

expect_no_line() {
    ! grep -Eq -- "$1" "${2:-stderr}" || fail "a line of ${2:-stderr} matches '$1'"
}

expect_lines() { # COUNT FILE
    local found
    found=$(wc -l <"$2")
    [ "$found" = "$1" ] || fail "$2 has $found lines, expected $1: $(head -n 5 "$2")"
}

expect_file() {
    [ -e "$1" ] || fail "$1 is missing"
}

expect_no_file() {
    [ ! -e "$1" ] || fail "$1 was left behind"
}

expect_none() { # WHAT TEXT
    [ -z "$2" ] || fail "$1: $2"
}

expect_same() {
    cmp -s "$1" "$2" || fail "$1 and $2 differ"
}

# Every line of a file is one JSON object whose braces and quotes close. awk is the only parser installed.
expect_json_lines() { # FILE
    awk '{
        depth = 0; quoted = 0; n = length($0)
        for (i = 1; i <= n; i++) {
            c = substr($0, i, 1)
            if (quoted) { if (c == "\\") i++; else if (c == "\"") quoted = 0; continue }
            if (c == "\"") quoted = 1
            if (c == "{" || c == "[") depth++
            if (c == "}" || c == "]") depth--
            if (depth == 0 && i < n) exit 1
        }
        if (quoted || depth || $0 !~ /^{.*}$/ || $0 ~ /[:,] *(nan|inf|-nan|-inf|,|})/) exit 1
    }' "$1" || fail "$1 is not a JSON object a line: $(head -c 300 "$1")"
}

# The command must succeed.
ok() {
    run "$@"
    [ "$code" = 0 ] || fail "exit code $code of '$*': $(tail -n 3 stderr)"
}

# refused CODE REGEX COMMAND...: that exit code, exactly one line on stderr, which matches, nothing on
# stdout, and the run's folder `out` not made.
refused() {
    local expected=$1 pattern=$2
    shift 2
    rm -rf out
    run "$@"
    [ "$code" = "$expected" ] || fail "exit code $code, expected $expected, of '$*': $(head -c 400 stderr)"
    [ "$(wc -l <stderr)" = 1 ] || fail "$(wc -l <stderr) lines on stderr, expected 1, of '$*': $(head -c 400 stderr)"
    grep -Eq -- "$pattern" stderr || fail "'$*' says '$(head -c 400 stderr)', expected '$pattern'"
    [ ! -s stdout ] || fail "'$*' printed: $(head -c 100 stdout)"
    [ ! -e out ] || fail "'$*' left a folder behind"
}

# ---- Text, tokens, jobs

# 60 documents of 60 words from a vocabulary of 20, one JSON object a line.
make_text() {
    awk 'BEGIN {
        words = split("the sea oar bank ship row wind salt mast deck rope team pull sail night star port wave gull keel", w, " ")
        x = 7
        for (d = 0; d < 60; d++) {
            line = ""
            for (i = 0; i < 60; i++) {
                x = (x * 1103515245 + 12345) % 2147483648
                line = line w[int(x / 65536) % words + 1] (i % 9 == 8 ? ". " : " ")
            }
            print "{\"text\": \"" line "\"}"
        }
    }' >text.jsonl
}

# toy and toy_valid: token shards of that text, vocabulary 320.
make_data() {
    make_text
    ok "$trireme" data prepare --input text.jsonl --output-prefix toy --train-bpe 320 --append-eod \
        --valid-fraction 0.1 --quiet
}

# job.yaml: two ranks, a model of nine thousand parameters, no dropout, steps of two micro-batches.
make_job() { # MODEL-FIELDS (default: a gpt2)
    cat >job.yaml <<END
model: {${1:-family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0}}
data: {train: toy, valid: toy_valid, seq_len: 16}
train: {steps: 8, global_batch: 4, micro_batch: 1, save_every: 0, eval_every: 0, out: out}
optimizer: {lr: 1e-2}
lr_schedule: {name: constant, warmup_steps: 0}
launch: {ranks: 2}
END
}

# ---- Runs

train() { # ARGUMENTS...: trains job.yaml
    ok "$trireme" train job.yaml --quiet "$@"
}

# Prints "step loss" for every step event; of two events of a step, the later one.
losses() {
    sed -n 's/^{"event":"step","step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$1/log.jsonl" |
        awk '{ loss[$1] = $2; if ($1 > last) last = $1 } END { for (i = 1; i <= last; i++) if (i in loss) print i, loss[i] }'
}

expect_steps() { # RUN COUNT
    local found
    found=$(losses "$1" | wc -l)
    [ "$found" = "$2" ] || fail "$1 has $found steps in its log, expected $2"
}

expect_same_losses() {
    [ "$(losses "$1")" = "$(losses "$2")" ] || fail "the losses of $1 and $2 differ"
}

expect_near_losses() { # RUN RUN RELATIVE-ERROR
    losses "$1" >a.losses
    losses "$2" >b.losses
    paste -d ' ' a.losses b.losses | awk -v most="$3" '
        NF != 4 || $1 != $3 { bad = "the steps differ" }
        { d = ($2 - $4) / $2; if (d < 0) d = -d; if (!(d <= most)) bad = "step " $1 " " $2 " " $4 }
        END { if (NR == 0) bad = "no steps"; if (bad) print bad; exit bad != "" }' >difference ||
        fail "the losses of $1 and $2 are not within $3: $(cat difference)"
}

# Weights, optimizer state and config of the newest checkpoints of two runs are the same bytes.
expect_same_checkpoint() {
    local f
    for f in model.safetensors trireme/state.safetensors config.json; do
        expect_same "$1/checkpoints/latest/$f" "$2/checkpoints/latest/$f"
    done
}

# The step of the newest checkpoint of a run. The link `latest` may be older, if the run was killed before it was
# set.
newest_step() { # RUN
    ls "$1/checkpoints" | sed -n 's/^step-0*\([0-9]\)/\1/p' | sed 's/\.replaced$//' | sort -n | tail -n 1
}

# ---- Bytes

le64() { # NUMBER as 8 bytes
    local n=$1 i
    for i in 1 2 3 4 5 6 7 8; do
        printf "\\x$(printf %02x $((n & 255)))"
        n=$((n >> 8))
    done
}

patch() { # FILE OFFSET BYTES (as for printf)
    printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

safetensors() { # FILE HEADER DATA (as for printf)
    { le64 "${#2}" && printf '%s' "$2" && printf '%b' "$3"; } >"$1"
}

# points.safetensors: 48 points in 4 dimensions (fp32) and their class of 3 (uint8).
make_points() {
    safetensors "${1:-points.safetensors}" \
        '{"x":{"dtype":"F32","shape":[48,4],"data_offsets":[0,768]},"y":{"dtype":"U8","shape":[48],"data_offsets":[768,816]}}' \
        "$(awk 'BEGIN {
            split("00\\x00\\x00\\x00 00\\x00\\x80\\x3f 00\\x00\\x80\\xbf 00\\x00\\x00\\x3f 00\\x00\\x00\\x40", v, " ")
            x = 3
            for (i = 0; i < 192; i++) { x = (x * 1103515245 + 12345) % 2147483648; printf "\\x%s", v[int(x / 65536) % 5 + 1] }
            for (i = 0; i < 48; i++) printf "\\x0%d", int(i * 7 / 3) % 3
        }')"
}

# ---- Processes

now_ms() {
    local t=${EPOCHREALTIME/./}
    printf '%s' "$((t / 1000))"
}

children_of() {
    local f pid parent
    for f in /proc/[0-9]*/stat; do
        { read -r pid _ _ parent _ <"$f"; } 2>/dev/null && [ "$parent" = "$1" ] && printf '%s\n' "$pid"
    done
}

# The value that a variable had when the program of a process began.
variable_of() { # PID NAME
    tr '\0' '\n' <"/proc/$1/environ" | sed -n "s/^$2=//p"
}

# The process that a rank's starting process has forked for it. That of rank 0 also has one for the store.
rank_of() { # PID
    local pid
    for pid in $(children_of "$1"); do
        grep -q store "/proc/$pid/comm" || printf '%s\n' "$pid"
    done
}

# An address of the loopback network that no other test uses at this moment.
own_address() {
    printf '%s' "127.$(($$ / 62500 % 250 + 1)).$(($$ / 250 % 250 + 1)).$(($$ % 250 + 1))"
}

# Waits until a file has a line that matches. The limit is far above what a busy machine needs.
wait_for_line() { # REGEX FILE
    local deadline=$(($(now_ms) + 200000))
    until grep -Eq -- "$1" "$2" 2>/dev/null; do
        [ "$(now_ms)" -lt "$deadline" ] || {
            fail "$2 has no line '$1' after 200 s"
            return
        }
        sleep 0.02
    done
}

# Expects that all these processes end within so many milliseconds. A zombie has ended.
expect_gone() { # MILLISECONDS PID...
    local deadline=$(($(now_ms) + $1)) pid state
    shift
    for pid in "$@"; do
        while { read -r _ _ state _ <"/proc/$pid/stat"; } 2>/dev/null && [ "$state" != Z ]; do
            [ "$(now_ms)" -lt "$deadline" ] || {
                fail "process $pid is still there"
                break
            }
            sleep 0.01
        done
    done
}
