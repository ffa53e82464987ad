// gpu_clocks.c -- checks of power, temperature and clocks of GPUs: whether they compute as fast as they can. They ask NVML.
#include "doctor/doctor.h"
#include "doctor/gpu/gpus.h"
#include "doctor/tables.h"

#include <inttypes.h>
#include <stdio.h>

static void number_text(char out[24], uint64_t value)
{
    snprintf(out, 24, "%" PRIu64, value);
}

static void watt_text(char out[24], uint64_t milliwatt)
{
    number_text(out, (milliwatt + 500) / 1000);
}

static const char *slowdown_text(uint64_t reasons)
{
    if (reasons & NVML_REASON_POWER_BRAKE) return "the machine's power supply asks for it";
    if (reasons & NVML_REASON_HOT) return "the GPU is too hot";
    if (reasons & NVML_REASON_HOT_SOFTWARE) return "the GPU is close to its limit of temperature";
    return "the GPU's hardware asks for it";
}

static status probe_slowdown(const doctor_context *c, doctor_findings *out, err *e)
{
    const uint64_t faults =
        NVML_REASON_SLOWDOWN | NVML_REASON_HOT_SOFTWARE | NVML_REASON_HOT | NVML_REASON_POWER_BRAKE;
    gpu_list all;
    char label[GPU_LABEL_BYTES];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        uint64_t reasons;
        gpu_label(&all, i, label);
        if (nvml_read(&all.nvml, all.gpu[i], NVML_CLOCK_REASONS, &reasons) && reasons & faults)
            doctor_find(out, "where", label, "why", slowdown_text(reasons), NULL);
    }
    return OK;
}

static status probe_power_cap(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES], limit[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        uint64_t reasons, milliwatt = 0;
        if (!nvml_read(&all.nvml, all.gpu[i], NVML_CLOCK_REASONS, &reasons) ||
            !(reasons & NVML_REASON_POWER_CAP) ||
            !nvml_read(&all.nvml, all.gpu[i], NVML_POWER_LIMIT, &milliwatt))
            continue;
        gpu_label(&all, i, label);
        watt_text(limit, milliwatt);
        doctor_find(out, "where", label, "limit", limit, NULL);
    }
    return OK;
}

static status probe_power_limit(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES], now[24], usual[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        uint64_t limit, normal;
        if (!nvml_read(&all.nvml, all.gpu[i], NVML_POWER_LIMIT, &limit) ||
            !nvml_read(&all.nvml, all.gpu[i], NVML_POWER_LIMIT_DEFAULT, &normal))
            continue;
        gpu_label(&all, i, label);
        watt_text(now, limit);
        watt_text(usual, normal);
        if (limit < normal) doctor_find(out, "where", label, "limit", now, "default", usual, NULL);
    }
    return OK;
}

// Many GPUs have a default below the maximum, from which they rise by themselves. Only a setting below the default is a
// fault; where a GPU tells no default, one below the maximum.
static status probe_clock_limit(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES], now[24], usual[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        uint64_t clock, normal, most;
        if (!nvml_read(&all.nvml, all.gpu[i], NVML_CLOCK_MAX, &most)) continue;
        if (i == 0) doctor_measure(out, "gpu_clock_max_mhz", (double)most, "MHz", true);
        if (!nvml_read(&all.nvml, all.gpu[i], NVML_CLOCK_SET, &clock)) continue;
        if (!nvml_read(&all.nvml, all.gpu[i], NVML_CLOCK_DEFAULT, &normal)) normal = most;
        gpu_label(&all, i, label);
        number_text(now, clock);
        number_text(usual, normal);
        if (clock < normal) doctor_find(out, "where", label, "clock", now, "default", usual, NULL);
    }
    return OK;
}

static status probe_temperature(const doctor_context *c, doctor_findings *out, err *e)
{
    gpu_list all;
    char label[GPU_LABEL_BYTES], now[24], most[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        uint64_t degrees, limit;
        if (!nvml_read(&all.nvml, all.gpu[i], NVML_TEMPERATURE, &degrees) ||
            !nvml_read(&all.nvml, all.gpu[i], NVML_TEMPERATURE_SLOWDOWN, &limit))
            continue;
        gpu_label(&all, i, label);
        number_text(now, degrees);
        number_text(most, limit);
        if (degrees >= limit) doctor_find(out, "where", label, "degrees", now, "limit", most, NULL);
    }
    return OK;
}

// A collective that waits for ever keeps a GPU busy without work: it takes little power.
static status probe_stalled(const doctor_context *c, doctor_findings *out, err *e)
{
    const double share = doctor_threshold(c, "stalled_power_share", 0.35);
    gpu_list all;
    char label[GPU_LABEL_BYTES], now[24], most[24];
    (void)e;
    if (!gpus_open(c, out, &all)) return OK;
    for (int i = 0; i < all.count; i++) {
        uint64_t power, limit;
        unsigned percent;
        if (!nvml_read(&all.nvml, all.gpu[i], NVML_POWER, &power) ||
            !nvml_read(&all.nvml, all.gpu[i], NVML_POWER_LIMIT, &limit) ||
            !nvml_read_utilization(&all.nvml, all.gpu[i], &percent))
            continue;
        gpu_label(&all, i, label);
        watt_text(now, power);
        watt_text(most, limit);
        if (percent >= 99 && (double)power < share * (double)limit)
            doctor_find(out, "where", label, "power", now, "limit", most, NULL);
    }
    return OK;
}

static const doctor_check ROWS[] = {
    {.code = "gpu-slowdown",
     .severity = DOCTOR_WARNING,
     .title = "No GPU slows down for heat or power",
     .needs = "NVML",
     .issue = "{where} lowers its clocks: {why}",
     .why = "The clocks may fall to a half or less, and every rank waits for the slowest GPU.",
     .remedy = {"$ nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
                "Check fans, air flow, the power supplies and the cables of the GPU."},
     .reference = "nvidia-smi(1): Clocks Event Reasons",
     .recipe = {161, 166},
     .probe = probe_slowdown},
    {.code = "gpu-power-cap",
     .severity = DOCTOR_NOTE,
     .title = "No GPU is at its limit of power",
     .needs = "NVML",
     .issue = "{where} is at its limit of power, {limit} W, and lowers its clocks",
     .why = "Under full load this is normal. On an idle machine another program loads the GPU.",
     .remedy = {"$ nvidia-smi -q -d POWER"},
     .reference = "nvidia-smi(1): Clocks Event Reasons",
     .recipe = {161},
     .probe = probe_power_cap},
    {.code = "gpu-power-limit",
     .severity = DOCTOR_WARNING,
     .title = "The limit of power of every GPU is the default",
     .needs = "NVML",
     .issue = "The limit of power of {where} is {limit} W; its default is {default} W",
     .why = "The GPU computes more slowly than others of its kind, and every rank waits for it.",
     .remedy = {"$ sudo nvidia-smi -i N -pl DEFAULT"},
     .reference = "nvidia-smi(1): --power-limit",
     .recipe = {161, 166},
     .probe = probe_power_limit},
    {.code = "gpu-clock-limit",
     .severity = DOCTOR_WARNING,
     .title = "The clocks of every GPU are the default",
     .needs = "NVML",
     .issue = "The clock of {where} is set to {clock} MHz; its default is {default} MHz",
     .why = "Somebody has limited the clocks. The GPU is slower by that share.",
     .remedy = {"$ sudo nvidia-smi -i N --reset-applications-clocks",
                "$ sudo nvidia-smi -i N --reset-gpu-clocks"},
     .reference = "nvidia-smi(1): --applications-clocks",
     .recipe = {161, 166},
     .probe = probe_clock_limit},
    {.code = "gpu-temperature",
     .severity = DOCTOR_WARNING,
     .title = "Every GPU is below the temperature at which it slows down",
     .needs = "NVML",
     .issue = "{where} has {degrees} degrees Celsius; it slows down at {limit}",
     .why = "The GPU halves its clocks, and switches off when it gets hotter.",
     .remedy = {"Check fans, filters and air flow, and the temperature of the room."},
     .reference = "nvidia-smi(1): Temperature",
     .recipe = {161},
     .probe = probe_temperature},
    {.code = "gpu-stalled",
     .severity = DOCTOR_WARNING,
     .title = "A GPU that is busy takes power",
     .needs = "NVML; threshold stalled_power_share",
     .issue = "{where} is 100 % busy and takes {power} W of {limit} W",
     .why = "A kernel waits for another rank and does no work: a collective hangs, or a peer is "
            "gone.",
     .remedy = {"Look for the run on this GPU, and for the rank that does not take part:",
                "$ nvidia-smi --query-compute-apps=pid,name --format=csv", "$ trireme top"},
     .reference = "docs/troubleshooting.md",
     .recipe = {161, 163},
     .probe = probe_stalled},
};

const doctor_table DOCTOR_GPU_CLOCKS = {"Power and clocks of the GPUs", ROWS,
                                        sizeof ROWS / sizeof *ROWS};
