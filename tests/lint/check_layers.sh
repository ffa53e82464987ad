#!/bin/sh
# A folder includes only lower tiers and its own headers (ARCHITECTURE.md). Only device/ includes
# device/cpu/ and device/cuda/, and only device/cuda/ headers of CUDA. Only api/ includes trireme.h. parallel/ only plans, so it includes no kernels of
# device/ and of comm/ only the plain data of segment.h and call.h. The check ignores headers of other libraries.
#   check_layers.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

check() {
    (cd "$1" && find src -name '*.[ch]' -o -name '*.cu' | sort | xargs grep -Hn '^ *# *include *["<]') | awk '
        BEGIN {
            n = split("base 0 jinja 1 device 1 net 1 rendezvous 2 store 2 comm 3 graph 4 parallel 4 model 5 optim 5 " \
                      "data 5 ckpt 5 train 6 config 6 monitor 6 doctor 6 diagnose 6 infer 7 convert 7 planner 7 launch 8 session 9 cmd 10 api 10", word, " ")
            for (i = 1; i < n; i += 2) tier[word[i]] = word[i + 1]
        }
        {
            split($0, part, ":")
            split(part[1], path, "/")
            from = path[2]
            match($0, /["<][^">]*[">]/)
            outer = substr($0, RSTART, 1) == "<"
            name = substr($0, RSTART + 1, RLENGTH - 2)
            where = part[1] ":" part[2] ": "
            to = name
            sub(/\/.*/, "", to)
        }
        outer && name ~ /^(cu|nccl|nvml|vector_types)/ && part[1] !~ /^src\/device\/cuda\// {
            say("include <" name ">: headers of CUDA are for device/cuda/ alone")
        }
        outer { next }
        name == "gpu_stand_in.h" && part[1] == "src/device/cuda/gpu.h" { next }
        !(from in tier) { say("folder " from " has no tier here"); next }
        name == "trireme.h" { if (from != "api") say("trireme.h is for users; only api/ includes it"); next }
        !(to in tier) || to == name { say("include \"" name "\": valid is \"folder/file.h\""); next }
        from == to { next }
        from == "parallel" && (to == "comm" && name !~ /^comm\/(call|segment)\.h$/ || name == "device/kernels.h") {
            say("include \"" name "\": parallel/ plans; what executes is in train/")
            next
        }
        name ~ /^device\/(cpu|cuda)\// { say("include \"" name "\": its folder is seen by device/ alone"); next }
        tier[to] >= tier[from] {
            say("include \"" name "\": " to " is of tier " tier[to] ", " from " is of tier " tier[from])
        }
        function say(what) { print where what; bad = 1 }
        END { exit bad }
    '
}

# tree NAME FILE INCLUDED: one file with one include.
tree() {
    mkdir -p "$(dirname "$scratch/$1/src/$2")"
    printf '#include "%s"\n#include <stdio.h>\n' "$3" >"$scratch/$1/src/$2"
}

tree up optim/clip.c train/trainer.h
control_fails "$scratch/up" 'train is of tier 6, optim is of tier 5'
tree sideways data/loader.c ckpt/ckpt.h
control_fails "$scratch/sideways" 'src/data/loader.c:1:'
tree inside graph/execute.c device/cpu/ref/ref.h
control_fails "$scratch/inside" 'seen by device/ alone'
tree inside2 comm/p2p/p2p.c device/cuda/cuda_own.h
control_fails "$scratch/inside2" 'seen by device/ alone'
tree toolkit device/device.c device/device.h
echo '#include <cuda_runtime_api.h>' >>"$scratch/toolkit/src/device/device.c"
control_fails "$scratch/toolkit" 'headers of CUDA'
tree new novel/cost.c base/err.h
control_fails "$scratch/new" 'has no tier'
tree bare comm/comm.c comm.h
control_fails "$scratch/bare" 'valid is "folder/file.h"'
tree public train/step.c trireme.h
control_fails "$scratch/public" 'only api/'
tree plans parallel/plan.h comm/comm.h
control_fails "$scratch/plans" 'parallel/ plans'
tree launches parallel/plan.c device/kernels.h
control_fails "$scratch/launches" 'parallel/ plans'
tree good parallel/hook.c comm/segment.h
tree good train/step.c parallel/plan.h
tree good device/cpu/ref/ref_norm.c device/cpu/ref/ref.h
tree good device/cuda/cuda_norm.cu device/cuda/gpu.h
echo '#include <cuda_runtime_api.h>' >>"$scratch/good/src/device/cuda/cuda_norm.cu"
control_passes "$scratch/good"

control_verdict "every folder includes lower tiers and its own headers only"
