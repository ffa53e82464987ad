# help.sh -- help, manual and completion come from one table: every command, flag and key has a sentence.
. "$(dirname "$0")/lib.sh" "$1"
make_job 'family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16'
sed -i 's/toy_valid/mock/; s/toy/mock/' job.yaml

# Prints the commands of the list, as "name of command: sentence".
listed() {
    awk '/^  [a-z]/ { print substr($0, 3) }' list
}
names() { # of a listing: the text before the first two spaces
    sed -E 's/ (  *)?[A-Z].*//; s/ +$//'
}
# Every line is a sentence: a capital, a full stop, three words or more.
expect_sentences() { # WHAT FILE
    expect_none "no sentence in $1" "$(awk '!/^[A-Z][^.]* [^ ]+ .*\.$/' "$2" | head -n 3)"
}

# ---- Commands
ok "$trireme" help
cp stdout list
listed | names >commands
for name in train explain plan 'data prepare' 'data inspect' generate eval 'checkpoint show' 'checkpoint verify' 'checkpoint export' 'checkpoint import' chat curve top report 'bench all_reduce' 'bench train' 'bench scaling' 'bench link' smoke doctor env topo run torchrun launch deepspeed 'accelerate config' 'accelerate env' 'accelerate estimate-memory' help completion; do
    grep -qx "$name" commands || fail "help does not list $name"
done
grep '^  [a-z]' list | sed -E 's/^  [^A-Z]*//' >sentences
expect_sentences 'the list of commands' sentences
for ways in '--help' '-h' ''; do
    run "$trireme" $ways
    cat stdout stderr >said
    expect_same said list
done
expect_exit 2 # without arguments
expect_lines 0 stdout

while read -r name; do
    ok "$trireme" $name --help
    expect_lines 0 stderr
    expect_line "^usage: trireme $name" stdout
    cp stdout long
    for ways in "help $name" "$name -h" "$name somewhere -h" "$name --json --help"; do
        # What follows the name of a program is the program's own.
        case $ways in 'run somewhere -h' | 'torchrun somewhere -h' | 'launch somewhere -h' | 'deepspeed somewhere -h' | 'accelerate launch somewhere -h') continue ;; esac
        ok "$trireme" $ways
        expect_same stdout long
    done
    # Flags, each with its sentence below; continued lines are joined.
    awk '/^  -/ { if (s) print s; s = ""; next } /^        / { sub(/^ +/, ""); s = s (s ? " " : "") $0; next } { if (s) print s; s = "" } END { if (s) print s }' long >sentences
    [ ! -s sentences ] || expect_sentences "the flags of $name" sentences
done <commands
for group in data checkpoint bench; do
    ok "$trireme" $group --help
    expect_line "^usage: trireme $group COMMAND" stdout
    cp stdout long
    ok "$trireme" help $group
    expect_same stdout long
    run "$trireme" $group
    expect_exit 2
    expect_same stderr long
done
refused 2 "there is no command 'data inspekt', did you mean 'inspect'" "$trireme" data inspekt toy
refused 2 "there is no command 'bench trian', did you mean 'train'" "$trireme" bench trian
refused 2 "there is no command 'bench --frobnicate'; .trireme help bench. lists them" "$trireme" bench --frobnicate
refused 2 "there is no command 'trian'" "$trireme" help trian
refused 2 'the job file is missing: trireme train JOB.yaml' "$trireme" train
refused 2 'the job file is missing: trireme plan JOB.yaml' "$trireme" plan --json

# The value of a flag is never taken for a request for help.
refused 2 'nowhere' "$trireme" generate --prompt -h --model nowhere

# ---- Keys
ok "$trireme" train --help
awk '/^model$/ { keys = 1 } keys' stdout >keys
grep -E '^  [a-z]' keys | awk '{ print $1 }' >names
[ "$(wc -l <names)" -gt 120 ] || fail "only $(wc -l <names) keys"
awk '/^      [^ ]/ { sub(/^ +/, ""); print }' keys >sentences
[ "$(wc -l <names)" = "$(wc -l <sentences)" ] || fail 'not one sentence a key'
expect_sentences 'the keys' sentences
# shellcheck disable=SC2046
for key in $(awk 'NR % 7 == 1' names) train.steps parallel.dp; do
    ok "$trireme" train --help "$key"
    expect_line "^$key\$" stdout
    expect_line '^  default  ' stdout
    expect_line '^  valid  ' stdout
    cp stdout long
    ok "$trireme" help "$key"
    expect_same stdout long
    ok "$trireme" explain --help="$key"
    expect_same stdout long
done
ok "$trireme" help train.steps
expect_line '^  type +whole number$' stdout
expect_line '^  unit +optimizer steps$' stdout
expect_line '^  valid +a whole number from 1 to 1000000000000000$' stdout
ok "$trireme" help optimizer.momentum
expect_line '^  read with +optimizer.name sgd$' stdout
ok "$trireme" help model.n_embd
expect_line '^model.hidden$' stdout
ok "$trireme" help lr_schedule
expect_line '^  lr_schedule.min_ratio ' stdout
expect_no_line 'train.steps ' stdout
ok "$trireme" train job.yaml --help train.steps
expect_line '^  here +8 \(origin: job.yaml:3\)$' stdout
ok "$trireme" train job.yaml --quiet --train.steps 9 --help train.steps
expect_line '^  here +9 \(origin: command line\)$' stdout
ok "$trireme" explain job.yaml --json --help optimizer.momentum
expect_line '^  here +not read by this job$' stdout
refused 2 '^trireme: --help: train.step: unknown key; did you mean train.steps\?$' "$trireme" train --help train.step
refused 2 '^trireme: --help: topk: no flag of trireme generate; did you mean top-k\?$' "$trireme" generate --help topk
ok "$trireme" generate --help top-k
expect_line '^  --top-k K$' stdout
run "$trireme" train nowhere.yaml --help train.steps
expect_exit 2
expect_line '^train.steps$' stdout
expect_line 'nowhere.yaml'

# ---- Large numbers: every range has an end
refused 2 '^trireme: --train.steps: found 1e18; valid: a whole number from 1 to 1000000000000000$' "$trireme" train job.yaml --train.steps 1e18
refused 2 '^trireme: --train.epochs: found 1e10; valid: a number > 0, at most 1.*$' "$trireme" train job.yaml --train.epochs 1e10
refused 2 '^trireme: --train.tokens: found 1e19; valid: a whole number from 1 to 1000000000000000$' "$trireme" train job.yaml --train.tokens 1e19
refused 2 '^trireme: --checks.watchdog: found 1e12s; valid: .*at most 1000000000s' "$trireme" train job.yaml --checks.watchdog 1e12s
refused 2 '^trireme: --tokens: found 1e30, valid is a whole number from 0 to 9223372036854775807$' "$trireme" generate --tokens 1e30

# ---- The manual
ok "$trireme" help --man
cp stdout trireme.1
for name in '.SH COMMANDS' '.SS trireme data prepare' '.SS trireme bench all_reduce' '.SH EXIT STATUS'; do
    grep -qxF -- "$name" trireme.1 || fail "the manual has no $name"
done
while read -r key; do
    grep -qF -- "\\fB$key\\fR (" trireme.1 || fail "the manual does not hold $key"
done <names
if command -v groff >/dev/null; then
    groff -man -ww -Tutf8 -Kutf8 trireme.1 >page 2>warnings || fail 'groff does not read the manual'
    expect_lines 0 warnings
fi
if command -v man >/dev/null; then
    MANWIDTH=100 man -l ./trireme.1 >page 2>warnings || fail 'man does not read the manual'
    expect_line 'global_batch' page
fi

# ---- Completion
completed() { # WORDS...: what bash offers for the last
    PATH=$(dirname "$trireme"):$PATH bash -c '
        . ./trireme.bash
        COMP_WORDS=(trireme "$@") COMP_CWORD=$#
        _trireme
        printf "%s\n" "${COMPREPLY[@]}"' bash "$@" >offered
}
offers() { # WORD...: all of them are offered
    local word
    for word in "$@"; do grep -qx -- "$word" offered || fail "'$word' is not offered but $(tr '\n' ' ' <offered)"; done
}
ok "$trireme" completion bash
cp stdout trireme.bash
bash -n trireme.bash || fail 'the bash script is broken'
ok "$trireme" completion zsh
expect_line '^#compdef trireme$' stdout
! command -v zsh >/dev/null || zsh -n stdout || fail 'the zsh script is broken'
refused 2 "completion: found 'fish'; valid: bash, zsh" "$trireme" completion fish
completed ''
offers train run explain data bench help smoke doctor env topo
completed da
[ "$(cat offered)" = data ] || fail "offered for da: $(cat offered)"
completed data ''
offers prepare inspect
completed bench all
offers all_reduce all_gather
completed generate --t
offers --tokens --temperature --top-k --top-p --threads
completed generate --precision ''
offers fp32 bf16
completed train --train.
sed -n 's/^train\./--&/p' names >all_train
sort offered >offered.sorted
sort all_train >expected
expect_same offered.sorted expected
completed train --group # the keys of an entry are no flags
[ "$(cat offered)" = --groups ] || fail "offered for --group: $(tr '\n' ' ' <offered)"
completed train --help groups.w
offers groups.weight_decay
completed train job.yaml --res
offers --resume
completed train --train.precision b
offers bf16
completed train --train.micro_batch a
offers auto
completed train --train.precision = f
offers fp32 fp16
completed train --help optimizer.l
offers optimizer.lr optimizer.lr_scaling
completed help parallel.d
offers parallel.dp parallel.dp_shard
completed help bench t
offers train tier
completed completion ''
offers bash zsh
ok "$trireme" completion words -- train --train.precision=f
expect_line '^--train.precision=fp32$' stdout
finish
