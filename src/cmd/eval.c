// eval.c -- `trireme eval`: loss, perplexity and bits per byte of a model folder on a job's
// validation set.
#include "cmd/cmd.h"

#include "ckpt/ckpt.h"
#include "data/tokens.h"
#include "launch/launch.h"
#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: trireme eval JOB.yaml --model DIR [--key value ...] [--json]\n"
                            "\n"
                            "Evaluates the model in DIR on data.valid of the job (on data.train "
                            "when it has none), on the job's ranks.\n"
                            "Prints loss (mean over tokens, nats), perplexity, and bits per byte "
                            "when the shard knows its text's size.\n\n";

typedef struct request {
    job *job;
    inputs inputs;
    bool json;
    uint64_t text_bytes, text_tokens; // 0 when not known
} request;

static void print_result(const request *q, double loss, double positions)
{
    double bits =
        q->text_bytes ? loss * (double)q->text_tokens / (double)q->text_bytes / log(2) : NAN;
    if (q->json) {
        printf("{\"loss\":%.17g,\"perplexity\":%.17g,\"tokens\":%.0f", loss, exp(loss), positions);
        if (q->text_bytes) printf(",\"bits_per_byte\":%.17g", bits);
        printf("}\n");
    } else {
        printf("loss %.4f  perplexity %.2f  tokens %.0f", loss, exp(loss), positions);
        if (q->text_bytes) printf("  bits per byte %.4f", bits);
        printf("\n");
    }
    fflush(stdout);
}

static status rank_eval(world *w, int rank, int ranks, void *arg, err *e)
{
    status result = OK;
    const request *q = arg;
    session s = {0};
    double loss, positions;
    (void)ranks;
    TRY(session_open(q->job, &q->inputs, w, rank, &s, e));
    TRY(trainer_evaluate(s.trainer, q->job->train.eval_batches, &loss, &positions, e));
    if (rank == 0) print_result(q, loss, positions);
done:
    if (result != OK) session_abort(&s, e);
    session_close(&s);
    return result;
}

// How many bytes of text the evaluated tokens stand for, when the shard was made by `data prepare`.
static status text_size(request *q, err *e)
{
    status result = OK;
    tokens *t = NULL;
    const job *j = q->job;
    bool one = j->data.valids == 1 || (j->data.valids == 0 && j->data.trains == 1);
    const char *path = j->data.valids ? j->data.valid[0].path : j->data.train[0].path;
    if (!one || q->inputs.valid->shape.input_type != I32 || strcmp(path, "mock") == 0) goto done;
    TRY(tokens_open(path, &t, e));
    TRY(tokens_text_bytes(t, &q->text_bytes, e));
    q->text_tokens = tokens_count(t);
done:
    tokens_close(t);
    return result;
}

// Takes --json and --model DIR out of the arguments; all others are the job's.
static int take_flags(int argc, char **argv, bool *json, const char **folder)
{
    int n = 0;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            *json = true;
        else if (strncmp(argv[i], "--model=", 8) == 0)
            *folder = argv[i] + 8;
        else if (strcmp(argv[i], "--model") == 0 && i + 1 < argc)
            *folder = argv[++i];
        else
            argv[n++] = argv[i];
    }
    return n;
}

static status open_model(request *q, const char *folder, err *e)
{
    status result = OK;
    model_config c;
    char *found = NULL;
    TRY(ckpt_locate(folder, &found, NULL, e));
    TRY(model_config_read(found, &c, e));
    if (c.family != q->job->model.config.family)
        FAIL(E_USAGE, "%s: a %s model, the job's is %s", found, family_name(c.family),
             family_name(q->job->model.config.family));
    q->job->model.config = c;
    free(q->job->model.path);
    q->job->model.path = found;
    q->job->model.has_weights = true;
    found = NULL;
done:
    free(found);
    return result;
}

int cmd_eval(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    request q = {0};
    const char *folder = NULL;
    argc = take_flags(argc, argv, &q.json, &folder);
    if (cmd_wants_help(argc, argv)) return cmd_job_help(usage);
    if (!folder) FAIL(E_USAGE, "eval: --model DIR is missing");
    TRY(cmd_open_job(argc, argv, &q.job, e));
    TRY(open_model(&q, folder, e));
    TRY(inputs_open(q.job, &q.inputs, e));
    if (!q.inputs.valid) {
        q.inputs.valid = q.inputs.train;
        q.inputs.train = NULL;
    }
    TRY(text_size(&q, e));
    launch_options o = {.ranks = q.job->launch.ranks, .as_threads = q.job->launch.as_threads};
    TRY(launch_ranks(&o, rank_eval, &q, NULL, e));
done:
    inputs_close(&q.inputs);
    job_close(q.job);
    return result == OK ? 0 : cmd_fail(e);
}
