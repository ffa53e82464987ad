// chat_mask.c -- finds the bytes of a rendered conversation that are trained: by the template's generation blocks, and by
// rendering the conversation up to each message of the assistant and through it.
#include "data/chat/chat_private.h"

#include "base/alloc.h"

#include <ctype.h>
#include <string.h>

// Where an assistant's turn lies in the text: the header begins at `header`, the generation prompt supplies up to `first`.
typedef struct chat_turn {
    size_t header, first, end;
} chat_turn;

static bool begins_with(const text *whole, const text *part)
{
    return part->bytes <= whole->bytes && memcmp(whole->chars, part->chars, part->bytes) == 0;
}

// The first byte from `from` on that a string or a key of the conversation has given. A template may take the word of the
// turn's header from the message: a run that is `role` does not count. NULL: every run counts.
static size_t first_given(const chat_text *t, size_t from, const char *role)
{
    const size_t role_bytes = role ? strlen(role) : 0;
    size_t begin = 0;
    for (size_t i = 0; i < t->output.runs; begin += t->output.run[i++].bytes) {
        const jinja_run *run = &t->output.run[i];
        if (run->string < 0 || run->string >= t->strings || begin + run->bytes <= from) continue;
        if (role && run->bytes == role_bytes &&
            memcmp(t->output.chars.chars + begin, role, role_bytes) == 0)
            continue;
        return begin > from ? begin : from;
    }
    return t->output.chars.bytes;
}

static const char *role_of(const chat_workspace *w, size_t message)
{
    return json_string_value(json_object_get(json_array_get(w->messages, message), "role"));
}

static bool is_assistant(const chat_workspace *w, size_t message)
{
    const char *role = role_of(w, message);
    return role && (strcmp(role, "assistant") == 0 || strcmp(role, "model") == 0);
}

static status render_part(chat_workspace *w, const chat_conversation *c, size_t message,
                          bool through, bool prompt, chat_text *out, err *e)
{
    const status result = chat_render(w, c, message + through, prompt, out, e);
    if (result == E_USAGE)
        err_prefix(e, "messages[%zu]: the conversation %s it does not render: ", message,
                   through ? "through" : "before");
    return result;
}

// Finds the turn of a message. E_USAGE where it cannot be had, because the template writes a prefix of the conversation in
// another way than the whole one.
static status find_turn(chat_workspace *w, const chat_conversation *c, size_t message,
                        chat_turn *out, err *e)
{
    status result = OK;
    const text *whole = &w->whole.output.chars, *before = &w->before.output.chars,
               *prompt = &w->prompt.output.chars, *through = &w->through.output.chars;
    if (message) TRY(render_part(w, c, message, false, false, &w->before, e));
    TRY(render_part(w, c, message, false, true, &w->prompt, e));
    TRY(render_part(w, c, message, true, false, &w->through, e));
    *out = (chat_turn){.header = message ? before->bytes : 0, .end = through->bytes};
    if ((message && !begins_with(whole, before)) || !begins_with(whole, through))
        FAIL(E_USAGE,
             "messages[%zu]: the template writes the conversation up to this message in another "
             "way when "
             "more messages follow (it rewrites history, as those do that drop earlier thinking); "
             "data.train_on: completion trains the last message alone",
             message);
    const size_t given = first_given(&w->whole, out->header, role_of(w, message));
    size_t first = out->header;
    while (first < prompt->bytes && first < out->end && first < given &&
           prompt->chars[first] == whole->chars[first])
        first++;
    if (first == out->end)
        FAIL(E_USAGE, "messages[%zu]: the template writes nothing for this message", message);
    out->first = first;
done:
    return result;
}

static bool is_blank(const chat_text *t, size_t from, size_t to)
{
    bool blank = from < to && first_given(t, from, NULL) >= to;
    for (size_t i = from; i < to && blank; i++)
        blank = isspace((unsigned char)t->output.chars.chars[i]);
    return blank;
}

// Checks that the generation blocks within a turn are what prefixes give. They may hold the header, and they may leave out
// the white space with which the template ends the turn.
static status compare_rules(const chat_workspace *w, size_t message, const chat_turn *turn, err *e)
{
    status result = OK;
    size_t end = turn->end;
    while (end > turn->first && !w->block[end - 1]) end--;
    if (end == turn->first) end = turn->end;
    size_t i = turn->first;
    while (i < end && w->block[i]) i++;
    if (i == end && (end == turn->end || is_blank(&w->whole, end, turn->end))) goto done;
    const size_t from = i < end ? i : end;
    text found = {0};
    text_add(&found, "");
    text_add_printable(&found, w->whole.output.chars.chars + from, turn->end - from, "");
    result = err_set(
        e, E_USAGE,
        "messages[%zu]: the template's {%% generation %%} leaves out text that the model has to "
        "write: \"%.*s\"",
        message, TEXT_CUT(found.chars, 60));
    text_clear(&found);
done:
    return result;
}

// Clears the mask in the header of each turn, and adds the turns where the template has no blocks.
static status mask_turn(chat_workspace *w, const chat_conversation *c, size_t message, bool blocks,
                        err *e)
{
    status result = OK;
    chat_turn turn;
    err problem = {.code = OK};
    result = find_turn(w, c, message, &turn, blocks ? &problem : e);
    if (result == E_USAGE && blocks) {
        result = OK; // the blocks alone say it
        goto done;
    }
    TRY(result);
    if (!blocks) {
        memset(w->mask + turn.first, 1, turn.end - turn.first);
        goto done;
    }
    TRY(compare_rules(w, message, &turn, e));
    memset(w->mask + turn.header, 0, turn.first - turn.header);
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
    const bool tools = json_array_size(c->tools) && w->chat->with_tools;
    const bool blocks = jinja_marks_generation(tools ? w->chat->with_tools : w->chat->usual);
    size_t last = count;
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
        if (train_on == CHAT_ASSISTANT) TRY(mask_turn(w, c, i, blocks, e));
    }
    if (train_on == CHAT_COMPLETION && last < count) TRY(mask_completion(w, c, last, blocks, e));
done:
    return result;
}
