// environment.c -- the table of PyTorch's and NCCL's variables: names, the key that each sets, and why one
// has no effect. job.c calls it before it reads the job file, and cmd/
// when a communicator is open. It does not know what a key's value means.
#include "config/environment.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_NAMES = 4 };

// How a variable's value becomes a key's.
typedef enum variable_effect {
    EFFECT_NONE, // none; `why` says why
    EFFECT_NCCL, // none but over the communicator nccl, whose library reads it; `why` is of the others
    EFFECT_NCCL_SUMS, // none but over nccl, where that adds itself
    EFFECT_NETWORK,   // none but over the communicators nccl, hier, tls and ucx
    EFFECT_UCX,       // none but over the communicators hier, tls and ucx
    EFFECT_LEVEL,     // chooses messages (debug.h)
    EFFECT_SAME,      // is the value
    EFFECT_SECONDS,   // is a number of seconds
    EFFECT_ON,        // 1 turns the key on
    EFFECT_DETAIL,    // DETAIL turns the key on; INFO is a level
    EFFECT_NO_ZERO,   // 0 sets 0
} variable_effect;

typedef struct variable {
    const char *names[MOST_NAMES]; // the first that is set counts; a literal NULL ends them
    variable_effect effect;
    const char *key; // NULL: none
    const char *why; // EFFECT_NONE to EFFECT_UCX
} variable;

static const char TREE[] = "sums have one fixed order";
static const char SHARED[] = "ranks of one machine share memory";
static const char OWN[] =
    "ranks of one machine share memory, and over a network UCX has variables of its own";
static const char PEERS[] =
    "GPUs of one machine read each other's memory, and other ranks share theirs";
static const char FAILS[] = "a failure always ends every rank and is named";
static const char WAITS[] =
    "collectives are issued to streams, and checks.watchdog bounds each wait";
static const char FILES[] = "the program reads no such file and writes none";

// clang-format off
static const variable VARIABLES[] = {
    {{"TORCH_DISTRIBUTED_DEBUG"}, EFFECT_DETAIL, "checks.desync", NULL},
    {{"TORCH_NCCL_DESYNC_DEBUG", "NCCL_DESYNC_DEBUG"}, EFFECT_ON, "checks.desync", NULL},
    {{"TORCH_NCCL_DUMP_ON_TIMEOUT"}, EFFECT_NO_ZERO, "checks.flight_recorder", NULL},
    {{"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}, EFFECT_SAME, "checks.flight_recorder", NULL},
    {{"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}, EFFECT_SAME, "checks.flight_recorder_prefix", NULL},
    {{"NCCL_TIMEOUT"}, EFFECT_SECONDS, "checks.watchdog", NULL},
    {{"NCCL_DEBUG"}, EFFECT_LEVEL, NULL, NULL},
    {{"TORCH_CPP_LOG_LEVEL"}, EFFECT_LEVEL, NULL, NULL},
    {{"TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"}, EFFECT_NONE, NULL, WAITS},
    {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"}, EFFECT_NONE, NULL, FAILS},
    {{"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"}, EFFECT_NONE, NULL, WAITS},
    {{"TORCH_NCCL_ENABLE_MONITORING"}, EFFECT_NONE, NULL, FAILS},
    {{"TORCH_NCCL_ENABLE_TIMING"}, EFFECT_NONE, NULL, "the flight recorder always has the times"},
    {{"TORCH_NCCL_HIGH_PRIORITY"}, EFFECT_NONE, NULL, WAITS},
    {{"TORCH_SHOW_CPP_STACKTRACES"}, EFFECT_NONE, NULL, "errors are one line"},
    {{"NCCL_DEBUG_SUBSYS"}, EFFECT_LEVEL, NULL, NULL},
    {{"NCCL_DEBUG_FILE"}, EFFECT_NCCL, NULL, "messages go to the error output"},
    {{"NCCL_ALGO"}, EFFECT_NCCL_SUMS, NULL, TREE},
    {{"NCCL_PROTO"}, EFFECT_NCCL, NULL, TREE},
    {{"NCCL_NVLS_ENABLE"}, EFFECT_NCCL, NULL, TREE},
    {{"NCCL_BUFFSIZE"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_NTHREADS"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_MIN_NCHANNELS"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_MAX_NCHANNELS"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_MIN_CTAS"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_MAX_CTAS"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_P2P_DISABLE"}, EFFECT_NCCL, NULL, PEERS},
    {{"NCCL_P2P_LEVEL"}, EFFECT_NCCL, NULL, PEERS},
    {{"NCCL_SHM_DISABLE"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_SOCKET_IFNAME"}, EFFECT_NETWORK, NULL, SHARED},
    {{"NCCL_SOCKET_FAMILY"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_NSOCKS_PERTHREAD"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_SOCKET_NTHREADS"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_IB_DISABLE"}, EFFECT_NETWORK, NULL, SHARED},
    {{"NCCL_IB_HCA"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_IB_TIMEOUT"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_IB_RETRY_CNT"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_IB_GID_INDEX"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_IB_TC"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_IB_SL"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_NET_GDR_LEVEL"}, EFFECT_NCCL, NULL, OWN},
    {{"NCCL_CROSS_NIC"}, EFFECT_NCCL, NULL, OWN},
    {{"GLOO_SOCKET_IFNAME"}, EFFECT_UCX, NULL, SHARED},
    {{"NCCL_TOPO_FILE"}, EFFECT_NCCL, NULL, FILES},
    {{"NCCL_TOPO_DUMP_FILE"}, EFFECT_NCCL, NULL, FILES},
    {{"NCCL_GRAPH_DUMP_FILE"}, EFFECT_NCCL, NULL, FILES},
    {{"NCCL_CONF_FILE"}, EFFECT_NCCL, NULL, FILES},
    {{"NCCL_RAS_ENABLE"}, EFFECT_NCCL, NULL, FAILS},
    {{"NCCL_RAS_ADDR"}, EFFECT_NCCL, NULL, FAILS},
};
// clang-format on
enum { VARIABLE_COUNT = sizeof VARIABLES / sizeof *VARIABLES };

// The value of a row, and the name that gave it; NULL: none of the names is set.
static const char *value_of(const variable *x, const char **name)
{
    for (int i = 0; i < MOST_NAMES && x->names[i]; i++) {
        const char *value = getenv(x->names[i]);
        *name = x->names[i];
        if (value && *value) return value;
    }
    return NULL;
}

static bool is_word(const char *value, const char *word)
{
    return value && strcasecmp(value, word) == 0;
}

static status refuse(const char *name, const char *value, const char *valid, err *e)
{
    text found = {0};
    text_add_printable(&found, value, strlen(value), "");
    err_set(e, E_USAGE, "%s: found %.*s; valid: %s", name, TEXT_CUT(found.chars, 200), valid);
    text_clear(&found);
    return E_USAGE;
}

// The text of the key's value; an empty text: the variable leaves the key as it is.
static status convert(const variable *x, const char *name, const char *value, text *out, err *e)
{
    status result = OK;
    bool on = false;
    int64_t seconds;
    switch (x->effect) {
    case EFFECT_SAME:
        text_add(out, value);
        break;
    case EFFECT_SECONDS:
        if (!text_to_count(value, &seconds) || seconds < 0)
            return refuse(name, value, "a number of seconds", e);
        text_addf(out, "%llds", (long long)seconds);
        break;
    case EFFECT_ON:
    case EFFECT_NO_ZERO:
        if (!text_to_bool(value, &on)) return refuse(name, value, "0 or 1", e);
        if (on == (x->effect == EFFECT_ON)) text_add(out, on ? "on" : "0");
        break;
    case EFFECT_DETAIL:
        if (!is_word(value, "OFF") && !is_word(value, "INFO") && !is_word(value, "DETAIL"))
            return refuse(name, value, "OFF, INFO, DETAIL", e);
        if (is_word(value, "DETAIL")) text_add(out, "on");
        break;
    default:
        break;
    }
    TRY(text_check(out, e));
done:
    return result;
}

// The communicators over which a variable acts that sets no key; NULL: it chooses messages, or sets a key.
static const char *where_it_acts(variable_effect effect)
{
    switch (effect) {
    case EFFECT_NONE:
        return "";
    case EFFECT_NCCL:
    case EFFECT_NCCL_SUMS:
        return "nccl";
    case EFFECT_NETWORK:
        return "nccl, hier, tls and ucx";
    case EFFECT_UCX:
        return "hier, tls and ucx";
    default:
        return NULL;
    }
}

// A key that an earlier row has set stays.
static status read_row(job_values *v, const variable *x, err *e)
{
    status result = OK;
    text converted = {0};
    const char *name, *value = value_of(x, &name);
    if (!value) return OK;
    TRY(convert(x, name, value, &converted, e));
    if (converted.bytes && !setting_is_given(settings_of(v, x->key)))
        TRY(settings_change(v, x->key, converted.chars, name, e));
done:
    text_clear(&converted);
    return result;
}

status environment_read(job_values *v, err *e)
{
    status result = OK;
    for (int i = 0; i < VARIABLE_COUNT; i++) TRY(read_row(v, &VARIABLES[i], e));
done:
    return result;
}

void environment_add_ignored(const char *communicator, bool tree_order, text *out)
{
    for (const variable *x = VARIABLES; x < VARIABLES + VARIABLE_COUNT; x++) {
        const char *name, *value = value_of(x, &name), *where = where_it_acts(x->effect);
        const bool is_of_sums = x->effect == EFFECT_NCCL_SUMS;
        if (!value || !where) continue;
        if (strstr(where, communicator) && !(is_of_sums && tree_order)) continue;
        text_add(out, name);
        text_add(out, "=");
        text_add_printable(out, value, strlen(value), "");
        text_addf(out, " has no effect%s%s%s: %s\n", *where ? " but over " : "", where,
                  is_of_sums ? " with train.deterministic false" : "", x->why);
    }
}
