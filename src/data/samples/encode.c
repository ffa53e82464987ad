// encode.c -- a line as tokens, with the bit SAMPLE_TRAINED where a token is predicted. A text ends with the end-of-text
// token, and so does a completion; a conversation ends as its template says. read.c calls it, one encoder a thread. It
// knows no rows.
//
// A prompt and its completion are encoded as one text. The completion begins where the tokens of the prompt alone and
// those of both part, as in TRL (common_prefix_length): tokens may merge over the border.
#include "data/samples/samples_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

struct samples_encoder {
    const samples_options *o;
    tokenizer_workspace *words;
    chat_workspace *chat; // NULL: the tokenizer has no template
    int32_t end_of_text;  // -1: none
    int32_t *prompt;      // [prompt_tokens] the ids of a prompt
    size_t prompt_tokens, prompt_room;
    size_t common; // tokens of the prompt with which the last completion begins
};

status samples_encoder_open(const samples_options *o, samples_encoder **out, err *e)
{
    status result = OK;
    samples_encoder *x = NULL;
    TRY(alloc_zeroed(&x, 1, sizeof *x, "the encoder of samples", e));
    x->o = o;
    x->end_of_text = tokenizer_end_of_text(o->tokenizer);
    TRY(tokenizer_workspace_open(o->tokenizer, &x->words, e));
    if (o->chat) TRY(chat_workspace_open(o->chat, &x->chat, e));
    *out = x;
    x = NULL;
done:
    samples_encoder_close(x);
    return result;
}

void samples_encoder_close(samples_encoder *x)
{
    if (!x) return;
    tokenizer_workspace_close(x->words);
    chat_workspace_close(x->chat);
    free(x->prompt);
    free(x);
}

static status add_token(samples_line *out, int32_t id, bool trained, err *e)
{
    status result = OK;
    if (out->count == out->room)
        TRY(alloc_grow(&out->token, &out->room, out->count + 1, sizeof *out->token,
                       "the tokens of a line", e));
    out->token[out->count++] = trained ? id | SAMPLE_TRAINED : id;
done:
    return result;
}

static status end_document(samples_line *out, err *e)
{
    status result = OK;
    TRY(alloc_grow(&out->end, &out->end_room, out->documents + 1, sizeof *out->end,
                   "the tokens of a line", e));
    out->end[out->documents++] = out->count;
done:
    return result;
}

void samples_splits_add(samples_splits *s, const samples_line *line)
{
    if (line->pair || line->documents < 2) return;
    s->conversations++;
    s->samples += line->documents;
}

void samples_line_clear(samples_line *line)
{
    free(line->token);
    free(line->end);
    *line = (samples_line){.token = NULL};
}

// ---- Texts

static status encode_words(samples_encoder *x, const char *chars, size_t bytes, const int32_t **ids,
                           size_t *count, err *e)
{
    return tokenizer_encode_with_special_tokens(x->words, chars, bytes, ids, count, e);
}

// Adds the ids of a text, of which those from `from` on are predicted, and the end of the text.
static status add_text(samples_encoder *x, const int32_t *ids, size_t count, size_t from,
                       samples_line *out, err *e)
{
    status result = OK;
    if (from == 0) from = 1;
    for (size_t i = 0; i < count; i++) TRY(add_token(out, ids[i], i >= from, e));
    if (x->end_of_text >= 0 && (count == 0 || ids[count - 1] != x->end_of_text))
        TRY(add_token(out, x->end_of_text, count > 0, e));
    TRY(end_document(out, e));
done:
    return result;
}

static status encode_text(samples_encoder *x, const json_t *s, samples_line *out, err *e)
{
    const int32_t *ids;
    size_t count;
    const status result =
        encode_words(x, json_string_value(s), json_string_length(s), &ids, &count, e);
    return result == OK ? add_text(x, ids, count, 1, out, e) : result;
}

// ---- Conversations

static status check_chat(const samples_encoder *x, err *e)
{
    if (x->chat) return OK;
    return err_set(e, E_USAGE,
                   "a conversation needs the tokenizer's chat template; valid: chat_template.jinja "
                   "beside tokenizer.json, or chat_template in tokenizer_config.json");
}

static chat_conversation conversation_of(const samples_draft *d, const json_t *messages)
{
    return (chat_conversation){
        .messages = messages, .tools = d->tools, .extra = d->extra, .now = SAMPLES_NOW};
}

static void reverse(int32_t *token, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        const int32_t kept = token[i];
        token[i] = token[count - 1 - i];
        token[count - 1 - i] = kept;
    }
}

// The last turns came first: puts the documents into the order of the conversation.
static void reverse_documents(samples_line *out)
{
    const size_t total = out->count, borders = out->documents - 1;
    for (size_t i = 0; i < borders; i++) out->end[i] = total - out->end[i];
    for (size_t i = 0; i < borders / 2; i++) {
        const size_t kept = out->end[i];
        out->end[i] = out->end[borders - 1 - i];
        out->end[borders - 1 - i] = kept;
    }
    reverse(out->token, total);
    for (size_t d = 0, first = 0; d < out->documents; first = out->end[d++])
        reverse(out->token + first, out->end[d] - first);
}

// Messages may say that they are not trained on: train: false (axolotl), or weight: 0 (OpenAI).
static bool is_muted(const json_t *message)
{
    const json_t *weight = json_object_get(message, "weight");
    return json_is_false(json_object_get(message, "train")) ||
           (json_is_number(weight) && json_number_value(weight) == 0);
}

// Adds the documents of a conversation. Its first `given` messages are not trained on, and those that say so.
static status add_messages(samples_encoder *x, const samples_draft *d, const json_t *messages,
                           size_t given, samples_line *out, err *e)
{
    status result = OK;
    chat_tokens t;
    bool *untrained = NULL;
    const size_t count = json_array_size(messages);
    chat_conversation c = conversation_of(d, messages);
    TRY(check_chat(x, e));
    TRY(alloc_array(&untrained, count, sizeof *untrained, "the messages", e));
    for (size_t i = 0; i < count; i++)
        untrained[i] = i < given || is_muted(json_array_get(messages, i));
    c.untrained = untrained;
    do {
        TRY(chat_encode(x->chat, &c, d->trains_all ? CHAT_ALL : x->o->train_on, &t, e));
        for (size_t i = 0; i < t.count; i++) TRY(add_token(out, t.ids[i], t.trained[i], e));
        TRY(end_document(out, e));
        c.count = t.rest;
    } while (c.count > 0);
    reverse_documents(out);
    out->is_chat = true;
done:
    free(untrained);
    return result;
}

// ---- Prompts and completions

static status keep_prompt(samples_encoder *x, const int32_t *ids, size_t count, err *e)
{
    status result = OK;
    TRY(alloc_grow(&x->prompt, &x->prompt_room, count + 1, sizeof *x->prompt, "a prompt", e));
    if (count > 0) memcpy(x->prompt, ids, count * sizeof *ids);
    x->prompt_tokens = count;
done:
    return result;
}

// The number of tokens with which ids and the prompt begin alike.
static size_t common_tokens(const samples_encoder *x, const int32_t *ids, size_t count)
{
    size_t n = 0;
    while (n < count && n < x->prompt_tokens && ids[n] == x->prompt[n]) n++;
    return n;
}

static status encode_strings(samples_encoder *x, const samples_draft *d, const json_t *completion,
                             samples_line *out, err *e)
{
    const json_t *prompt = d->prompt;
    const bool is_pair = d->format == FORMAT_PREFERENCE;
    status result = OK;
    text both = {0};
    const int32_t *ids;
    size_t count;
    if (x->end_of_text < 0)
        FAIL(E_USAGE, "a completion ends with the end-of-text token, and the tokenizer has none; "
                      "valid: eos_token in tokenizer_config.json");
    TRY(encode_words(x, json_string_value(prompt), json_string_length(prompt), &ids, &count, e));
    TRY(keep_prompt(x, ids, count, e));
    text_add_bytes(&both, json_string_value(prompt), json_string_length(prompt));
    text_add_bytes(&both, json_string_value(completion), json_string_length(completion));
    TRY(text_check(&both, e));
    TRY(encode_words(x, both.chars ? both.chars : "", both.bytes, &ids, &count, e));
    const bool everything = x->o->train_on == CHAT_ALL && !is_pair;
    x->common = everything ? 0 : common_tokens(x, ids, count);
    TRY(add_text(x, ids, count, x->common, out, e));
done:
    text_clear(&both);
    return result;
}

// With train_on assistant only the assistant's turns of the completion are predicted, else all of it.
static status encode_lists(samples_encoder *x, const samples_draft *d, const json_t *completion,
                           samples_line *out, err *e)
{
    status result = OK;
    chat_tokens t;
    json_t *all = json_array();
    const bool is_pair = d->format == FORMAT_PREFERENCE;
    chat_conversation c = conversation_of(d, d->prompt);
    if (!all || json_array_extend(all, (json_t *)d->prompt) != 0 ||
        json_array_extend(all, (json_t *)completion) != 0)
        FAIL(E_MEMORY, "no memory for a line of data");
    if (x->o->train_on == CHAT_ASSISTANT && !is_pair) {
        TRY(add_messages(x, d, all, json_array_size(d->prompt), out, e));
        goto done;
    }
    TRY(check_chat(x, e));
    c.generation_prompt = true;
    TRY(chat_encode(x->chat, &c, CHAT_ALL, &t, e));
    TRY(keep_prompt(x, t.ids, t.count, e));
    c.messages = all;
    c.generation_prompt = false;
    TRY(chat_encode(x->chat, &c, CHAT_ALL, &t, e));
    const bool everything = x->o->train_on == CHAT_ALL && !is_pair;
    x->common = everything ? 0 : common_tokens(x, t.ids, t.count);
    for (size_t i = 0; i < t.count; i++)
        TRY(add_token(out, t.ids[i], t.trained[i] && i >= x->common, e));
    TRY(end_document(out, e));
    out->is_chat = true;
done:
    json_decref(all);
    return result;
}

// Of a pair, both completions begin at the same token: the first that is not the prompt's in one of them.
static void align_pair(samples_line *out, const size_t *common)
{
    const int shorter = common[1] < common[0];
    const size_t base = shorter ? 0 : out->end[0];
    for (size_t i = common[shorter] > 0 ? common[shorter] : 1; i < common[!shorter]; i++)
        out->token[base + i] |= SAMPLE_TRAINED;
}

static status encode_completion(samples_encoder *x, const samples_draft *d, int k,
                                samples_line *out, err *e)
{
    return json_is_string(d->prompt) ? encode_strings(x, d, d->completion[k], out, e)
                                     : encode_lists(x, d, d->completion[k], out, e);
}

// A completion with a label: good ones stand where chosen stands, bad ones where rejected does.
static status encode_labelled(samples_encoder *x, const samples_draft *d, samples_line *out, err *e)
{
    status result = OK;
    for (int k = 0; k < 2; k++) {
        if (k == !d->label) {
            TRY(encode_completion(x, d, 0, out, e));
        } else {
            TRY(add_token(out, 0, false, e));
            TRY(end_document(out, e));
        }
    }
done:
    return result;
}

static status encode_completions(samples_encoder *x, const samples_draft *d, samples_line *out,
                                 err *e)
{
    status result = OK;
    size_t common[2];
    if (d->has_label) return encode_labelled(x, d, out, e);
    for (int k = 0; k < (out->pair ? 2 : 1); k++) {
        TRY(encode_completion(x, d, k, out, e));
        common[k] = x->common;
    }
    if (out->pair) align_pair(out, common);
done:
    return result;
}

// ---- A line

static status check_preference(const samples_encoder *x, const samples_draft *d, err *e)
{
    const bool is_preference = d->format == FORMAT_PREFERENCE;
    if (x->o->any || is_preference == x->o->pairs) return OK;
    if (is_preference)
        return err_set(e, E_USAGE, "found %s; it needs a loss of preferences",
                       d->has_label ? "a completion with a label" : "chosen and rejected");
    return err_set(e, E_USAGE,
                   "found a line of the format %s; a loss of preferences needs chosen "
                   "and rejected, or prompt, completion and label",
                   SAMPLES_FORMAT_NAMES[d->format]);
}

static status check_labels(const samples_line *line, bool labelled, err *e)
{
    for (size_t d = 0; d < line->documents; d++) {
        size_t i = d > 0 ? line->end[d - 1] : 0;
        if (labelled && line->end[d] - i == 1) continue;
        while (i < line->end[d] && !(line->token[i] & SAMPLE_TRAINED)) i++;
        if (i < line->end[d]) continue;
        return err_set(e, E_USAGE, "no token of %s would be trained on; valid: %s",
                       !line->pair ? "the line"
                       : d == 0    ? "chosen"
                                   : "rejected",
                       line->is_chat ? "a conversation with a message of the assistant"
                                     : "a text or a completion that is not empty");
    }
    return OK;
}

status samples_encode(samples_encoder *x, const char *line, size_t bytes, samples_format format,
                      samples_line *out, err *e)
{
    status result = OK;
    samples_draft d;
    out->count = out->documents = 0;
    out->is_chat = false;
    TRY(samples_draft_read(line, bytes, format, x->chat != NULL, &d, e));
    out->format = d.format;
    out->weight = d.weight;
    out->pair = d.format == FORMAT_PREFERENCE;
    TRY(check_preference(x, &d, e));
    if (d.text)
        TRY(encode_text(x, d.text, out, e));
    else if (d.messages)
        TRY(add_messages(x, &d, d.messages, 0, out, e));
    else
        TRY(encode_completions(x, &d, out, e));
    TRY(check_labels(out, d.has_label, e));
done:
    samples_draft_clear(&d);
    return result;
}
