// chat_private.h -- a chat template and a workspace, for the files of this folder.
#ifndef TRIREME_DATA_CHAT_PRIVATE_H
#define TRIREME_DATA_CHAT_PRIVATE_H

#include "data/chat/chat.h"
#include "jinja/jinja.h"

struct chat_template {
    const tokenizer *tokenizer;
    jinja *usual;
    jinja *with_tools; // NULL: the usual one
    json_t *special;   // bos_token, eos_token, …: variables of the template
};

// What a conversation was rendered as.
typedef struct chat_text {
    jinja_output output;
    int32_t strings; // numbers below are of strings and keys that the conversation gives
} chat_text;

struct chat_workspace {
    const chat_template *chat;
    tokenizer_workspace *encoder;
    chat_text whole, part; // the conversation, and some of its messages
    bool joined;           // chat_mask has made another text of `whole`
    json_t *messages;      // as the template gets them
    char *mask;            // [mask_room] per byte of `whole`: it is trained
    char *block;           // [block_room] … it is in a generation block
    const int32_t *ids;    // [tokens] of `whole`
    const uint32_t *ends;  // [tokens]
    size_t tokens;
    tokenizer_range *literal;
    unsigned char *trained;
    size_t mask_room, block_room, literal_room, trained_room;
};

// Makes the messages as templates get them: without members that are null, and with the reasoning under the names that
// templates read. E_USAGE names a message that is no object.
status chat_normalize(const json_t *messages, json_t **out, err *e);
// The template for a conversation.
const jinja *chat_source(const chat_template *t, const chat_conversation *c);
// Renders the first `count` messages of w->messages.
status chat_render(chat_workspace *w, const chat_conversation *c, size_t count, bool prompt,
                   chat_text *out, err *e);
// Sets w->mask for the first *rest messages, which are rendered and encoded. *rest becomes that of chat_tokens.
status chat_mask(chat_workspace *w, const chat_conversation *c, chat_train_on train_on,
                 size_t *rest, err *e);

#endif
