// chat.h -- a conversation as the tokens that a model reads, with the tokens that it should learn. It renders the model's
// own chat template (jinja/jinja.h), encodes the text, and marks what an assistant says. Samples of conversations, the
// command chat and `data inspect` call it. It knows no files of data and no batches.
//
// Two rules find what is trained on. Where the template has {% generation %}, these blocks are it. Where it has none, and
// most have none, the conversation is rendered up to each assistant message (with the generation prompt) and through it,
// and the message is the difference. Where both can be had they must agree. What the generation prompt supplies is not
// trained, also where a block holds it; what ends the turn is. Strings of the messages, the tools and the extra variables
// that spell a special token are encoded as text.
//
// A template may rewrite history: it writes a message in another way when more follow, as those do that drop earlier
// thinking. No text of the second rule then holds all turns as a generation has them, and the conversation becomes several
// texts, each of which ends with a turn. Turns after each other that agree share a text. Where even this text rewrites the
// messages before its turn, it is joined of the rendering before the turn and of what the template adds for the turn.
#ifndef TRIREME_DATA_CHAT_CHAT_H
#define TRIREME_DATA_CHAT_CHAT_H

#include "base/err.h"
#include "base/json.h"
#include "data/tokenizer/tokenizer.h"

typedef struct chat_template chat_template;
typedef struct chat_workspace chat_workspace;

// Which tokens have labels.
typedef enum chat_train_on {
    CHAT_ASSISTANT,
    CHAT_COMPLETION,
    CHAT_ALL,
    CHAT_TRAIN_ONS
} chat_train_on;
// The words of data.train_on, by enumerator; ended by NULL. "completion" trains the last assistant message alone.
extern const char *const CHAT_TRAIN_ON_NAMES[CHAT_TRAIN_ONS + 1];

// A conversation to encode. All values are borrowed.
typedef struct chat_conversation {
    const json_t *messages; // array of {role, content, tool_calls, reasoning_content, …}
    size_t count;           // the first so many of them; 0: all
    const bool *untrained;  // [messages] those without labels, whatever train_on says; NULL: none
    const json_t *tools;    // array; NULL: none
    const json_t
        *extra; // object of other variables of the template (chat_template_kwargs); NULL: none
    bool generation_prompt; // the text ends where an assistant begins to speak
    int64_t now;            // the time of the template's strftime_now; 0: the current one
} chat_conversation;

// The tokens of a conversation. They belong to the workspace until its next use.
typedef struct chat_tokens {
    size_t count;
    const int32_t *ids;           // [count]
    const unsigned char *trained; // [count] 1: the token has a label; the first token never has
    const uint32_t *end;          // [count] the byte of `text` behind the token
    const char *text;             // what the template rendered
    size_t bytes;
    // Of CHAT_ASSISTANT: the turns of the first so many messages need a text of their own; 0: none does. The next call takes
    // it as `count`.
    size_t rest;
} chat_tokens;

// Opens the template of a tokenizer: chat_template.jinja beside tokenizer.json, else chat_template of
// tokenizer_config.json (a string, or the entry "default" of a list, whose entry "tool_use" is for conversations with
// tools). `name` of the folder is for messages. `t` is borrowed. *out is NULL where the tokenizer has no template. The
// owner calls chat_template_close.
status chat_template_open(const tokenizer *t, const char *name, chat_template **out, err *e);
// Opens a template that the caller gives.
status chat_template_open_text(const tokenizer *t, const char *name, const char *source,
                               size_t bytes, chat_template **out, err *e);
void chat_template_close(chat_template *c); // NULL allowed

// One for each thread.
status chat_workspace_open(const chat_template *c, chat_workspace **out, err *e);
void chat_workspace_close(chat_workspace *w); // NULL allowed

// Encodes a conversation. Under CHAT_ASSISTANT, where the template rewrites history, the text ends with the last turn, and
// out->rest says what is left. E_USAGE names the message where the template refuses it, where history is rewritten and the
// turn cannot be found, or where the two rules do not agree.
status chat_encode(chat_workspace *w, const chat_conversation *c, chat_train_on train_on,
                   chat_tokens *out, err *e);

// How a turn of the assistant ends: the first token behind its content that has a label, as in "<|im_end|>"; -1: none.
// It renders a short conversation.
status chat_end_of_turn(chat_workspace *w, int32_t *id, err *e);

#endif
