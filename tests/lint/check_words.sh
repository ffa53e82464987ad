#!/bin/sh
# The tree uses the words of docs/glossary.md: a word that was replaced by the field's word does not come back.
# Each row of the table below has a scope, a retired word as an extended regular expression, and the word to use.
#   check_words.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

# SCOPE is a path below ROOT, or "." for every file that people read or write.
rows() {
    sed 's/  */ /g' <<'END'
. (WHOLE|SHARDED)                                                   | REPLICATE, SHARD
. (LEVEL_(WHOLE|BOTH|GROUP)|TIERED_?[A-Z]*)             | LAYOUT_…, PLAN_…
. (MOVE|LINK)_[A-Z_]+                                               | REDISTRIBUTE_…, GROUP_…
. PLACE_[A-Z]+                                                      | REGION_…
. (FETCH|FLUSH|GATHER|CLAIM|TIE|PUBLISH)                            | SWAP_IN, SWAP_OUT, UNSHARD, ALLOC_GRAD, REDUCE_TIED_GRAD, ALL_GATHER_UPDATED
. (LOAD|KEEP|RELEASE|CLIP|UPDATE) (micro|bucket)                    | LOAD_BATCH, RESHARD_POST_FORWARD, RESHARD, CLIP_GRAD_NORM, OPTIMIZER_STEP
. word [WRPS][WRPS][WRPS]                                           | weight S, gradient P, optimizer S
. twins?                                                            | tied gradients
. crew                                                              | workers
. bell                                                              | doorbell
src/comm lanes?                                                     | channel
. (ladder|climbs?|climbed)                                          | memory fit (search)
. (proof|proofs|prove|proves|proved|proven)                         | verify
. stand(s|ing)? still|standstill                                    | deadlock
. keepers                                                           | slots
. uncuttable                                                        | not divisible
. (dout|din)                                                        | output gradient, input gradient
. (spare|spares)                                                    | activation-gradient buffer
. touched                                                           | grad_written
. blank[ _]rows                                                     | padding rows
src/train windows?                                                  | staging buffer
src/parallel neighbours                                             | post-forward group
. idle[ _]share                                                     | bubble
. idle in closed form|idle [0-9.]+ % (in closed form|simulated)     | bubble (analytic, simulated, measured)
. goes on from                                                      | resuming from
. said aloud                                                        | warning
. of matmul rate                                                    | mfu
END
}

check() {
    bad=0
    rows >"$scratch/rows"
    while IFS= read -r row; do
        scope=${row%% *}
        rest=${row#* }
        words=${rest%% | *}
        [ -e "$1/$scope" ] || continue
        if (cd "$1" && grep -rnwE "($words)" "$scope" --include='*.[ch]' --include='*.sh' --include='*.md' \
            --include='*.yaml' --include='*.cmake' --include=CMakeLists.txt --exclude=CHANGELOG.md --exclude=check_words.sh \
            --exclude-dir=results --exclude-dir='build*' --exclude-dir=corpus --exclude-dir=.git) >"$scratch/found"; then
            sed "s!\$!   (retired: say ${rest##* | })!" "$scratch/found"
            bad=1
        fi
    done <"$scratch/rows"
    return $bad
}

mkdir -p "$scratch/tree/src/comm" "$scratch/tree/src/device"
echo '// UNSHARD bucket 0 into weight slot 0; eight SIMD lanes' >"$scratch/tree/src/device/a.c"
control_passes "$scratch/tree"
# Every row refuses its own word.
for word in WHOLE TIERED_WEIGHTS MOVE_ALL_REDUCE PLACE_WORK GATHER 'UPDATE bucket' 'word SPS' twin crew bell ladder proved \
    'stands still' keepers uncuttable dout spare touched 'blank rows' 'idle share' 'idle 11.1 % in closed form' 'goes on from' \
    'said aloud' 'of matmul rate'; do
    echo "// the $word of a bucket" >"$scratch/tree/src/device/b.c"
    control_fails "$scratch/tree" retired
done
rm "$scratch/tree/src/device/b.c"
echo '// the lane' >"$scratch/tree/src/comm/a.c"
control_fails "$scratch/tree" 'say channel'

control_verdict "no retired word"
