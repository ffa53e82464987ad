// chat_mask.c -- finds the bytes of a rendered conversation that are trained: by the template's generation blocks, and by
// rendering the conversation up to each message of the assistant and through it.
#include "data/chat/chat_private.h"

#include "base/alloc.h"

#include <ctype.h>
#include <string.h>

// The words that the assistant's turn adds behind what the generation prompt supplies: bytes of the text.
typedef struct chat_turn {
    size_t first, end;
    size_t certain; // the end of what the turn has wherever it stands in the conversation
} chat_turn;

// The strings of a message, by their numbers.
typedef struct chat_strings {
    int32_t first, end;
    int32_t role; // the string that says who speaks
} chat_strings;

// The conversation's messages are the first variable, so a message has the same numbers in each part of it.
static chat_strings strings_of(const chat_workspace *w, size_t message)
{
    chat_strings s = {.first = 1, .role = -1}; // 0 is the name "messages"
    for (size_t i = 0; i < message; i++)
        s.first += jinja_count_strings(json_array_get(w->messages, i));
    json_t *object = json_array_get(w->messages, message);
    s.end = s.first;
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        if (strcmp(json_object_iter_key(i), "role") == 0) s.role = s.end + 1;
        s.end += 1 + jinja_count_strings(json_object_iter_value(i));
    }
    return s;
}

// The first byte from `from` on that a string of the message has given, without its role.
static size_t first_given(const chat_text *t, const chat_strings *s, size_t from)
{
    size_t begin = 0;
    for (size_t i = 0; i < t->output.runs; begin += t->output.run[i++].bytes) {
        const jinja_run *run = &t->output.run[i];
        const bool given =
            run->string >= s->first && run->string < s->end && run->string != s->role;
        if (given && begin + run->bytes > from) return begin > from ? begin : from;
    }
    return t->output.chars.bytes;
}

// The end of the last byte that a string below `end` has given.
static size_t last_given(const chat_text *t, int32_t end)
{
    size_t begin = 0, last = 0;
    for (size_t i = 0; i < t->output.runs; begin += t->output.run[i++].bytes)
        if (t->output.run[i].string >= 0 && t->output.run[i].string < end)
            last = begin + t->output.run[i].bytes;
    return last;
}

static bool is_assistant(const chat_workspace *w, size_t message)
{
    const char *role =
        json_string_value(json_object_get(json_array_get(w->messages, message), "role"));
    return role && (strcmp(role, "assistant") == 0 || strcmp(role, "model") == 0);
}

// The number of the token that holds a byte.
static size_t token_of(const chat_workspace *w, size_t byte)
{
    size_t from = 0, to = w->tokens;
    while (from < to) {
        const size_t middle = (from + to) / 2;
        if (w->ends[middle] <= byte)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool is_special(const chat_workspace *w, size_t token)
{
    text decoded = {0};
    if (token >= w->tokens) return false;
    tokenizer_decode_next(w->chat->tokenizer, w->ids[token], true, &decoded);
    const bool special = !decoded.bytes && !decoded.failed;
    text_clear(&decoded);
    return special;
}

// Renders a part of the conversation: the messages before `message`, or through it.
static status render_part(chat_workspace *w, const chat_conversation *c, size_t message,
                          bool through, err *e)
{
    const status result = chat_render(w, c, message + through, !through, &w->part, e);
    if (result == E_USAGE)
        err_prefix(e,
                   "messages[%zu]: the conversation %s this message cannot be rendered: ", message,
                   through ? "through" : "before");
    return result;
}

// Finds how far the part agrees with the whole conversation, in whole tokens where its end differs. All words of its
// messages must be in that: a template may end the last message in another way than the others, and no more.
static status agreement(const chat_workspace *w, size_t message, int32_t strings, size_t *words,
                        size_t *out, err *e)
{
    status result = OK;
    const text *whole = &w->whole.output.chars, *part = &w->part.output.chars;
    size_t n = 0;
    while (n < part->bytes && n < whole->bytes && part->chars[n] == whole->chars[n]) n++;
    *words = last_given(&w->part, strings);
    if (n < *words)
        FAIL(E_USAGE,
             "messages[%zu]: the template writes the messages up to this one in another way when "
             "more follow (it "
             "rewrites history, as those do that drop earlier thinking); data.train_on: completion "
             "trains the last "
             "message alone",
             message);
    if (n < part->bytes) {
        const size_t token = token_of(w, n);
        n = token ? w->ends[token - 1] : 0;
    }
    *out = n > *words ? n : *words;
done:
    return result;
}

// Finds the turn of a message. E_USAGE where it cannot be had.
static status find_turn(chat_workspace *w, const chat_conversation *c, size_t message,
                        chat_turn *out, err *e)
{
    status result = OK;
    const chat_strings own = strings_of(w, message);
    size_t words = 0;
    TRY(render_part(w, c, message, false, e));
    TRY(agreement(w, message, own.first, &words, &out->first, e));
    if (out->first < w->part.output.chars.bytes && message && is_assistant(w, message - 1))
        FAIL(E_USAGE,
             "messages[%zu]: two messages of the assistant follow each other, and the template "
             "ends the first one in "
             "another way when it is the last",
             message);
    const size_t given = first_given(&w->whole, &own, words);
    if (out->first > given) out->first = given;
    TRY(render_part(w, c, message, true, e));
    TRY(agreement(w, message, own.end, &words, &out->end, e));
    out->certain = out->end < w->part.output.chars.bytes ? words : out->end;
    // Where the turn ends in another way than it does here, right behind its words, the token that ends it here counts.
    const size_t next = token_of(w, out->end);
    if (out->end == words && words < w->part.output.chars.bytes && is_special(w, next))
        out->end = w->ends[next];
    if (out->first >= out->end)
        FAIL(E_USAGE, "messages[%zu]: the template writes nothing for this message", message);
done:
    return result;
}

static bool is_blank(const text *t, size_t from, size_t to)
{
    while (from < to && isspace((unsigned char)t->chars[from])) from++;
    return from == to;
}

// Checks that the generation blocks within a turn are what prefixes give. They may leave out the white space with which the
// template ends the turn.
static status compare_rules(const chat_workspace *w, size_t message, const chat_turn *turn, err *e)
{
    const text *t = &w->whole.output.chars;
    size_t end = turn->certain, i = turn->first;
    if (end <= i) return OK; // nothing of it is certain
    while (end > turn->first && !w->block[end - 1] && isspace((unsigned char)t->chars[end - 1]))
        end--;
    while (i < end && w->block[i]) i++;
    if (i == end && is_blank(t, end, turn->certain)) return OK;
    text found = {0};
    text_add(&found, "");
    while (end > i && w->block[end - 1]) end--;
    text_add_printable(&found, t->chars + i, end - i, "");
    const status result = err_set(e, E_USAGE,
                                  "messages[%zu]: the template's {%% generation %%} leaves out "
                                  "what the model has to write: \"%.*s\"",
                                  message, TEXT_CUT(found.chars, 60));
    text_clear(&found);
    return result;
}

// One turn under train_on: assistant. `before` is the end of the turn before it, and then of this one.
static status mask_turn(chat_workspace *w, const chat_conversation *c, size_t message, bool blocks,
                        size_t *before, err *e)
{
    status result = OK;
    chat_turn turn;
    err problem = {.code = OK};
    result = find_turn(w, c, message, &turn, blocks ? &problem : e);
    if (result == E_USAGE && blocks) return OK; // the blocks alone say it
    TRY(result);
    if (!blocks) {
        memset(w->mask + turn.first, 1, turn.end - turn.first);
        goto done;
    }
    TRY(compare_rules(w, message, &turn, e));
    if (*before < turn.first) memset(w->mask + *before, 0, turn.first - *before);
    *before = turn.end;
done:
    return result;
}

// Marks the bytes of generation blocks.
static void mark_blocks(const chat_workspace *w, char *mask)
{
    size_t begin = 0;
    for (size_t i = 0; i < w->whole.output.runs; begin += w->whole.output.run[i++].bytes)
        memset(mask + begin, w->whole.output.run[i].generation, w->whole.output.run[i].bytes);
}

// The last message of the assistant alone.
static status mask_completion(chat_workspace *w, const chat_conversation *c, size_t last,
                              bool blocks, err *e)
{
    status result = OK;
    chat_turn turn;
    TRY(find_turn(w, c, last, &turn, e));
    if (blocks) TRY(compare_rules(w, last, &turn, e));
    for (size_t i = turn.first; i < turn.end; i++) w->mask[i] = blocks ? w->block[i] : 1;
done:
    return result;
}

status chat_mask(chat_workspace *w, const chat_conversation *c, chat_train_on train_on, err *e)
{
    status result = OK;
    const size_t bytes = w->whole.output.chars.bytes, count = json_array_size(w->messages);
    const bool blocks = jinja_marks_generation(chat_source(w->chat, c));
    size_t last = count, before = 0;
    TRY(alloc_grow(&w->mask, &w->mask_room, bytes + 1, 1, "a conversation", e));
    TRY(alloc_grow(&w->block, &w->block_room, bytes + 1, 1, "a conversation", e));
    memset(w->mask, train_on == CHAT_ALL, bytes);
    w->mask[bytes] = 0;
    if (train_on == CHAT_ALL) goto done;
    mark_blocks(w, w->block);
    if (train_on == CHAT_ASSISTANT && blocks) memcpy(w->mask, w->block, bytes);
    for (size_t i = 0; i < count; i++) {
        if (!is_assistant(w, i)) continue;
        last = i;
        if (train_on == CHAT_ASSISTANT) TRY(mask_turn(w, c, i, blocks, &before, e));
    }
    if (train_on == CHAT_COMPLETION && last < count) TRY(mask_completion(w, c, last, blocks, e));
done:
    return result;
}
