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
    bool rewritten; // the text has other words up to here than a generation; the rest is not set
    bool ends_in_another; // way, where it is the last one: its end is not in the text
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

static bool is_given(const jinja_run *run, const chat_strings *s)
{
    return run->string >= s->first && run->string < s->end && run->string != s->role;
}

// The first byte from `from` on that a string of the message has given, without its role.
static size_t first_given(const chat_text *t, const chat_strings *s, size_t from)
{
    size_t begin = 0;
    for (size_t i = 0; i < t->output.runs; begin += t->output.run[i++].bytes) {
        const jinja_run *run = &t->output.run[i];
        if (is_given(run, s) && begin + run->bytes > from) return begin > from ? begin : from;
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

// Returns whether a special token ends within these bytes.
static bool holds_special(const chat_workspace *w, size_t first, size_t end)
{
    for (size_t i = token_of(w, first); i < w->tokens && w->ends[i] <= end; i++)
        if (is_special(w, i)) return true;
    return false;
}

// Renders a part of the conversation: the messages before `message`, or through it.
static status render_part(chat_workspace *w, const chat_conversation *c, size_t message,
                          bool through, err *e)
{
    const bool prompt = !through && is_assistant(w, message);
    const status result = chat_render(w, c, message + through, prompt, &w->part, e);
    if (result == E_USAGE)
        err_prefix(e,
                   "messages[%zu]: the conversation %s this message cannot be rendered: ", message,
                   through ? "through" : "before");
    return result;
}

// Finds how far the part agrees with the text, in whole tokens where its end differs. Returns whether all words of its
// messages are in that: a template may end the last message in another way than the others, and no more.
static bool agree(const chat_workspace *w, int32_t strings, size_t *words, size_t *out)
{
    const text *whole = &w->whole.output.chars, *part = &w->part.output.chars;
    size_t n = 0;
    while (n < part->bytes && n < whole->bytes && part->chars[n] == whole->chars[n]) n++;
    *words = last_given(&w->part, strings);
    const bool agreed = n >= *words;
    if (n < part->bytes) {
        const size_t token = token_of(w, n);
        n = token ? w->ends[token - 1] : 0;
    }
    *out = n > *words ? n : *words;
    return agreed;
}

static bool is_untrained(const chat_conversation *c, size_t message)
{
    return c->untrained && c->untrained[message];
}

// Finds the turn of a message, or the words of a message that is not the assistant's. E_USAGE where it cannot be had.
static status find_turn(chat_workspace *w, const chat_conversation *c, size_t message,
                        chat_turn *out, err *e)
{
    status result = OK;
    const bool speaks = is_assistant(w, message);
    const chat_strings own = strings_of(w, message);
    size_t words = 0;
    *out = (chat_turn){.rewritten = true};
    if (speaks || message > 0) {
        TRY(render_part(w, c, message, false, e));
        if (!agree(w, own.first, &words, &out->first)) goto done;
    }
    // Two messages of the assistant follow each other, and the first one ends in another way where it is the last.
    if (speaks && out->first < w->part.output.chars.bytes && message &&
        is_assistant(w, message - 1))
        goto done;
    const size_t given = first_given(&w->whole, &own, words);
    if (out->first > given) out->first = given;
    TRY(render_part(w, c, message, true, e));
    if (!agree(w, own.end, &words, &out->end)) goto done;
    const bool ends_alike = out->end == w->part.output.chars.bytes;
    // Where the turn ends in another way than it does here, right behind its words, the token that ends it here counts.
    const size_t next = token_of(w, out->end), begin = out->first > words ? out->first : words;
    out->certain = ends_alike ? out->end : words;
    out->ends_in_another = !ends_alike && !holds_special(w, begin, out->end);
    if (!ends_alike && out->end == words && is_special(w, next)) out->end = w->ends[next];
    out->rewritten = !ends_alike && out->first >= out->end;
    if (ends_alike && out->first >= out->end && !is_untrained(c, message))
        FAIL(E_USAGE, "messages[%zu]: the template writes nothing for this message", message);
done:
    return result;
}

static status refuse_rewriting(size_t message, const char *valid, err *e)
{
    return err_set(e, E_USAGE,
                   "messages[%zu]: the template writes the messages up to this one in another way "
                   "than where the model goes on from them (it rewrites history, as those do that "
                   "drop earlier thinking); valid: %s",
                   message, valid);
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

// ---- What is trained

// Marks the bytes of generation blocks.
static void mark_blocks(const chat_workspace *w, char *mask)
{
    size_t begin = 0;
    for (size_t i = 0; i < w->whole.output.runs; begin += w->whole.output.run[i++].bytes)
        memset(mask + begin, w->whole.output.run[i].generation, w->whole.output.run[i].bytes);
}

// Unmarks the generation blocks that hold words of a message.
static void unmark_blocks(const chat_workspace *w, size_t message)
{
    const chat_strings own = strings_of(w, message);
    size_t block = 0, begin = 0; // of the block and of the run
    bool holds = false;
    for (size_t i = 0; i < w->whole.output.runs; begin += w->whole.output.run[i++].bytes) {
        const jinja_run *run = &w->whole.output.run[i];
        if (run->generation && !(begin > 0 && w->block[begin - 1])) {
            block = begin;
            holds = false;
        }
        holds = run->generation && (holds || is_given(run, &own));
        if (holds) memset(w->mask + block, 0, begin + run->bytes - block);
    }
}

// One turn by its block, under train_on: assistant. `before` is the end of the turn before it, and then of this one.
static status mask_block(chat_workspace *w, const chat_conversation *c, size_t message,
                         size_t *before, err *e)
{
    status result = OK;
    chat_turn turn;
    err problem = {.code = OK};
    result = find_turn(w, c, message, &turn, &problem);
    if (result != OK && result != E_USAGE) {
        if (e) *e = problem;
        return result;
    }
    const bool found = result == OK && !turn.rewritten; // else the blocks alone say it
    result = OK;
    if (is_untrained(c, message) && !found) unmark_blocks(w, message);
    if (!found) {
        *before = last_given(&w->whole, strings_of(w, message).end);
        while (w->block[*before]) ++*before;
        goto done;
    }
    if (!is_untrained(c, message)) TRY(compare_rules(w, message, &turn, e));
    if (*before < turn.first) memset(w->mask + *before, 0, turn.first - *before);
    if (is_untrained(c, message)) memset(w->mask + turn.first, 0, turn.end - turn.first);
    *before = turn.end;
done:
    return result;
}

// Appends what another rendering has from byte `first` on.
static status append(jinja_output *to, const jinja_output *from, size_t first, err *e)
{
    status result = OK;
    size_t begin = 0;
    TRY(alloc_grow(&to->run, &to->room, to->runs + from->runs, sizeof *to->run, "a conversation",
                   e));
    for (size_t i = 0; i < from->runs; begin += from->run[i++].bytes) {
        jinja_run run = from->run[i];
        if (begin + run.bytes <= first) continue;
        if (begin < first) run.bytes -= first - begin;
        to->run[to->runs++] = run;
    }
    text_add_bytes(&to->chars, from->chars.chars + first, from->chars.bytes - first);
    TRY(text_check(&to->chars, e));
done:
    return result;
}

// The text ends with the turn, and yet writes the messages before it in another way than the model sees them. Makes a text
// of what it sees and of what the template adds to that for the turn, and marks the turn. Behind the last word of these
// messages, the text must go on as the generation prompt does.
static status join(chat_workspace *w, const chat_conversation *c, size_t message, err *e)
{
    status result = OK;
    const int32_t history = strings_of(w, message).first;
    TRY(render_part(w, c, message, false, e));
    const text *whole = &w->whole.output.chars, *part = &w->part.output.chars;
    const size_t first = part->bytes, words = last_given(&w->part, history),
                 behind = last_given(&w->whole, history), prompt = first - words;
    if (whole->bytes - behind <= prompt ||
        memcmp(whole->chars + behind, part->chars + words, prompt) != 0)
        return refuse_rewriting(message, "\"train\": false in this message", e);
    TRY(append(&w->part.output, &w->whole.output, behind + prompt, e));
    const jinja_output joined = w->part.output;
    w->part.output = w->whole.output;
    w->whole.output = joined;
    w->joined = true;
    TRY(alloc_grow(&w->mask, &w->mask_room, joined.chars.bytes + 1, 1, "a conversation", e));
    memset(w->mask, 0, joined.chars.bytes + 1);
    memset(w->mask + first, 1, joined.chars.bytes - first);
done:
    return result;
}

// The last turns of the text, back to the first one that it does not hold as a generation has it: *rest then ends there.
static status mask_turns(chat_workspace *w, const chat_conversation *c, size_t *rest, err *e)
{
    status result = OK;
    const size_t count = *rest;
    *rest = 0;
    for (size_t i = count; i-- > 0 && *rest == 0;) {
        chat_turn turn = {.rewritten = true};
        if (!is_assistant(w, i) || is_untrained(c, i)) continue;
        if (!w->joined) TRY(find_turn(w, c, i, &turn, e));
        if ((turn.rewritten || turn.ends_in_another) && i + 1 < count)
            *rest = i + 1;
        else if (turn.rewritten)
            TRY(join(w, c, i, e));
        else
            memset(w->mask + turn.first, 1, turn.end - turn.first);
    }
done:
    return result;
}

// The last message of the assistant alone, of `count`.
static status mask_completion(chat_workspace *w, const chat_conversation *c, size_t count,
                              bool blocks, err *e)
{
    status result = OK;
    chat_turn turn;
    size_t end = count; // of the messages through the turn
    while (end > 0 && !is_assistant(w, end - 1)) end--;
    if (end == 0 || is_untrained(c, end - 1)) return OK;
    TRY(find_turn(w, c, end - 1, &turn, e));
    if (turn.rewritten && end == count && !blocks) return join(w, c, end - 1, e);
    if (turn.rewritten) return refuse_rewriting(end - 1, "a conversation that ends with it", e);
    if (blocks) TRY(compare_rules(w, end - 1, &turn, e));
    for (size_t i = turn.first; i < turn.end; i++) w->mask[i] = blocks ? w->block[i] : 1;
done:
    return result;
}

// All of the text but the messages that are not trained on.
static status mask_all(chat_workspace *w, const chat_conversation *c, size_t count, err *e)
{
    status result = OK;
    chat_turn turn;
    memset(w->mask, 1, w->whole.output.chars.bytes);
    for (size_t i = 0; i < count; i++) {
        if (!is_untrained(c, i)) continue;
        TRY(find_turn(w, c, i, &turn, e));
        if (turn.rewritten)
            return refuse_rewriting(i, "data.train_on assistant, or no \"train\": false here", e);
        if (turn.first < turn.end) memset(w->mask + turn.first, 0, turn.end - turn.first);
    }
done:
    return result;
}

static status mask_blocks(chat_workspace *w, const chat_conversation *c, size_t count, err *e)
{
    status result = OK;
    size_t before = 0;
    memcpy(w->mask, w->block, w->whole.output.chars.bytes);
    for (size_t i = 0; i < count; i++)
        if (is_assistant(w, i)) TRY(mask_block(w, c, i, &before, e));
done:
    return result;
}

status chat_mask(chat_workspace *w, const chat_conversation *c, chat_train_on train_on,
                 size_t *rest, err *e)
{
    status result = OK;
    const size_t bytes = w->whole.output.chars.bytes, count = *rest;
    const bool blocks = jinja_marks_generation(chat_source(w->chat, c));
    TRY(alloc_grow(&w->mask, &w->mask_room, bytes + 1, 1, "a conversation", e));
    TRY(alloc_grow(&w->block, &w->block_room, bytes + 1, 1, "a conversation", e));
    memset(w->mask, 0, bytes + 1);
    w->block[bytes] = 0;
    w->joined = false;
    mark_blocks(w, w->block);
    if (train_on == CHAT_ASSISTANT && !blocks) return mask_turns(w, c, rest, e);
    *rest = 0;
    if (train_on == CHAT_ALL) return mask_all(w, c, count, e);
    if (train_on == CHAT_ASSISTANT) return mask_blocks(w, c, count, e);
    TRY(mask_completion(w, c, count, blocks, e));
done:
    return result;
}
