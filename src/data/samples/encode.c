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

static status check_chat(const samples_encoder *x, err *e)
{
    if (x->chat) return OK;
    return err_set(e, E_USAGE,
                   "a conversation needs the tokenizer's chat template; valid: chat_template.jinja "
                   "beside tokenizer.json, or chat_template in tokenizer_config.json");
}

// With train_on assistant only the assistant's turns of the completion are predicted, else all of it.
static status encode_lists(samples_encoder *x, const samples_draft *d, const json_t *completion,
                           samples_line *out, err *e)
{
    status result = OK;
    chat_tokens t;
    json_t *all = json_array();
    const bool is_pair = d->format == FORMAT_PREFERENCE,
               assistant = x->o->train_on == CHAT_ASSISTANT && !is_pair;
    chat_conversation c = {.messages = d->prompt,
                           .tools = d->tools,
                           .extra = d->extra,
                           .generation_prompt = true,
                           .now = SAMPLES_NOW};
    TRY(check_chat(x, e));
    TRY(chat_encode(x->chat, &c, CHAT_ALL, &t, e));
    TRY(keep_prompt(x, t.ids, t.count, e));
    if (!all || json_array_extend(all, (json_t *)d->prompt) != 0 ||
        json_array_extend(all, (json_t *)completion) != 0)
        FAIL(E_MEMORY, "no memory for a line of data");
    c.messages = all;
    c.generation_prompt = false;
    TRY(chat_encode(x->chat, &c, assistant ? CHAT_ASSISTANT : CHAT_ALL, &t, e));
    const bool everything = x->o->train_on == CHAT_ALL && !is_pair;
    x->common = everything ? 0 : common_tokens(x, t.ids, t.count);
    for (size_t i = 0; i < t.count; i++)
        TRY(add_token(out, t.ids[i], t.trained[i] && i >= x->common, e));
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
    if (!d->label) TRY(add_token(out, 0, false, e));
    if (d->label) TRY(encode_completion(x, d, 0, out, e));
    out->end[0] = out->count;
    if (d->label) TRY(add_token(out, 0, false, e));
    if (!d->label) TRY(encode_completion(x, d, 0, out, e));
    out->end[1] = out->count;
done:
    return result;
}

static status encode_completions(samples_encoder *x, const samples_draft *d, samples_line *out,
                                 err *e)
{
    status result = OK;
    size_t common[2];
    if (d->has_label) return encode_labelled(x, d, out, e);
    for (int k = 0; k < out->documents; k++) {
        TRY(encode_completion(x, d, k, out, e));
        out->end[k] = out->count;
        common[k] = x->common;
    }
    if (out->documents == 2) align_pair(out, common);
done:
    return result;
}

// ---- Conversations

// Messages may say that they are not trained on: train: false (axolotl), or weight: 0 (OpenAI).
static bool is_muted(const json_t *message)
{
    const json_t *weight = json_object_get(message, "weight");
    return json_is_false(json_object_get(message, "train")) ||
           (json_is_number(weight) && json_number_value(weight) == 0);
}

// The bytes of the text that the first `count` messages make.
static status measure(samples_encoder *x, const samples_draft *d, size_t count, bool generation,
                      size_t *bytes, err *e)
{
    status result = OK;
    chat_tokens t;
    json_t *begin = json_array();
    *bytes = 0;
    if (count == 0) goto done;
    for (size_t i = 0; i < count; i++)
        if (json_array_append(begin, json_array_get(d->messages, i)) != 0)
            FAIL(E_MEMORY, "no memory for a line of data");
    const chat_conversation c = {.messages = begin,
                                 .tools = d->tools,
                                 .extra = d->extra,
                                 .generation_prompt = generation,
                                 .now = SAMPLES_NOW};
    TRY(chat_encode(x->chat, &c, CHAT_ALL, &t, e));
    *bytes = t.bytes;
done:
    json_decref(begin);
    return result;
}

// Lists the bytes of muted messages: *ranges [2 * *count] holds first and end of each.
static status find_muted(samples_encoder *x, const samples_draft *d, size_t **ranges, size_t *count,
                         err *e)
{
    status result = OK;
    size_t i, room = 0;
    json_t *message;
    json_array_foreach((json_t *)d->messages, i, message)
    {
        if (!is_muted(message)) continue;
        const char *role = json_string_value(json_object_get(message, "role"));
        TRY(alloc_grow(ranges, &room, 2 * (*count + 1), sizeof **ranges, "the messages", e));
        TRY(measure(x, d, i, role && strcmp(role, "assistant") == 0, *ranges + 2 * *count, e));
        TRY(measure(x, d, i + 1, false, *ranges + 2 * *count + 1, e));
        ++*count;
    }
done:
    return result;
}

static status encode_messages(samples_encoder *x, const samples_draft *d, samples_line *out, err *e)
{
    status result = OK;
    chat_tokens t;
    size_t *muted = NULL, ranges = 0;
    const chat_conversation c = {
        .messages = d->messages, .tools = d->tools, .extra = d->extra, .now = SAMPLES_NOW};
    TRY(check_chat(x, e));
    TRY(find_muted(x, d, &muted, &ranges, e));
    TRY(chat_encode(x->chat, &c, d->trains_all ? CHAT_ALL : x->o->train_on, &t, e));
    for (size_t i = 0; i < t.count; i++) {
        bool trained = t.trained[i];
        for (size_t r = 0; r < ranges; r++)
            trained = trained && !(t.end[i] > muted[2 * r] && t.end[i] <= muted[2 * r + 1]);
        TRY(add_token(out, t.ids[i], trained, e));
    }
    out->is_chat = true;
done:
    free(muted);
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
    for (int d = 0; d < line->documents; d++) {
        size_t i = d > 0 ? line->end[d - 1] : 0;
        if (labelled && line->end[d] - i == 1) continue;
        while (i < line->end[d] && !(line->token[i] & SAMPLE_TRAINED)) i++;
        if (i < line->end[d]) continue;
        return err_set(e, E_USAGE, "no token of %s would be trained on; valid: %s",
                       line->documents == 1 ? "the line"
                       : d == 0             ? "chosen"
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
    out->count = 0;
    out->is_chat = false;
    TRY(samples_draft_read(line, bytes, format, x->chat != NULL, &d, e));
    out->format = d.format;
    out->weight = d.weight;
    out->documents = d.format == FORMAT_PREFERENCE ? 2 : 1;
    TRY(check_preference(x, &d, e));
    if (d.text)
        TRY(encode_text(x, d.text, out, e));
    else if (d.messages)
        TRY(encode_messages(x, &d, out, e));
    else
        TRY(encode_completions(x, &d, out, e));
    if (out->documents == 1) out->end[0] = out->count;
    TRY(check_labels(out, d.has_label, e));
done:
    samples_draft_clear(&d);
    return result;
}
