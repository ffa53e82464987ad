// chat_encode.c -- a conversation as tokens with labels: renders it, encodes the text, and carries the mask of bytes over
// to the tokens. A token is trained when a byte of it is, as in transformers.
#include "data/chat/chat_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const CHAT_TRAIN_ON_NAMES[CHAT_TRAIN_ONS + 1] = {"assistant", "completion", "all",
                                                             NULL};

status chat_workspace_open(const chat_template *c, chat_workspace **out, err *e)
{
    status result = OK;
    chat_workspace *w = NULL;
    TRY(alloc_zeroed(&w, 1, sizeof *w, "a conversation", e));
    w->chat = c;
    TRY(tokenizer_workspace_open(c->tokenizer, &w->encoder, e));
    *out = w;
    w = NULL;
done:
    chat_workspace_close(w);
    return result;
}

void chat_workspace_close(chat_workspace *w)
{
    if (!w) return;
    jinja_output_clear(&w->whole.output);
    jinja_output_clear(&w->part.output);
    tokenizer_workspace_close(w->encoder);
    json_decref(w->messages);
    free(w->mask);
    free(w->block);
    free(w->literal);
    free(w->trained);
    free(w);
}

// The ranges of the text that the conversation has given: what they spell is text.
static status find_literal(chat_workspace *w, size_t *count, err *e)
{
    status result = OK;
    const chat_text *t = &w->whole;
    size_t begin = 0;
    *count = 0;
    TRY(alloc_grow(&w->literal, &w->literal_room, t->output.runs, sizeof *w->literal,
                   "a conversation", e));
    for (size_t i = 0; i < t->output.runs; begin += t->output.run[i++].bytes) {
        const jinja_run *run = &t->output.run[i];
        tokenizer_range *last = *count ? &w->literal[*count - 1] : NULL;
        if (run->string < 0 || run->string >= t->strings || !run->bytes) continue;
        if (last && last->first + last->bytes == begin)
            last->bytes += run->bytes;
        else
            w->literal[(*count)++] = (tokenizer_range){begin, run->bytes};
    }
done:
    return result;
}

static status label_tokens(chat_workspace *w, chat_tokens *out, err *e)
{
    status result = OK;
    TRY(alloc_grow(&w->trained, &w->trained_room, out->count, 1, "a conversation", e));
    for (size_t i = 0, first = 0; i < out->count; first = out->end[i++]) {
        const size_t bytes = out->end[i] - first;
        // A token without bytes of the text, such as a space before it, belongs to both its neighbours.
        const bool trained = bytes ? memchr(w->mask + first, 1, bytes) != NULL
                                   : first > 0 && w->mask[first - 1] && w->mask[first];
        w->trained[i] = i > 0 && trained;
    }
    out->trained = w->trained;
done:
    return result;
}

static status encode(chat_workspace *w, chat_tokens *out, err *e)
{
    status result = OK;
    const text *t = &w->whole.output.chars;
    size_t literals = 0;
    *out = (chat_tokens){.text = t->chars, .bytes = t->bytes};
    if (t->bytes > UINT32_MAX) FAIL(E_USAGE, "the conversation has more than 4 GiB of text");
    TRY(find_literal(w, &literals, e));
    TRY(tokenizer_encode_literal(w->encoder, t->chars, t->bytes, w->literal, literals, &out->ids,
                                 &out->end, &out->count, e));
    w->ids = out->ids;
    w->ends = out->end;
    w->tokens = out->count;
done:
    return result;
}

status chat_encode(chat_workspace *w, const chat_conversation *c, chat_train_on train_on,
                   chat_tokens *out, err *e)
{
    status result = OK;
    // All parts of one conversation have one time.
    chat_conversation own = *c;
    if (!own.now) own.now = (int64_t)time(NULL);
    json_decref(w->messages);
    w->messages = NULL;
    TRY(chat_normalize(c->messages, &w->messages, e));
    size_t rest = c->count ? c->count : json_array_size(w->messages);
    do { // again where the whole text does not even hold its last turn as it is generated
        TRY(chat_render(w, &own, rest, c->generation_prompt, &w->whole, e));
        TRY(encode(w, out, e));
        TRY(chat_mask(w, &own, train_on, &rest, e));
    } while (rest > 0 && !memchr(w->mask, 1, out->bytes));
    if (w->joined) TRY(encode(w, out, e));
    TRY(label_tokens(w, out, e));
    out->rest = rest;
done:
    return result;
}

// The end of the assistant's words in the text; 0: they are not there.
static size_t words_end(const chat_text *t, size_t from, const char *words)
{
    const size_t bytes = strlen(words);
    for (size_t i = t->output.chars.bytes; i >= from + bytes; i--)
        if (memcmp(t->output.chars.chars + i - bytes, words, bytes) == 0) return i;
    return 0;
}

status chat_end_of_turn(chat_workspace *w, int32_t *id, err *e)
{
    static const char WORDS[] = "Trireme";
    status result = OK;
    chat_tokens tokens;
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "Who rows?",
                                 "role", "assistant", "content", WORDS);
    *id = -1;
    if (!messages) FAIL(E_MEMORY, "no memory for a conversation");
    TRY(chat_encode(w, &(chat_conversation){.messages = messages}, CHAT_ASSISTANT, &tokens, e));
    const size_t end = words_end(&w->whole, 0, WORDS);
    for (size_t i = 1; i < tokens.count && end && *id < 0; i++)
        if (tokens.end[i - 1] >= end && tokens.trained[i]) *id = tokens.ids[i];
done:
    json_decref(messages);
    return result;
}
