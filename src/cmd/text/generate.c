// generate.c -- `trireme generate`: samples text from a model folder, and prints each token at
// once.
#include "base/alloc.h"
#include "cmd/cmd.h"
#include "cmd/console.h"

#include "base/file.h"
#include "cmd/command.h"
#include "cmd/text/drawing.h"
#include "session/adapter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct generate_request {
    const char *model, *adapter, *prompt, *prompt_file;
    int64_t samples;
    text_drawing draw;
    flag_texts stop;
    bool json, quiet;
    text from_file; // the prompt, if it comes from a file or stdin
} generate_request;

#define AT(field) offsetof(generate_request, field)
static const flag flags[] = {
    {"--model", FLAG_TEXT, AT(model), "DIR",
     "Names a HuggingFace folder with tokenizer.json, such as a checkpoint of a run, or an "
     "adapter, which names its base."},
    {"--adapter", FLAG_TEXT, AT(adapter), "DIR",
     "Names the folder of an adapter that is added to the model."},
    {"--prompt", FLAG_TEXT, AT(prompt), "TEXT",
     "Sets the prompt; - reads it from stdin, without its last line break."},
    {"--prompt-file", FLAG_TEXT, AT(prompt_file), "FILE",
     "Reads the prompt from a file, without its last line break."},
    {"--tokens", FLAG_COUNT, AT(draw.tokens), "N",
     "Draws at most N tokens (default: 100); the text ends earlier at the end-of-text token."},
    {"--samples", FLAG_COUNT, AT(samples), "N",
     "Continues the prompt N times (default: 1); sample k of a seed is always the same "
     "text."},
    {"--stop", FLAG_TEXTS, AT(stop), "TEXT",
     "Ends a sample before this text, which is not printed. Several texts may be given."},
    DRAWING_FLAGS(generate_request, draw),
    {"--json", FLAG_SWITCH, AT(json), NULL,
     "Prints one JSON object at the end: the prompt, and for each sample its text, its ids, the "
     "number of tokens, and the reason why it ended."},
    {"--quiet", FLAG_SWITCH, AT(quiet), NULL, "Does not print the reason why samples ended."},
};
enum { FLAGS = sizeof flags / sizeof *flags, PROMPT_BYTES = 16 << 20 };

static status check_request(generate_request *r, err *e)
{
    status result = OK;
    if (!r->model) FAIL(E_USAGE, "generate: --model DIR is missing");
    if (!r->prompt && !r->prompt_file) FAIL(E_USAGE, "generate: --prompt TEXT is missing");
    if (r->prompt && r->prompt_file)
        FAIL(E_USAGE, "generate: found --prompt and --prompt-file; valid: one of them");
    if (r->samples < 1) FAIL(E_USAGE, "generate: --samples: found 0; valid: 1 or more");
    for (size_t i = 0; i < r->stop.count; i++)
        if (!r->stop.items[i][0]) FAIL(E_USAGE, "generate: --stop: the text is empty");
    TRY(drawing_check("generate", &r->draw, e));
done:
    return result;
}

// ---- The prompt

static status read_stdin(text *out, err *e)
{
    char piece[1 << 16];
    size_t n;
    errno = 0;
    while ((n = fread(piece, 1, sizeof piece, stdin)) > 0) {
        text_add_bytes(out, piece, n);
        if (out->bytes > PROMPT_BYTES)
            return err_set(e, E_USAGE, "generate: --prompt: stdin has more than %d bytes",
                           PROMPT_BYTES);
    }
    return ferror(stdin) ? err_errno(e, "generate: --prompt: cannot read stdin") : OK;
}

// Editors and pipes end a text with a line break, which is not part of the prompt.
static status read_prompt(generate_request *r, err *e)
{
    status result = OK;
    char *content = NULL;
    size_t bytes;
    text *t = &r->from_file;
    if (r->prompt && strcmp(r->prompt, "-") != 0) return OK;
    if (r->prompt_file) {
        result = file_read_small(r->prompt_file, PROMPT_BYTES, &content, &bytes, e);
        if (result != OK) {
            err_prefix(e, "generate: --prompt-file: ");
            goto done;
        }
        text_add_bytes(t, content, bytes);
    } else {
        TRY(read_stdin(t, e));
    }
    if (t->bytes && t->chars[t->bytes - 1] == '\n') t->chars[--t->bytes] = 0;
    if (t->bytes && memchr(t->chars, 0, t->bytes))
        FAIL(E_USAGE, "generate: the prompt has a zero byte; valid: text in UTF-8");
    r->prompt = t->chars ? t->chars : "";
done:
    free(content);
    return result;
}

// ---- The samples

typedef struct generate_writer {
    const generate_request *r;
    generator *g;
    json_t *json; // the array of samples; NULL: text is printed token by token
} generate_writer;

// A sample that is being drawn.
typedef struct generate_sample {
    const generate_writer *w;
    text all; // the prompt and what was drawn
    json_t *ids;
} generate_sample;

static status print(const generate_writer *w, const text *shown, err *e)
{
    const status made = text_check(shown, e);
    if (made != OK || w->json || shown->bytes == 0) return made;
    return console_write(shown->chars, shown->bytes, e);
}

static status take_token(void *arg, int32_t id, const text *shown, bool *stop, err *e)
{
    status result = OK;
    generate_sample *s = arg;
    (void)stop;
    TRY(print(s->w, shown, e));
    if (shown->bytes) text_add_bytes(&s->all, shown->chars, shown->bytes);
    if (id >= 0) json_array_append_new(s->ids, json_integer(id));
done:
    return result;
}

static void say_reason(const generate_writer *w, uint64_t number, size_t tokens,
                       generator_reason why, const completion *c)
{
    text line = {0};
    if (w->r->quiet || w->json) return;
    if (w->r->samples > 1) text_addf(&line, "sample %llu: ", (unsigned long long)number + 1);
    text_addf(&line, "ended after %zu token%s: ", tokens, tokens == 1 ? "" : "s");
    if (why == GENERATOR_END_OF_TEXT)
        text_add(&line, "end of text");
    else if (why == GENERATOR_STOP_STRING)
        text_addf(&line, "stop string \"%s\"", c->found);
    else if (why == GENERATOR_MODEL_LENGTH)
        text_addf(&line, "the model takes at most %lld tokens", (long long)w->g->config.max_seq);
    else
        text_addf(&line, "--tokens %lld", (long long)w->r->draw.tokens);
    console_say("%s", line.chars);
    text_clear(&line);
}

static void add_json(const generate_sample *s, generator_reason why, const completion *c)
{
    json_t *one = json_object();
    json_object_set_new(one, "text", json_stringn(s->all.chars, s->all.bytes));
    json_object_set_new(one, "tokens", json_integer((json_int_t)json_array_size(s->ids)));
    json_object_set_new(one, "reason", json_string(GENERATOR_REASON_NAMES[why]));
    if (c->found) json_object_set_new(one, "stop", json_string(c->found));
    json_object_set(one, "ids", s->ids);
    json_array_append_new(s->w->json, one);
}

static status one_sample(const generate_writer *w, const float *logits, uint64_t number, err *e)
{
    status result = OK;
    const generate_request *r = w->r;
    completion c = {.stop = r->stop.items, .stops = r->stop.count};
    generate_sample s = {.w = w, .ids = json_array()};
    const generator_draw_options o = {.sample = drawing_sample(&r->draw, number),
                                      .tokens = r->draw.tokens,
                                      .take = take_token,
                                      .arg = &s};
    generator_reason why;
    int32_t last;
    if (r->samples > 1)
        text_addf(&s.all, "--- sample %llu of %lld ---\n", (unsigned long long)number + 1,
                  (long long)r->samples);
    if (!w->json) text_add(&s.all, r->prompt);
    TRY(print(w, &s.all, e));
    text_clear(&s.all);
    text_add(&s.all, r->prompt);
    TRY(generator_draw(w->g, logits, &o, &c, &why, &last, e));
    TRY(text_check(&s.all, e));
    TRY(print(w, &(text){.chars = (char[]){"\n"}, .bytes = 1}, e));
    say_reason(w, number, json_array_size(s.ids), why, &c);
    if (w->json) add_json(&s, why, &c);
done:
    json_decref(s.ids);
    completion_clear(&c);
    text_clear(&s.all);
    return result;
}

// The prompt passes the model once; every sample continues from there.
static status all_samples(const generate_writer *w, const int32_t *ids, int64_t count, err *e)
{
    status result = OK;
    const float *logits;
    const size_t bytes = (size_t)decoder_vocab(w->g->decoder) * sizeof *logits;
    float *first = NULL;
    TRY(alloc_array(&first, bytes, 1, "the logits", e));
    TRY(decoder_feed(w->g->decoder, ids, count, &logits, e));
    memcpy(first, logits, bytes);
    for (int64_t k = 0; k < w->r->samples; k++) {
        decoder_rewind(w->g->decoder, count);
        TRY(one_sample(w, first, (uint64_t)k, e));
    }
done:
    free(first);
    return result;
}

static status generate_from(const generate_request *r, const session_folders *f, json_t *samples,
                            err *e)
{
    status result = OK;
    generator g = {.ends = 0};
    tokenizer_workspace *work = NULL;
    const int32_t *ids;
    size_t count;
    const generator_options o = {.folder = f->base,
                                 .adapter = f->adapter,
                                 .type = r->draw.type,
                                 .threads = (int)r->draw.threads};
    TRY(generator_open(&o, &g, e));
    TRY(tokenizer_workspace_open(g.tokenizer, &work, e));
    TRY(tokenizer_encode_with_special_tokens(work, r->prompt, strlen(r->prompt), &ids, &count, e));
    if (count == 0) FAIL(E_USAGE, "generate: --prompt: the prompt is empty");
    const int64_t most = g.config.max_seq, given = (int64_t)count;
    if (given >= most)
        FAIL(E_USAGE, "generate: --prompt: %zu tokens, the model takes at most %lld", count,
             (long long)most);
    TRY(generator_load(&g, r->draw.tokens < most - given ? given + r->draw.tokens : most, e));
    if (f->adapter) TRY(session_adapter_check_mark(f->adapter, g.mark, e));
    const generate_writer w = {.r = r, .g = &g, .json = samples};
    TRY(all_samples(&w, ids, given, e));
done:
    tokenizer_workspace_close(work);
    generator_close(&g);
    return result;
}

// Prints the samples as text, or appends them to `samples` if it is not NULL (--json).
static status generate(const generate_request *r, json_t *samples, err *e)
{
    status result = OK;
    session_folders f = {.base = NULL};
    TRY(session_folders_find(&(session_model_names){r->model, r->adapter}, &f, e));
    TRY(generate_from(r, &f, samples, e));
done:
    session_folders_clear(&f);
    return result;
}

// The member `text` repeats the first sample's text, which is all that a request for one sample
// needs.
static status print_json(const char *prompt, json_t *samples, err *e)
{
    json_t *j = json_object();
    json_object_set_new(j, "prompt", json_string(prompt));
    json_object_set(j, "text", json_object_get(json_array_get(samples, 0), "text"));
    json_object_set(j, "samples", samples);
    json_dumpf(j, stdout, 0);
    putchar('\n');
    json_decref(j);
    return console_flush(e);
}

static int cmd_generate(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    generate_request r = {.draw = drawing_defaults(100), .samples = 1};
    json_t *samples = NULL;
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, NULL, e));
    TRY(check_request(&r, e));
    TRY(read_prompt(&r, e));
    if (r.json) samples = json_array();
    TRY(generate(&r, samples, e));
    if (r.json) TRY(print_json(r.prompt, samples, e));
done:
    json_decref(samples);
    flag_texts_clear(&r.stop);
    text_clear(&r.from_file);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_generate = {
    .name = "generate",
    .run = cmd_generate,
    .usage = "--model DIR --prompt TEXT [flags]",
    .help = "Samples text from a model folder.",
    .about =
        "Prints the prompt and then each token at once. A line on stderr says why a sample ended.",
    .flags = flags,
    .flag_count = FLAGS,
};
