// metrics.h -- the numbers of a run for Prometheus: read from the run's folder, and written in Prometheus's text format
// 0.0.4. The exporter serves them, and writes them into a file. They know neither HTTP nor the job.
//
// Counters that the records of ranks do not keep, such as the seconds of a phase, are summed here from step to step. So
// whoever exports them looks often (metrics_refresh): a record keeps the last SPANS_STEPS steps.
#ifndef TRIREME_MONITOR_METRICS_METRICS_H
#define TRIREME_MONITOR_METRICS_METRICS_H

#include "base/text.h"

// Every metric: its name, its type, and its help. The names and labels of NCCL Inspector and of dcgm-exporter are theirs, so that
// dashboards that are made for them show runs of Trireme.
#define METRIC_LIST(METRIC)                                                                        \
    METRIC(RUN_INFO, "trireme_run_info", GAUGE, "What the run trains; the value is 1.")            \
    METRIC(RUNNING, "trireme_running", GAUGE, "Whether a rank of the run on this host runs.")      \
    METRIC(RANKS, "trireme_ranks", GAUGE, "Ranks of the run.")                                     \
    METRIC(STEP, "trireme_step", GAUGE, "Optimizer steps that the run has finished.")              \
    METRIC(STEPS_PLANNED, "trireme_steps_planned", GAUGE, "Optimizer steps of the job.")           \
    METRIC(LOSS, "trireme_loss", GAUGE, "Loss of the last step, before its update.")               \
    METRIC(GRAD_NORM, "trireme_grad_norm", GAUGE, "Gradient norm of the last step, unclipped.")    \
    METRIC(GROUP_GRAD_NORM, "trireme_group_grad_norm", GAUGE,                                      \
           "Gradient norm of a parameter group in the last step, unclipped.")                      \
    METRIC(LR, "trireme_learning_rate", GAUGE, "Learning rate of the last step.")                  \
    METRIC(TOKENS, "trireme_tokens_total", COUNTER, "Tokens that the run has trained on.")         \
    METRIC(RATE, "trireme_tokens_per_second", GAUGE, "Throughput of the last step, all ranks.")    \
    METRIC(MFU, "trireme_mfu_ratio", GAUGE, "FLOP/s of the last step over the matmul peak.")       \
    METRIC(STEP_SECONDS, "trireme_step_seconds", HISTOGRAM, "Durations of steps.")                 \
    METRIC(SKIPPED, "trireme_skipped_steps_total", COUNTER, "Steps without an update.")            \
    METRIC(EVALS, "trireme_evaluations_total", COUNTER, "Evaluations.")                            \
    METRIC(EVAL_LOSS, "trireme_evaluation_loss", GAUGE, "Loss of the last evaluation.")            \
    METRIC(SAVES, "trireme_checkpoints_total", COUNTER, "Checkpoints written.")                    \
    METRIC(SAVE_SECONDS, "trireme_checkpoint_seconds_total", COUNTER,                              \
           "Seconds in which checkpoints were written.")                                           \
    METRIC(SAVE_BYTES, "trireme_checkpoint_bytes", GAUGE, "Bytes of the last checkpoint.")         \
    METRIC(RANK_RUNNING, "trireme_rank_running", GAUGE, "Whether the process of the rank runs.")   \
    METRIC(PHASE_SECONDS, "trireme_phase_seconds_total", COUNTER,                                  \
           "Seconds of the rank by what it did.")                                                  \
    METRIC(WAITED, "trireme_waited_seconds_total", COUNTER,                                        \
           "Seconds that the rank has waited for later ranks.")                                    \
    METRIC(WAITED_FOR, "trireme_waited_for_seconds_total", COUNTER,                                \
           "Of these, by the last rank to come; the largest eight.")                               \
    METRIC(MEMORY, "trireme_memory_bytes", GAUGE, "Memory of the rank.")                           \
    METRIC(MEMORY_PEAK, "trireme_memory_peak_bytes", GAUGE, "The most so far.")                    \
    METRIC(PLAN_BYTES, "trireme_plan_bytes", GAUGE, "Memory of the rank as planned.")              \
    METRIC(STEP_FLOPS, "trireme_step_flops", GAUGE, "FLOPs of the rank in a step.")                \
    METRIC(COLLECTIVE_BANDWIDTH, "nccl_bus_bandwidth_gbs", GAUGE,                                  \
           "Bus bandwidth of collectives after the last rank has come, in GB/s.")                  \
    METRIC(COLLECTIVE_TIME, "nccl_collective_exec_time_microseconds", GAUGE,                       \
           "Mean duration of collectives, waits included.")                                        \
    METRIC(MESSAGE_BANDWIDTH, "nccl_p2p_bus_bandwidth_gbs", GAUGE,                                 \
           "Bandwidth of messages after both ranks have come, in GB/s.")                           \
    METRIC(MESSAGE_TIME, "nccl_p2p_exec_time_microseconds", GAUGE,                                 \
           "Mean duration of messages, waits included.")                                           \
    METRIC(GPU_SM_CLOCK, "DCGM_FI_DEV_SM_CLOCK", GAUGE, "SM clock frequency (in MHz).")            \
    METRIC(GPU_MEM_CLOCK, "DCGM_FI_DEV_MEM_CLOCK", GAUGE, "Memory clock frequency (in MHz).")      \
    METRIC(GPU_TEMP, "DCGM_FI_DEV_GPU_TEMP", GAUGE, "GPU temperature (in C).")                     \
    METRIC(GPU_POWER, "DCGM_FI_DEV_POWER_USAGE", GAUGE, "Power draw (in W).")                      \
    METRIC(GPU_ENERGY, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", COUNTER,                            \
           "Energy since boot (in mJ).")                                                           \
    METRIC(GPU_REPLAYS, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", COUNTER, "PCIe retries.")               \
    METRIC(GPU_UTIL, "DCGM_FI_DEV_GPU_UTIL", GAUGE, "GPU utilization (in %).")                     \
    METRIC(GPU_MEM_UTIL, "DCGM_FI_DEV_MEM_COPY_UTIL", GAUGE, "Memory utilization (in %).")         \
    METRIC(GPU_FREE, "DCGM_FI_DEV_FB_FREE", GAUGE, "Framebuffer memory free (in MiB).")            \
    METRIC(GPU_USED, "DCGM_FI_DEV_FB_USED", GAUGE, "Framebuffer memory used (in MiB).")
#define METRIC_ENUMERATOR(NAME, name, type, help) METRIC_##NAME,
typedef enum metric { METRIC_LIST(METRIC_ENUMERATOR) METRICS } metric;
#undef METRIC_ENUMERATOR

typedef enum metric_type {
    METRIC_TYPE_GAUGE,
    METRIC_TYPE_COUNTER,
    METRIC_TYPE_HISTOGRAM
} metric_type;
typedef struct metric_row {
    const char *name;
    metric_type type;
    const char *help;
} metric_row;
const metric_row *metric_row_of(metric m);

typedef struct metrics metrics;
typedef struct metrics_devices metrics_devices;

typedef struct metrics_options {
    const char *folder; // of the run; it need not exist yet. Borrowed.
    // The ranks of the machine with this boot id alone, so that two hosts that see one folder export each rank once. NULL:
    // all ranks. Borrowed.
    const char *boot;
    bool of_run; // also what is of the whole run: step, loss, …; one exporter of a run does
    const metrics_devices *devices; // the GPUs of this host (devices.h); NULL: none
    const char *job_id; // of the scheduler, for NCCL Inspector's label; NULL: unknown. Borrowed.
} metrics_options;

// The caller closes *out. The options and their texts must outlive it.
status metrics_open(const metrics_options *o, metrics **out, err *e);
// Reads what the run has done since. A folder that is not there yet, and one that is being written, is no error.
status metrics_refresh(metrics *m, int64_t now_ns, err *e);
// Appends all metrics of the last refresh.
void metrics_write(const metrics *m, text *out);
void metrics_close(metrics *m); // NULL allowed

#endif
