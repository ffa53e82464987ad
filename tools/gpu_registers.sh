#!/usr/bin/env bash
# Prints what ptxas says of every kernel of the cuda device, and fails where a kernel that decides the speed
# of training would be slow:
#   tools/gpu_registers.sh [FILE.cu …]         compiles the files, by default all of src/device/cuda/ (many minutes)
#   tools/gpu_registers.sh --objects FOLDER    reads what the build of the objects below FOLDER kept
#                                              (tools/ptxas_log.sh). A test runs it
#
# A line holds: GPU, registers of a thread, bytes of spills (stored and loaded), bytes of stack, bytes of shared memory
# that is not asked for at the launch, width of the widest loads and stores of device memory in bytes, and the kernel.
# With --objects the widths are those of the instructions (LDG, STG, LDGSTS) that cuobjdump prints, where it and nvdisasm are
# installed beside nvcc or in PATH, and else those of the PTX. The limits:
#   - no kernel spills more than MOST_SPILLED; the kernels of HOT spill nothing and have no stack, but for MAY_SPILL
#   - every form of the kernels of HOT reads or writes device memory 16 bytes at a time, but for the forms of NARROW
#   - no kernel has shared memory of its own (gpu_shared is asked for at the launch)
# Exit status 77 where nvcc, or what it said, is not there: a build on a machine without a GPU makes PTX alone.
set -u
cd "$(dirname "$0")/.." || exit 1
# Bytes that a kernel may spill: ptxas spills a value or two where a few registers less let one more block run.
MOST_SPILLED=32
HOT=(norm_kernel norm_wide_kernel grad_kernel each_kernel convert_segments_kernel update_kernel squares_kernel loss_kernel
  embedding_kernel attention_forward_kernel attention_grad_keys_kernel attention_grad_queries_kernel reduce_packs
  bias_parts_kernel matmul_bias_kernel)
# Forms of these for addresses or rows that are not aligned to 16 bytes: ALIGNED is false, N is 1, or the unit of a copied row
# is one element. Dropout of such rows draws four words a thread and writes single elements.
NARROW=('^(norm_kernel|norm_wide_kernel|grad_kernel)<[^,]+, [^,]+, false, (true|false)>$'
  '^(bias_parts_kernel<[^,]+|embedding_kernel<[^,]+, [^,]+|matmul_bias_kernel<[^,]+, [^,]+), 1>$'
  '^loss_kernel<[^,]+, 1, (true|false), (true|false)>$'
  '^each_kernel<copy_rows_op<unsigned (int|short)> ?>$'
  '^each_kernel<dropout_counter_op<.*> ?>$')
# "GPU BYTES FORM" of hot kernels that may spill, all of them forms of norm gradients, which have all registers that a block of
# 512 threads can have: two for rows that are not aligned, and that of fp16 without an fp32 residual, which keeps one number
# of 64 bits. Other orders of its statements moved the spill to a form of bf16.
MAY_SPILL=('sm_80 8 grad_kernel<gpu_f16, gpu_f16, false, true>' 'sm_80 8 grad_kernel<gpu_bf16, gpu_bf16, false, true>'
  'sm_90 16 grad_kernel<gpu_f16, gpu_f16, true, true>')

folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT

find_nvcc() {
  NVCC=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
  [ -x "$NVCC" ] || return 1
  PTXAS=$(dirname "$(readlink -f "$NVCC")")/ptxas
  PATH=$PATH:$(dirname "$PTXAS")
}

# The PTX of a file, and what ptxas says of it. A kernel's code does not depend on the GPU before ptxas.
compile() {
  local ptx=$folder/$(basename "$1").ptx
  "$NVCC" -std=c++20 -O3 -ptx -arch=compute_80 -Isrc "$1" -o "$ptx" || return 1
  for gpu in sm_80 sm_90; do
    "$PTXAS" -O3 -v -arch=$gpu "$ptx" -o "$folder/cubin" > "$folder/$(basename "$1").$gpu" 2>&1 || return 1
  done
}

# The widest access of each kernel in PTX: "any MANGLED BYTES".
ptx_widths() {
  awk '/\.entry/ { match($0, /\.entry +[A-Za-z0-9_$]+/); name = substr($0, RSTART + 7, RLENGTH - 7); width[name] += 0 }
       /(ld|st)\.global/ {
         count = /\.v4\./ ? 4 : /\.v2\./ ? 2 : 1
         bytes = /\.[bfus]64[ \t]/ ? 8 : /\.[bfus]32[ \t]/ ? 4 : /\.[bfus]16[ \t]/ ? 2 : 1
         if (count * bytes > width[name]) width[name] = count * bytes
       }
       /cp\.async\.cg/ { width[name] = 16 }
       END { for (name in width) print "any", name, width[name] }' "$@"
}

# The widest access of each kernel in the instructions of objects: "GPU MANGLED BYTES".
sass_widths() {
  for object in "$@"; do cuobjdump -sass "$object" || return 1; done |
    awk '/code for sm_/ { gpu = $3 }
       /Function :/ { name = gpu " " $3; width[name] += 0 }
       match($0, /(LDG|STG|LDGSTS)\.[A-Z0-9._]*/) {
         op = substr($0, RSTART, RLENGTH)
         bytes = op ~ /\.128/ ? 16 : op ~ /\.64/ ? 8 : op ~ /\.[US]16/ ? 2 : op ~ /\.[US]8/ ? 1 : 4
         if (bytes > width[name]) width[name] = bytes
       }
       END { for (name in width) print name, width[name] }'
}

# Lines "GPU REGISTERS SPILLS STACK SHARED WIDTH MANGLED" from widths and from what ptxas said.
lines_of() {
  awk 'FILENAME == ARGV[1] { width[$1, $2] = $3; next }
    /Compiling entry function/ { split($0, part, "\047"); name = part[2]; gpu = part[4] }
    /bytes stack frame/ { stack = $1; spills = $5 + $9 }
    /Used [0-9]+ registers/ {
      for (i = 1; i < NF; i++) if ($i == "Used") registers = $(i + 1)
      shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH - 11) : 0
      wide = (gpu, name) in width ? width[gpu, name] : ("any", name) in width ? width["any", name] : "-"
      print gpu, registers, spills, stack, shared, wide, name
    }' "$@"
}

report() {
  local base=$folder/$(basename "$1")
  ptx_widths "$base.ptx" > "$base.widths"
  lines_of "$base.widths" "$base.sm_80" "$base.sm_90"
}

demangled() {
  c++filt | sed 's/ void / /; s/(anonymous namespace):://g'
}

failed=0
complain() {
  echo "gpu_registers: $*" >&2 && failed=1
}

# Is a kernel's name in HOT, a form in NARROW, and "GPU BYTES FORM" in MAY_SPILL?
is_hot() {
  [[ " ${HOT[*]} " == *" $1 "* ]]
}
is_narrow() {
  local pattern
  for pattern in "${NARROW[@]}"; do [[ $1 =~ $pattern ]] && return 0; done
  return 1
}
may_spill() {
  local one
  for one in "${MAY_SPILL[@]}"; do [ "$1" = "$one" ] && return 0; done
  return 1
}

# The limits of a kernel of HOT.
check_hot() { # GPU SPILLS STACK WIDTH FORM
  if [ $(($2 + $3)) -gt 0 ] && ! may_spill "$1 $2 $5"; then
    complain "$1: $5 spills $2 bytes and has $3 bytes of stack, and is one of HOT"
  fi
  if [ "$4" = - ]; then
    complain "$1: of $5 no width is known: neither cuobjdump nor the PTX of the build is here"
  elif [ "$4" -lt 16 ] && ! is_narrow "$5"; then
    complain "$1: $5 reads and writes at most $4 bytes at a time, and is not in NARROW"
  fi
}

if [ "${1-}" = --objects ]; then
  find_nvcc # for cuobjdump
  mapfile -t said < <(find "$2" -path '*src/device/cuda/*' -name '*.cu.o.ptxas')
  if [ ${#said[@]} = 0 ]; then
    echo "gpu_registers: no objects of nvcc in $2, nothing is checked" && exit 77
  fi
  if ! grep -qs 'Used [0-9]* registers' "${said[@]}"; then
    echo "gpu_registers: the objects in $2 hold PTX alone, nothing is checked" && exit 77
  fi
  if command -v cuobjdump nvdisasm > "$folder/tools" && [ "$(wc -l < "$folder/tools")" = 2 ]; then
    echo "widths: instructions, by cuobjdump"
    sass_widths "${said[@]%.ptxas}" > "$folder/widths" || complain "cuobjdump failed"
  else
    echo "widths: PTX (there is no cuobjdump with nvdisasm)"
    mapfile -t ptx < <(find "$2" -path '*src/device/cuda/*' -name '*.cu.o.ptx')
    ptx_widths "${ptx[@]:-/dev/null}" > "$folder/widths"
  fi
  lines_of "$folder/widths" "${said[@]}" | demangled > "$folder/all"
else
  if ! find_nvcc; then
    echo "gpu_registers: no nvcc, nothing is checked" && exit 77
  fi
  [ $# -gt 0 ] || set -- src/device/cuda/*.cu src/device/cuda/*/*.cu
  for source in "$@"; do
    compile "$source" || { echo "gpu_registers: $source does not compile" >&2; exit 1; }
    report "$source" | demangled
  done > "$folder/all"
fi
printf '%-6s %9s %7s %6s %7s %6s  %s\n' gpu registers spills stack shared width kernel
declare -A wide
while read -r gpu registers spills stack shared width kernel; do
  name=${kernel%%[\<\(]*} form=${kernel%(*}
  printf '%-6s %9s %7s %6s %7s %6s  %s\n' "$gpu" "$registers" "$spills" "$stack" "$shared" "$width" "$form"
  [ "$spills" -le $MOST_SPILLED ] || complain "$gpu: $form spills $spills bytes"
  [ "$shared" = 0 ] || complain "$name has $shared bytes of shared memory that no launch gives"
  if is_hot "$name"; then
    check_hot "$gpu" "$spills" "$stack" "$width" "$form"
    [ "$width" != 16 ] || wide[$name]=yes
  fi
done < "$folder/all"
# The names above are those of kernels.
if [ "${1-}" = --objects ]; then
  for name in "${HOT[@]}"; do
    [ -n "${wide[$name]-}" ] || complain "no form of $name reads or writes 16 bytes at a time"
  done
fi
exit $failed
