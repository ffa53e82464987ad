// launch.c -- `trireme accelerate launch`: lays flags over the file of Accelerate, and starts what `accelerate launch`
// would start: a script under the agent of `trireme run`, one process without ranks, or, for a job, Trireme's trainer.
// launch_flags.c has the flags, launch_environment.c the environment, config/dialect/accelerate*.c the keys of the file.
#include "cmd/accelerate/launch.h"

#include "base/alloc.h"
#include "base/file.h"
#include "cmd/accelerate/accelerate_file.h"
#include "cmd/cmd.h"
#include "cmd/console.h"
#include "cmd/run/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A launch while it is prepared.
typedef struct launch_starter {
    launch_request q;
    char **rest; // [count] the program with its arguments
    int count;
    char *file; // NULL: none
    dialect_given *given;
    size_t givens;
    translation values;
    launch_variables variables;
    flag_texts words; // of the program that the ranks run
    char **owned;     // [owned_count] texts among them
    size_t owned_count, owned_room;
    char gpus[16]; // their number on this machine
} launch_starter;

static void start_clear(launch_starter *s)
{
    for (size_t i = 0; i < s->owned_count; i++) free(s->owned[i]);
    free(s->owned);
    free(s->file);
    free(s->given);
    flag_texts_clear(&s->words);
    launch_variables_clear(&s->variables);
    translation_clear(&s->values);
}

static const char *text_of(const launch_starter *s, const char *key)
{
    const json_t *value = json_object_get(s->values.effective, key);
    return json_is_string(value) ? json_string_value(value) : NULL;
}

static int64_t count_of(const launch_starter *s, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(s->values.effective, key);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

static bool is_type(const launch_starter *s, const char *type)
{
    const char *found = text_of(s, "distributed_type");
    return found && strcmp(found, type) == 0;
}

// ---- flags

// Accelerate's own checks of flags.
static status check_flags(const launch_request *q, err *e)
{
    int64_t processes = 2;
    if (q->multi_gpu + q->cpu + q->tpu + q->use_deepspeed + q->use_fsdp > 1)
        return err_set(
            e, E_USAGE,
            "--cpu, --multi-gpu, --tpu, --use-deepspeed and --use-fsdp exclude each other");
    if (q->tpu)
        return err_set(e, E_USAGE,
                       "--tpu: valid are others, because Trireme has no device for TPUs");
    if (q->multi_gpu && q->num_processes && text_to_count(q->num_processes, &processes) &&
        processes < 2)
        return err_set(e, E_USAGE, "--multi-gpu: found --num-processes %s; valid is 2 or more",
                       q->num_processes);
    if (q->use_parallelism_config && !q->use_fsdp)
        return err_set(e, E_USAGE,
                       "--use-parallelism-config stands with --use-fsdp --fsdp-version 2");
    if (q->mpirun_hostfile)
        return err_set(e, E_USAGE,
                       "--mpirun-hostfile: valid is mpirun itself: mpirun --hostfile %s trireme "
                       "accelerate launch ...",
                       q->mpirun_hostfile);
    if (q->module && q->no_python)
        return err_set(e, E_USAGE, "--module and --no-python exclude each other");
    return OK;
}

// The key of the file whose last word is the name of a flag; NULL: none.
static const char *key_of(const dialect *d, const char *flag_name)
{
    for (int i = 0; i < d->row_count; i++) {
        const char *dot = strrchr(d->rows[i].theirs, '.'),
                   *word = dot ? dot + 1 : d->rows[i].theirs;
        const char *name = flag_name + strlen("--");
        while (*name && (*name == *word || (*name == '-' && *word == '_'))) name++, word++;
        if (!*name && !*word) return d->rows[i].theirs;
    }
    return NULL;
}

static void give(launch_starter *s, const char *key, const char *value)
{
    s->given[s->givens++] = (dialect_given){key, value, GIVEN_WINS};
}

// The way of training that flags choose; NULL: the file does, or else the number of ranks.
static const char *type_of_flags(const launch_starter *s)
{
    const launch_request *q = &s->q;
    int64_t processes = 0;
    const bool several =
        q->num_processes && text_to_count(q->num_processes, &processes) && processes > 1;
    const bool has_gpus = !q->cpu && run_usable_gpus() > 1;
    if (q->use_deepspeed) return "DEEPSPEED";
    if (q->use_fsdp) return "FSDP";
    if (q->use_megatron_lm) return "MEGATRON_LM";
    if (q->multi_gpu) return "MULTI_GPU";
    if (s->file && !q->cpu) return NULL;
    if (has_gpus && (several || !q->num_processes)) return "MULTI_GPU";
    return several ? "MULTI_CPU" : "NO";
}

static status collect_given(launch_starter *s, err *e)
{
    status result = OK;
    const dialect *d = dialect_find("accelerate");
    const command *c = &command_accelerate_launch;
    const char *type = type_of_flags(s);
    bool axes = s->q.use_parallelism_config;
    TRY(alloc_zeroed(&s->given, c->flag_count + 5, sizeof *s->given, "the flags", e));
    for (size_t i = 0; i < c->flag_count; i++) {
        const flag *f = &c->flags[i];
        const void *value = (const char *)&s->q + f->offset;
        const char *name = flag_long_name(f), *key = key_of(d, name);
        if (!key) continue;
        const char *word = f->kind == FLAG_SWITCH ? *(const bool *)value ? "true" : NULL
                                                  : *(const char *const *)value;
        if (!word) continue;
        give(s, key, word);
        axes = axes || strncmp(key, "parallelism_config", 18) == 0;
    }
    if (type) give(s, "distributed_type", type);
    if (s->q.cpu) give(s, "use_cpu", "true");
    // As in Accelerate, a way of training on the command line stands without the sizes of the file.
    if (type && s->file && !axes) give(s, "parallelism_config", "null");
    if (!s->file && !s->q.num_processes) {
        snprintf(s->gpus, sizeof s->gpus, "%d",
                 run_usable_gpus() > 1 && !s->q.cpu ? run_usable_gpus() : 1);
        give(s, "num_processes", s->gpus);
    }
done:
    return result;
}

// ---- a program of the user

static status set_environment(launch_starter *s, err *e)
{
    for (size_t i = 0; i < s->variables.count; i++) {
        char *equals = strchr(s->variables.item[i], '=');
        *equals = 0;
        const int failed = setenv(s->variables.item[i], equals + 1, 1);
        *equals = '=';
        if (failed) return err_errno(e, "cannot set %s", s->variables.item[i]);
    }
    return OK;
}

// Becomes the program, without ranks.
static status become_program(const launch_starter *s, err *e)
{
    status result = OK;
    const run_request r = {.workers = {.max_restarts = -1,
                                       .shutdown_s = -1,
                                       .module = s->q.module,
                                       .no_python = s->q.no_python},
                           .nodes = {.node_rank = -1, .master_port = -1}};
    run_options o = {0};
    TRY(run_options_open(&r, s->rest, s->count, &o, e));
    fflush(NULL);
    execvp(o.program[0], o.program);
    result = err_errno(e, "cannot start %s", o.program[0]);
done:
    run_options_close(&o);
    return result;
}

// ---- a job of Trireme

static bool is_job(const launch_starter *s)
{
    const char *end = strrchr(s->rest[0], '.');
    return !s->q.module && !s->q.no_python && end &&
           (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0);
}

static status add_word(launch_starter *s, const char *word, err *e)
{
    const status result = alloc_grow(&s->words.items, &s->words.room, s->words.count + 1,
                                     sizeof *s->words.items, "the arguments", e);
    if (result == OK) s->words.items[s->words.count++] = word;
    return result;
}

static status add_owned(launch_starter *s, text *word, err *e)
{
    status result = OK;
    TRY(alloc_grow(&s->owned, &s->owned_room, s->owned_count + 1, sizeof *s->owned, "the arguments",
                   e));
    TRY(text_take(word, &s->owned[s->owned_count], e));
    TRY(add_word(s, s->owned[s->owned_count++], e));
done:
    text_clear(word);
    return result;
}

// Refuses here what each rank would refuse.
static status check_job(const launch_starter *s, err *e)
{
    translation meaning = {.setting = NULL};
    const status result =
        dialect_read_given(dialect_find("accelerate"), s->file, s->given, s->givens, &meaning, e);
    translation_clear(&meaning);
    return result;
}

// train JOB --accelerate FILE --accelerate.KEY=VALUE ... and the user's own keys, which win.
static status write_job(launch_starter *s, err *e)
{
    status result = OK;
    text word = {0};
    TRY(add_word(s, "train", e));
    TRY(add_word(s, s->rest[0], e));
    if (s->file) {
        text_addf(&word, "--accelerate=%s", s->file);
        TRY(add_owned(s, &word, e));
    }
    for (size_t i = 0; i < s->givens; i++) {
        text_addf(&word, "--accelerate.%s=%s", s->given[i].theirs, s->given[i].value);
        TRY(add_owned(s, &word, e));
    }
    if (s->q.threads >= 0) {
        text_addf(&word, "--launch.threads_per_rank=%lld", (long long)s->q.threads);
        TRY(add_owned(s, &word, e));
    }
    for (int i = 1; i < s->count; i++) TRY(add_word(s, s->rest[i], e));
done:
    text_clear(&word);
    return result;
}

// ---- the ranks

// The flag that gives a key its value; NULL: none does.
static const char *flag_of(const launch_starter *s, const char *key)
{
    const command *c = &command_accelerate_launch;
    bool given = false;
    for (size_t i = 0; i < s->givens; i++) given = given || strcmp(s->given[i].theirs, key) == 0;
    for (size_t i = 0; given && i < c->flag_count; i++) {
        const char *name = flag_long_name(&c->flags[i]);
        const char *of = key_of(dialect_find("accelerate"), name);
        if (of && strcmp(of, key) == 0) return name;
    }
    return NULL;
}

// Refuses the value of a key in a line that begins with the flag that gives it, or else with file and key. Always E_USAGE.
static status refuse_value(const launch_starter *s, const char *key, err *e, const char *format,
                           ...)
{
    const char *by = flag_of(s, key);
    text line = {0};
    va_list args;
    if (!by && s->file) text_addf(&line, "%s: ", s->file);
    text_addf(&line, "%s: ", by ? by : key);
    va_start(args, format);
    text_addv(&line, format, args);
    va_end(args);
    err_set(e, E_USAGE, "%.*s", TEXT_CUT(line.chars ? line.chars : key, 700));
    text_clear(&line);
    return E_USAGE;
}

// Several machines that Accelerate would reach with DeepSpeed's launcher.
static status check_machines(const launch_starter *s, int64_t machines, err *e)
{
    static const char LAUNCHER[] = "deepspeed_config.deepspeed_multinode_launcher";
    const char *by = text_of(s, LAUNCHER);
    if (machines == 1) return OK;
    if (is_type(s, "DEEPSPEED") && (!by || strcmp(by, "standard") != 0))
        return refuse_value(
            s, LAUNCHER, e,
            "found %s; valid: standard, with this line started on each machine, or trireme "
            "deepspeed --hostfile FILE, which starts the ranks of all machines",
            by ? by : "none, which is pdsh");
    if (!text_of(s, "main_process_ip"))
        return refuse_value(s, "main_process_ip", e,
                            "missing; valid for %lld machines: the address of machine 0",
                            (long long)machines);
    return OK;
}

static status check_ranks(const launch_starter *s, int64_t machines, int64_t processes, err *e)
{
    static const char KEY[] = "num_processes";
    if (processes < 1)
        return refuse_value(s, KEY, e, "%s; valid: --num-processes N, the ranks of all machines",
                            processes ? "missing" : "found 0");
    if (processes % machines)
        return refuse_value(s, KEY, e,
                            "found %lld on %lld machines; valid: a multiple of num_machines",
                            (long long)processes, (long long)machines);
    return check_machines(s, machines, e);
}

// Starts the ranks of this machine, and returns the exit code.
static int start_ranks(launch_starter *s, int64_t machines, int64_t processes, char **words,
                       int count)
{
    const launch_request *q = &s->q;
    char workers[24], nodes[24], endpoint[512];
    const bool several = machines > 1,
               by_arrival = q->rdzv_backend && strcmp(q->rdzv_backend, "static") != 0;
    const char *host = text_of(s, "main_process_ip");
    const int64_t port = count_of(s, "main_process_port", several ? 29500 : -1);
    snprintf(workers, sizeof workers, "%lld", (long long)(processes / machines));
    snprintf(nodes, sizeof nodes, "%lld", (long long)machines);
    snprintf(endpoint, sizeof endpoint, "%s:%lld", host ? host : "", (long long)port);
    const run_request r = {
        .workers = {.nproc = workers,
                    .role = q->role,
                    .numa = q->enable_cpu_affinity && is_job(s) ? "node" : NULL,
                    .max_restarts = q->max_restarts,
                    .shutdown_s = -1,
                    .module = q->module,
                    .no_python = q->no_python,
                    .quiet = true}, // OMP_NUM_THREADS is set, as Accelerate sets it
        .nodes = {.nnodes = nodes,
                  .backend = q->rdzv_backend,
                  .endpoint = several && by_arrival ? endpoint : NULL,
                  .conf = q->rdzv_conf,
                  .master_addr = several ? host : NULL,
                  .secret_file = q->secret_file,
                  .node_rank = several ? count_of(s, "machine_rank", 0) : -1,
                  .master_port = port},
        .outputs = {.folder = q->log_dir, .tee = q->tee}};
    return run_start(&r, words, count);
}

static status read_values(launch_starter *s, err *e)
{
    status result = OK;
    TRY(check_flags(&s->q, e));
    if (s->q.config_file)
        TRY(text_copy(s->q.config_file, &s->file, e));
    else if (!s->q.cpu)
        TRY(accelerate_find_config(&s->file, e));
    TRY(collect_given(s, e));
    TRY(dialect_read_values(dialect_find("accelerate"), s->file, s->given, s->givens, &s->values,
                            e));
done:
    return result;
}

static int start(launch_starter *s)
{
    status result = OK;
    err error = {0}, *e = &error;
    int code = 0;
    TRY(read_values(s, e));
    const bool simple = is_type(s, "NO") && !is_job(s);
    const int64_t machines = count_of(s, "num_machines", 1);
    int64_t processes = count_of(s, "num_processes", -1);
    if (is_type(s, "NO")) {
        if (processes > 1 && !s->q.quiet)
            console_warn("distributed_type NO starts one process, whatever num_processes is");
        processes = machines;
    }
    TRY(check_ranks(s, machines, processes, e));
    if (is_job(s)) {
        TRY(check_job(s, e));
        TRY(write_job(s, e));
        TRY(launch_add_devices(s->values.effective, &s->variables, e));
    } else {
        TRY(launch_add_variables(&s->q, s->values.effective, simple, &s->variables, e));
    }
    TRY(set_environment(s, e));
    if (simple) TRY(become_program(s, e));
    code = is_job(s)
               ? start_ranks(s, machines, processes, (char **)s->words.items, (int)s->words.count)
               : start_ranks(s, machines, processes, s->rest, s->count);
done:
    return result == OK ? code : cmd_fail(e);
}

int launch_run(int argc, char **argv)
{
    err e = {0};
    launch_starter s = {.q = {.max_restarts = -1, .threads = -1}};
    const command *c = &command_accelerate_launch;
    int first = argc, code = 0;
    status result = flags_parse_leading(c->flags, c->flag_count, argc, argv, &s.q, &first, &e);
    if (result == OK && first == argc)
        result =
            err_set(&e, E_USAGE, "give the script or the job that the ranks run, after the flags");
    s.rest = argv + first;
    s.count = argc - first;
    code = result == OK ? start(&s) : cmd_fail(&e);
    start_clear(&s);
    return code;
}
