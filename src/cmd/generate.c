// generate.c -- `trireme generate`: samples text from a model folder.
#include "cmd/cmd.h"

#include "base/file.h"
#include "data/tokenizer.h"
#include "train/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: trireme generate --model DIR --prompt TEXT [--tokens N] [--temperature T] [--top-k K] "
    "[--top-p P] [--seed S]\n"
    "                        [--threads N] [--precision fp32|bf16] [--json]\n"
    "\n"
    "Continues TEXT with the model in DIR (a HuggingFace folder with tokenizer.json, such as a "
    "checkpoint of a run).\n"
    "  --tokens N        at most N new tokens (default 100); ends earlier at the end-of-text "
    "token\n"
    "  --temperature T   0 = always the most likely token; default 0.8\n"
    "  --top-k K         only the K most likely tokens; default 0 = all\n"
    "  --top-p P         only the most likely tokens that make up P of the probability; default 1\n"
    "  --seed S          the same seed gives the same text; default 0\n"
    "  --threads N       default: all cores\n";

typedef struct request {
    const char *model, *prompt, *tokens, *temperature, *top_k, *top_p, *seed, *threads, *precision,
        *json, *help;
} request;

typedef struct settings {
    int64_t tokens, top_k, seed, threads;
    double temperature, top_p;
    dtype precision;
} settings;

static status number(const char *flag, const char *s, int64_t least, int64_t *out, err *e)
{
    if (!s || (text_to_count(s, out) && *out >= least)) return OK;
    return err_set(e, E_USAGE, "generate: --%s: found '%s'; valid: a whole number of at least %lld",
                   flag, s, (long long)least);
}

static status real(const char *flag, const char *s, double most, double *out, err *e)
{
    if (!s || (text_to_double(s, out) && *out >= 0 && *out <= most)) return OK;
    return err_set(e, E_USAGE, "generate: --%s: found '%s'; valid: 0 to %g", flag, s, most);
}

static status settle(const request *r, settings *s, err *e)
{
    status result = OK;
    *s = (settings){.tokens = 100, .temperature = 0.8, .top_p = 1, .precision = F32};
    if (!r->model) FAIL(E_USAGE, "generate: --model DIR is missing");
    if (!r->prompt) FAIL(E_USAGE, "generate: --prompt TEXT is missing");
    TRY(number("tokens", r->tokens, 1, &s->tokens, e));
    TRY(number("top-k", r->top_k, 0, &s->top_k, e));
    TRY(number("seed", r->seed, 0, &s->seed, e));
    TRY(number("threads", r->threads, 1, &s->threads, e));
    TRY(real("temperature", r->temperature, 100, &s->temperature, e));
    TRY(real("top-p", r->top_p, 1, &s->top_p, e));
    if (r->precision && strcmp(r->precision, "bf16") == 0)
        s->precision = BF16;
    else if (r->precision && strcmp(r->precision, "fp32") != 0)
        FAIL(E_USAGE, "generate: --precision: found '%s'; valid: fp32, bf16", r->precision);
done:
    return result;
}

// Draws tokens after the prompt's until the end of text, the model's length or the request's.
static status continue_text(decoder *d, const tokenizer *t, const settings *s, const float *logits,
                            int64_t room, text *out, err *e)
{
    status result = OK;
    for (int64_t i = 0; i < s->tokens; i++) {
        int32_t id;
        TRY(sample_token(logits, decoder_vocab(d), s->temperature, s->top_k, s->top_p,
                         (uint64_t)s->seed, (uint64_t)decoder_position(d), &id, e));
        if (id == tokenizer_end_of_text(t)) break;
        tokenizer_decode(t, &id, 1, true, out);
        if (decoder_position(d) == room) break;
        TRY(decoder_feed(d, &id, 1, &logits, e));
    }
done:
    return result;
}

static status generate(const request *r, const settings *s, text *out, err *e)
{
    status result = OK;
    model_config c;
    device *d = NULL;
    tokenizer *t = NULL;
    tokenizer_work *work = NULL;
    safetensors *weights = NULL;
    decoder *x = NULL;
    const int32_t *ids;
    size_t count;
    const float *logits;
    char *path = file_join(r->model, "tokenizer.json");
    device_options options = {.threads = (int)s->threads};
    TRY(model_config_read(r->model, &c, e));
    TRY(tokenizer_load(path, &t, e));
    TRY(tokenizer_work_open(t, &work, e));
    TRY(tokenizer_encode(work, r->prompt, strlen(r->prompt), &ids, &count, e));
    if (count == 0) FAIL(E_USAGE, "generate: --prompt: the prompt is empty");
    if ((int64_t)count >= c.max_seq)
        FAIL(E_USAGE, "generate: --prompt: %zu tokens, the model takes at most %lld", count,
             (long long)c.max_seq);
    TRY(safetensors_open_folder(r->model, &weights, e));
    TRY(device_open("cpu", &options, &d, e));
    int64_t room = (int64_t)count + s->tokens < c.max_seq ? (int64_t)count + s->tokens : c.max_seq;
    TRY(decoder_open(d, family_find(c.family), &c, s->precision, weights, room, &x, e));
    TRY(decoder_feed(x, ids, (int64_t)count, &logits, e));
    text_add(out, r->prompt);
    TRY(continue_text(x, t, s, logits, room, out, e));
done:
    decoder_close(x);
    device_close(d);
    safetensors_close(weights);
    tokenizer_work_close(work);
    tokenizer_close(t);
    free(path);
    return result;
}

static void print_json(const char *prompt, text *out)
{
    json_t *j = json_object();
    // A sample may end inside a character: what cannot be JSON text is left out.
    size_t bytes = out->bytes;
    if (!text_is_utf8(out->at, bytes, &bytes)) out->at[bytes] = 0;
    json_object_set_new(j, "prompt", json_string(prompt));
    json_object_set_new(j, "text", json_string(out->at));
    json_dumpf(j, stdout, 0);
    putchar('\n');
    json_decref(j);
}

int cmd_generate(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    request r = {0};
    settings s;
    text out = {0};
    int rest;
    const cmd_flag flags[] = {
        {"model", &r.model, false},
        {"prompt", &r.prompt, false},
        {"tokens", &r.tokens, false},
        {"top-k", &r.top_k, false},
        {"top-p", &r.top_p, false},
        {"temperature", &r.temperature, false},
        {"seed", &r.seed, false},
        {"threads", &r.threads, false},
        {"precision", &r.precision, false},
        {"json", &r.json, true},
        {"help", &r.help, true},
    };
    TRY(cmd_flags(argc, argv, flags, sizeof flags / sizeof *flags, NULL, 0, &rest, e));
    if (r.help) {
        fputs(usage, stdout);
        return 0;
    }
    TRY(settle(&r, &s, e));
    TRY(generate(&r, &s, &out, e));
    if (r.json)
        print_json(r.prompt, &out);
    else
        printf("%s\n", out.at ? out.at : "");
done:
    text_clear(&out);
    return result == OK ? 0 : cmd_fail(e);
}
