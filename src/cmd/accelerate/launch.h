// launch.h -- the flags of `trireme accelerate launch`, as they were given. Private to launch*.c.
#ifndef TRIREME_CMD_ACCELERATE_LAUNCH_H
#define TRIREME_CMD_ACCELERATE_LAUNCH_H

#include "cmd/command.h"
#include "config/dialect/dialect.h"

// Flags whose name is that of a key of the file are texts, which the dialect checks. NULL: not given.
typedef struct launch_request {
    const char *config_file, *tee, *log_dir, *role, *rdzv_backend, *rdzv_conf, *secret_file;
    int64_t max_restarts, threads; // -1: not given
    double monitor_s;
    bool cpu, multi_gpu, tpu, use_deepspeed, use_fsdp, use_parallelism_config, use_megatron_lm;
    bool quiet, module, no_python, debug, same_network, enable_cpu_affinity, downcast_bf16;
    const char *mixed_precision, *num_processes, *num_machines, *machine_rank, *gpu_ids;
    const char *main_process_ip, *main_process_port, *main_training_function, *mpirun_hostfile;
    const char *dynamo_backend, *dynamo_mode;
    bool dynamo_fullgraph, dynamo_dynamic, dynamo_regional, fp8_eval;
    struct {
        const char *config_file, *stage, *optimizer_device, *param_device, *optimizer_path;
        const char *param_path, *accumulation, *clipping, *init, *save, *hostfile, *exclude;
        const char *include, *launcher, *moe;
    } deepspeed;
    struct {
        const char *version, *offload, *min_params, *strategy, *reshard, *wrap, *layer, *backward;
        const char *state, *forward, *orig, *loading, *sync, *checkpointing, *checkpointing_offload;
    } fsdp;
    struct {
        const char *tp, *pp, *custom_fsdp, *no_load, *no_save, *eod, *overlap, *cpu, *precise;
        const char *last_layers, *micros, *sequence, *recompute, *sharded, *clipping, *grain;
        const char *method, *layers, *attention, *ep, *etp, *cp, *attention_dropout, *dropout;
        const char *softmax, *per_token, *rotary;
    } megatron;
    struct {
        const char *replicate, *shard, *tp, *cp, *cp_backend, *cp_exchange, *sp, *sp_backend;
        const char *sp_length, *sp_variable, *sp_attention;
    } axes;
    struct {
        const char *backend, *margin, *interval, *format, *history, *algo, *precision, *level;
        const char *gather, *pad;
    } fp8;
} launch_request;

// The command; launch_flags.c has its row.
int launch_run(int argc, char **argv);

// The environment of workers, each "NAME=value". Start with {0}; launch_variables_clear frees it.
typedef struct launch_variables {
    char **item; // [count]
    size_t count, room;
} launch_variables;
void launch_variables_clear(launch_variables *v);

// Adds the variable that makes the GPUs of gpu_ids visible, where it names some.
status launch_add_devices(const json_t *values, launch_variables *out, err *e);
// Adds the variables that Accelerate gives its workers, from `values` by dotted path (translation.effective). `simple`:
// one process without ranks. E_MEMORY.
status launch_add_variables(const launch_request *q, const json_t *values, bool simple,
                            launch_variables *out, err *e);

#endif
