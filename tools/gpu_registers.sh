#!/usr/bin/env bash
# Prints what ptxas says of every kernel of the cuda device, and fails where a kernel that decides the speed
# of training would be slow:
#   tools/gpu_registers.sh [FILE.cu …]         compiles the files, by default all of src/device/cuda/ (many minutes)
#   tools/gpu_registers.sh --objects FOLDER    reads what ptxas said when the objects below FOLDER were built
#                                              (tools/ptxas_log.sh); it knows no widths. A test runs it
#
# A line holds: GPU, registers of a thread, bytes of spills (stored and loaded), bytes of stack, bytes of shared memory
# that is not asked for at the launch, width of the widest loads and stores of device memory in bytes, and the kernel.
# The limits:
#   - no kernel spills more than MOST_SPILLED
#   - the kernels that HOT matches read or write device memory 16 bytes at a time, in at least one of their forms
#     (others are for addresses that are not aligned)
#   - no kernel has shared memory of its own (gpu_shared is asked for at the launch)
# Exit status 77 where nvcc, or what it said, is not there.
set -u
cd "$(dirname "$0")/.." || exit 1
# Bytes that a kernel may spill: ptxas spills a value or two where a few registers less let one more block run.
MOST_SPILLED=32
HOT='^(norm_kernel|norm_wide_kernel|grad_kernel|each_kernel|convert_segments_kernel|update_kernel|squares_kernel|loss_kernel|embedding_kernel|attention_forward_kernel|attention_grad_.*kernel|reduce_packs|bias_parts_kernel|matmul_bias_kernel)'

folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT

find_nvcc() {
  NVCC=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
  if [ ! -x "$NVCC" ]; then
    echo "gpu_registers: no nvcc, nothing is checked" && exit 77
  fi
  PTXAS=$(dirname "$(readlink -f "$NVCC")")/ptxas
}

# The PTX of a file, and what ptxas says of it. A kernel's code does not depend on the GPU before ptxas.
compile() {
  local ptx=$folder/$(basename "$1").ptx
  "$NVCC" -std=c++20 -O3 -ptx -arch=compute_80 -Isrc "$1" -o "$ptx" || return 1
  for gpu in sm_80 sm_90; do
    "$PTXAS" -O3 -v -arch=$gpu "$ptx" -o "$folder/cubin" > "$folder/$(basename "$1").$gpu" 2>&1 || return 1
  done
}

# The widest access of each kernel in PTX: "MANGLED BYTES".
widths() {
  awk '/\.entry/ { match($0, /\.entry +[A-Za-z0-9_$]+/); name = substr($0, RSTART + 7, RLENGTH - 7); width[name] = 0 }
       /(ld|st)\.global/ {
         count = /\.v4\./ ? 4 : /\.v2\./ ? 2 : 1
         bytes = /\.[bfus]64[ \t]/ ? 8 : /\.[bfus]32[ \t]/ ? 4 : /\.[bfus]16[ \t]/ ? 2 : 1
         if (count * bytes > width[name]) width[name] = count * bytes
       }
       /cp\.async\.cg/ { width[name] = 16 }
       END { for (name in width) print name, width[name] }' "$1"
}

# Lines "GPU REGISTERS SPILLS STACK SHARED WIDTH MANGLED" from widths and from what ptxas said.
lines_of() {
  awk 'FILENAME == ARGV[1] { width[$1] = $2; next }
    /Compiling entry function/ { split($0, part, "\047"); name = part[2]; gpu = part[4] }
    /bytes stack frame/ { stack = $1; spills = $5 + $9 }
    /Used [0-9]+ registers/ {
      for (i = 1; i < NF; i++) if ($i == "Used") registers = $(i + 1)
      shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH - 11) : 0
      print gpu, registers, spills, stack, shared, name in width ? width[name] : "-", name
    }' "$@"
}

report() {
  local base=$folder/$(basename "$1")
  widths "$base.ptx" > "$base.widths"
  lines_of "$base.widths" "$base.sm_80" "$base.sm_90"
}

demangled() {
  c++filt | sed 's/ void / /; s/(anonymous namespace):://g'
}

if [ "${1-}" = --objects ]; then
  said=$(find "$2" -path '*src/device/cuda/*' -name '*.cu.o.ptxas')
  if [ -z "$said" ]; then
    echo "gpu_registers: no objects of nvcc in $2, nothing is checked" && exit 77
  fi
  # shellcheck disable=SC2086 # one file a word
  lines_of /dev/null $said | demangled > "$folder/all"
else
  find_nvcc
  [ $# -gt 0 ] || set -- src/device/cuda/*.cu
  for source in "$@"; do
    compile "$source" || { echo "gpu_registers: $source does not compile" >&2; exit 1; }
    report "$source" | demangled
  done > "$folder/all"
fi
printf '%-6s %9s %7s %6s %7s %6s  %s\n' gpu registers spills stack shared width kernel
failed=0
declare -A widest
while read -r gpu registers spills stack shared width kernel; do
  name=${kernel%%[\<\(]*} form=${kernel%(*}
  printf '%-6s %9s %7s %6s %7s %6s  %s\n' "$gpu" "$registers" "$spills" "$stack" "$shared" "$width" "$form"
  if [ "$spills" -gt $MOST_SPILLED ]; then
    echo "gpu_registers: $gpu: $form spills $spills bytes" >&2 && failed=1
  fi
  if [ "$shared" -gt 0 ]; then
    echo "gpu_registers: $name has $shared bytes of shared memory that no launch gives" >&2 && failed=1
  fi
  if [[ $name =~ $HOT ]] && [ "$width" != - ] && [ "$width" -ge "${widest[$name]:-0}" ]; then
    widest[$name]=$width
  fi
done < "$folder/all"
for name in "${!widest[@]}"; do
  if [ "${widest[$name]}" -lt 16 ]; then
    echo "gpu_registers: $name reads and writes at most ${widest[$name]} bytes at a time" >&2 && failed=1
  fi
done
exit $failed
