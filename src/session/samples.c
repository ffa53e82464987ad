// samples.c -- see samples.h. inputs.c calls it.
#include "session/samples.h"
#include "session/preference/preference.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- What the folder of the model gives

typedef struct samples_folder {
    tokenizer *tokenizer; // NULL: the job reads no JSONL
    chat_template *chat;  // NULL: none
} samples_folder;

static void folder_close(samples_folder *f)
{
    chat_template_close(f->chat);
    tokenizer_close(f->tokenizer);
}

static status folder_open(const job *j, samples_folder *out, err *e)
{
    status result = OK;
    char *path = NULL;
    *out = (samples_folder){.tokenizer = NULL};
    if (!j->model.path) goto done;
    TRY(tokenizer_folder_file(j->model.path, &path, e));
    if (!file_exists(path)) goto done;
    TRY(tokenizer_load(path, &out->tokenizer, e));
    TRY(chat_template_open(out->tokenizer, file_shown(j->model.path), &out->chat, e));
done:
    if (result != OK) folder_close(out);
    free(path);
    return result;
}

static bool any_samples(const dataset_source *sources, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (samples_is_source(sources[i].path)) return true;
    return false;
}

bool session_has_samples(const job *j)
{
    return (!j->own.train && any_samples(j->data.train, j->data.trains)) ||
           (!j->own.valid && any_samples(j->data.valid, j->data.valids));
}

// ---- How a turn ends

static void add_token(const tokenizer *t, int32_t id, text *out)
{
    text word = {0};
    tokenizer_decode_next(t, id, false, &word);
    if (word.bytes) text_add_printable(out, word.chars, word.bytes, "");
    text_addf(out, " (%" PRId32 ")", id);
    text_clear(&word);
}

// Says how a turn ends and what generation stops at; warns where the one is not among the others.
static status describe_turn(const job *j, const samples_folder *f, session_inputs *in, err *e)
{
    status result = OK;
    chat_workspace *w = NULL;
    int64_t *stop = NULL;
    size_t stops;
    const char *from = "generation_config.json"; // that names them
    int32_t end = -1;
    bool stops_there = false;
    text list = {0};
    TRY(chat_workspace_open(f->chat, &w, e));
    TRY(chat_end_of_turn(w, &end, e));
    TRY(model_folder_ends(j->model.path, from, &stop, &stops, e));
    if (stops == 0) {
        free(stop);
        stop = NULL;
        from = "config.json";
        TRY(model_folder_ends(j->model.path, from, &stop, &stops, e));
    }
    for (size_t i = 0; i < stops; i++) {
        text_add(&list, i ? ", " : "");
        add_token(f->tokenizer, (int32_t)stop[i], &list);
        stops_there = stops_there || stop[i] == end;
    }
    text *out = stops_there ? &in->samples_notes : &in->train_warnings;
    if (end < 0)
        text_add(out, "the chat template ends an assistant's turn with no token of its own");
    else
        text_add(out, "an assistant's turn ends with ");
    if (end >= 0) add_token(f->tokenizer, end, out);
    text_addf(out, "; generation stops at {%s}%s%s", list.chars ? list.chars : "",
              stops ? " of " : "", stops ? from : "");
    if (!stops_there)
        text_add(out, ", so the tuned model does not stop; valid: that token in eos_token_id of "
                      "generation_config.json");
    text_add(out, "\n");
done:
    free(stop);
    text_clear(&list);
    chat_workspace_close(w);
    return result;
}

// ---- What became of the lines

static void describe_counts(const job *j, const char *key, const samples_counts *n,
                            session_inputs *in)
{
    const double room = (double)n->rows * (double)j->data.seq_len;
    text_addf(&in->samples_notes,
              "%s: %" PRIu64 " samples in %" PRIu64 " sequences of %" PRId64 " tokens, %.1f %% "
              "full; %" PRIu64 " of %" PRIu64 " tokens have labels\n",
              key, n->samples, n->rows, j->data.seq_len, 100 * (double)n->tokens / room, n->labels,
              n->tokens);
    if (n->splits.conversations > 0) text_addf(&in->samples_notes, "%s: ", key);
    samples_describe_splits(&n->splits, &in->samples_notes);
    const char *word = SAMPLES_TRUNCATE_NAMES[j->data.truncate];
    text *out = &in->train_warnings;
    if (n->too_long == 0) return;
    text_addf(out,
              "%s: %" PRIu64 " of %" PRIu64 " lines are longer than a sequence and are %s "
              "(data.truncate %s): %" PRIu64 " of their labels are lost",
              key, n->too_long, n->lines,
              j->data.truncate == TRUNCATE_DROP    ? "left out"
              : j->data.truncate == TRUNCATE_SPLIT ? "split"
                                                   : "cut",
              word, n->labels_lost);
    if (n->unlabelled > 0)
        text_addf(out, ", and %" PRIu64 " parts without a label are left out", n->unlabelled);
    text_add(out, "\n");
}

// ---- Opening

typedef struct samples_key {
    const char *name;
    const dataset_source *sources;
    size_t count;
} samples_key;

static status open_one(const job *j, const samples_key *key, const samples_options *o,
                       session_inputs *in, bool *has_chat, dataset **out, err *e)
{
    samples_counts n;
    const status s = samples_open(key->sources, key->count, o, &n, out, e);
    if (s != OK) {
        err_prefix(e, "%s: ", key->name);
        return s;
    }
    *has_chat = *has_chat || n.has_chat;
    describe_counts(j, key->name, &n, in);
    return OK;
}

status session_open_samples(const job *j, session_inputs *in, int32_t vocab, bool train, bool valid,
                            err *e)
{
    status result = OK;
    samples_folder f;
    bool has_chat = false;
    const samples_key keys[] = {{"data.train", j->data.train, j->data.trains},
                                {"data.valid", j->data.valid, j->data.valids}};
    TRY(folder_open(j, &f, e));
    const samples_options o = {.tokenizer = f.tokenizer,
                               .chat = f.chat,
                               .format = j->data.format,
                               .packing = j->data.packing,
                               .truncate = j->data.truncate,
                               .train_on = j->data.train_on,
                               .seq_len = j->data.seq_len,
                               .vocab = vocab,
                               .pairs = session_preference(j).kind != PREFERENCE_NONE};
    if (train) TRY(open_one(j, &keys[0], &o, in, &has_chat, &in->train, e));
    if (valid) TRY(open_one(j, &keys[1], &o, in, &has_chat, &in->valid, e));
    if (train && valid) {
        const int extras = in->train->shape.extras + in->valid->shape.extras > 0;
        in->train->shape.extras = in->valid->shape.extras = extras;
    }
    if (has_chat && f.chat) TRY(describe_turn(j, &f, in, e));
done:
    folder_close(&f);
    return result;
}
