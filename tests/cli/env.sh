# env.sh -- `trireme env`: its sections, the versions of Python's packages, and that it shows no secret.
. "$(dirname "$0")/lib.sh" "$1"
mkdir -p home/.cache/huggingface/accelerate bin
export HOME=$PWD/home
unset HF_HOME

ok env NCCL_DEBUG=INFO HF_TOKEN=hf_abc123 TRIREME_SECRET=abc123 SLURM_JWT_KEY=abc123 HTTPS_PROXY=http://me:abc123@proxy NCCL_IB_HCA= "$trireme" env
for section in Trireme System CPU Memory Limits GPU Variables; do expect_line "^$section$" stdout; done
expect_line "^  version +$("$trireme" --version | sed 's/trireme //')$" stdout
expect_line '^  CUDA +(not )?built in$' stdout
expect_line '^  communicators +local ' stdout
expect_line '^  libc +glibc [0-9.]+$' stdout
expect_line '^  kernels in use +(generic|avx2|avx512|amx)' stdout
expect_line '^  total +[0-9.]+ [KMGT]iB$' stdout
expect_line '^  devices +none: ' stdout
expect_line '^  NCCL_DEBUG +INFO$' stdout
expect_line '^  NCCL_IB_HCA +\(empty\)$' stdout
for name in HF_TOKEN TRIREME_SECRET SLURM_JWT_KEY HTTPS_PROXY; do
    expect_line "^  $name +\(set, its value is not shown\)$" stdout
done
expect_no_line 'abc123' stdout
expect_no_line '^Python$' stdout
expect_no_line '^  HOME' stdout

# The same facts, as `accelerate env` has them.
platform=$("$trireme" accelerate env | sed -n 's/^- Platform: Linux-\(.*\)-[a-z0-9_]*-with-glibc.*/\1/p')
expect_line "^  kernel +Linux $platform$" stdout

printf 'distributed_type: MULTI_GPU\nnum_processes: 2\nuse_cpu: false\n' >home/.cache/huggingface/accelerate/default_config.yaml
ok env HF_TOKEN=hf_abc123 "$trireme" env --json
expect_json_lines stdout
expect_line '"Trireme":\{"version":"[0-9.]+"' stdout
expect_line '"HF_TOKEN":"\(set, its value is not shown\)"' stdout
expect_line "\"Accelerate's configuration\":\{\"file\":\"[^\"]*default_config.yaml\".*\"distributed_type\":\"MULTI_GPU\",\"use_cpu\":\"False\"" stdout

# A python3 that says what the real one would, and one that is none.
printf '#!/bin/sh\necho python3 3.11.2 at /usr/bin/python3\necho torch 2.4.0\necho deepspeed not installed\n' >bin/python3
chmod +x bin/python3
ok env PATH="$PWD/bin:$PATH" "$trireme" env --python
expect_line '^Python$' stdout
expect_line '^  python3 +3.11.2 at /usr/bin/python3$' stdout
expect_line '^  torch +2.4.0$' stdout
expect_line '^  deepspeed +not installed$' stdout
printf '#!/bin/sh\nexit 1\n' >bin/python3
ok env PATH="$PWD/bin:$PATH" "$trireme" env --python
expect_line '^  python3 +not found, or it does not run$' stdout
refused 2 "unknown flag" "$trireme" env --jsom
finish
