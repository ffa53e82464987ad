// encode.c -- encodes conversations from the command line, for comparisons with transformers: each line of the input is
// {"messages": […], "tools": […], "extra": {…}}. For each it prints one line of JSON: the list of its texts, the one of
// the last turns first, each as {"ids": […], "trained": […]}; or {"error": …}. tests/golden/compare_chats.py runs it.
//
//   chat_encode TOKENIZER.json TEMPLATE-FILE TRAIN-ON <INPUT
#include "base/file.h"
#include "data/chat/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *encode(chat_workspace *w, const json_t *input, chat_train_on train_on)
{
    err e = {.code = OK};
    chat_tokens tokens;
    const json_t *tools = json_object_get(input, "tools");
    json_t *texts = json_array();
    chat_conversation c = {.messages = json_object_get(input, "messages"),
                           .tools = json_is_array(tools) ? tools : NULL,
                           .extra = json_object_get(input, "extra"),
                           .now = 1764350000};
    do {
        if (chat_encode(w, &c, train_on, &tokens, &e) != OK) {
            json_decref(texts);
            return json_pack("{s:s}", "error", e.text);
        }
        json_t *ids = json_array(), *trained = json_array();
        for (size_t i = 0; i < tokens.count; i++) {
            json_array_append_new(ids, json_integer(tokens.ids[i]));
            json_array_append_new(trained, json_integer(tokens.trained[i]));
        }
        json_array_append_new(texts, json_pack("{s:o, s:o}", "ids", ids, "trained", trained));
        c.count = tokens.rest;
    } while (c.count > 0);
    return texts;
}

static chat_template *open_template(const tokenizer *t, const char *file)
{
    err e = {.code = OK};
    char *source = NULL;
    size_t bytes = 0;
    chat_template *c = NULL;
    if (file_read(file, &source, &bytes, &e) != OK ||
        chat_template_open_text(t, file, source, bytes, &c, &e) != OK)
        fprintf(stderr, "%s\n", e.text);
    free(source);
    return c;
}

static void encode_lines(chat_workspace *w, chat_train_on train_on)
{
    char *line = NULL;
    size_t room = 0;
    int32_t end = -1;
    err e = {.code = OK};
    json_error_t problem;
    if (chat_end_of_turn(w, &end, &e) != OK) fprintf(stderr, "no end of a turn: %s\n", e.text);
    printf("%d\n", (int)end);
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        json_t *input = json_load_python(line, (size_t)n, 0, &problem);
        json_t *output = encode(w, input, train_on);
        json_dumpf(output, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(output);
        json_decref(input);
    }
    free(line);
}

int main(int argc, char **argv)
{
    err e = {.code = OK};
    tokenizer *t = NULL;
    chat_template *c = NULL;
    chat_workspace *w = NULL;
    int train_on = 0;
    if (argc != 4 || tokenizer_load(argv[1], &t, &e) != OK) {
        fprintf(stderr, "usage: chat_encode TOKENIZER.json TEMPLATE-FILE TRAIN-ON; %s\n", e.text);
        return 2;
    }
    while (train_on < CHAT_TRAIN_ONS && strcmp(CHAT_TRAIN_ON_NAMES[train_on], argv[3]) != 0)
        train_on++;
    c = open_template(t, argv[2]);
    if (c && chat_workspace_open(c, &w, &e) == OK) encode_lines(w, train_on);
    chat_workspace_close(w);
    chat_template_close(c);
    tokenizer_close(t);
    return c ? 0 : 1;
}
