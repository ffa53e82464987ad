// chat.c -- `trireme chat`: a conversation with a model folder, in a terminal or through pipes. The model's own chat
// template makes the text (data/chat); what the model has already read stays in its cache.
#include "data/chat/chat.h"
#include "base/alloc.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "cmd/text/drawing.h"
#include "session/adapter.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

typedef struct chat_request {
    const char *model, *adapter, *system, *prompt;
    int64_t context;
    text_drawing draw;
    bool quiet;
} chat_request;

#define AT(field) offsetof(chat_request, field)
static const flag flags[] = {
    {"--model", FLAG_TEXT, AT(model), "DIR",
     "Names a HuggingFace folder with a chat template, such as a checkpoint of a run, or an "
     "adapter, which names its base."},
    {"--adapter", FLAG_TEXT, AT(adapter), "DIR",
     "Names the folder of an adapter that is added to the model."},
    {"--system", FLAG_TEXT, AT(system), "TEXT",
     "Begins the conversation with this system message."},
    {"--prompt", FLAG_TEXT, AT(prompt), "TEXT", "Asks this alone, prints the answer and ends."},
    {"--tokens", FLAG_COUNT, AT(draw.tokens), "N",
     "Draws at most N tokens for an answer (default: 1024)."},
    {"--context", FLAG_COUNT, AT(context), "N",
     "Keeps room for N tokens of the conversation (default: as many as the model takes, at most "
     "8192)."},
    DRAWING_FLAGS(chat_request, draw),
    {"--quiet", FLAG_SWITCH, AT(quiet), NULL, "Prints the answers alone."},
};
enum { FLAGS = sizeof flags / sizeof *flags, MOST_CONTEXT = 8192 };

static status check_request(chat_request *r, err *e)
{
    status result = OK;
    if (!r->model) FAIL(E_USAGE, "chat: --model DIR is missing");
    TRY(drawing_check("chat", &r->draw, e));
done:
    return result;
}

// A conversation, and what the model has read of it.
typedef struct chat_session {
    const chat_request *r;
    generator g;
    chat_template *template;
    chat_workspace *work;
    json_t *messages;
    int32_t *fed; // [room] tokens that the cache has
    uint64_t answers;
    int interrupts; // signalfd of SIGINT
} chat_session;

// ---- Messages

static status add_message(chat_session *t, const char *role, const char *content, size_t bytes,
                          err *e)
{
    json_t *said = json_stringn(content, bytes);
    if (!said) return err_set(e, E_USAGE, "chat: the message is no UTF-8");
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", said);
    return json_array_append_new(t->messages, message) == 0 ? OK
                                                            : err_set(e, E_MEMORY, "out of memory");
}

// Forgets the conversation, but for what the system message says.
static status begin_anew(chat_session *t, const char *system, err *e)
{
    json_array_clear(t->messages);
    return system ? add_message(t, "system", system, strlen(system), e) : OK;
}

// ---- An answer

typedef struct chat_answer {
    chat_session *t;
    text content;
} chat_answer;

// Returns whether SIGINT has come.
static bool was_interrupted(const chat_session *t)
{
    struct signalfd_siginfo info;
    return read(t->interrupts, &info, sizeof info) == (ssize_t)sizeof info;
}

static status take_token(void *arg, int32_t id, const text *shown, bool *stop, err *e)
{
    status result = OK;
    chat_answer *a = arg;
    const int64_t position = decoder_position(a->t->g.decoder);
    if (id >= 0 && position < a->t->g.room) a->t->fed[position] = id;
    *stop = was_interrupted(a->t);
    if (shown->bytes == 0) return OK;
    text_add_bytes(&a->content, shown->chars, shown->bytes);
    TRY(console_write(shown->chars, shown->bytes, e));
done:
    return result;
}

// Reads the tokens that the cache does not have. *logits are those of the last one.
static status feed(chat_session *t, const chat_tokens *c, const float **logits, err *e)
{
    const int64_t known = decoder_position(t->g.decoder), count = (int64_t)c->count;
    int64_t same = 0;
    while (same < known && same < count - 1 && t->fed[same] == c->ids[same]) same++;
    decoder_rewind(t->g.decoder, same);
    memcpy(t->fed, c->ids, c->count * sizeof *c->ids);
    return decoder_feed(t->g.decoder, c->ids + same, count - same, logits, e);
}

static void say_end(const chat_session *t, generator_reason why)
{
    if (t->r->quiet || why == GENERATOR_END_OF_TEXT) return;
    if (why == GENERATOR_MODEL_LENGTH)
        console_say("the conversation fills the %lld tokens of --context; /reset begins anew",
                    (long long)t->g.room);
    else if (why == GENERATOR_STOPPED)
        console_say("interrupted");
    else
        console_say("the answer was cut after --tokens %lld", (long long)t->r->draw.tokens);
}

// Answers the conversation and adds the answer to it. *fits is false, and nothing is answered, where it has no room.
static status answer(chat_session *t, bool *fits, err *e)
{
    status result = OK;
    completion c = {.stops = 0};
    chat_answer a = {.t = t};
    chat_tokens tokens;
    const float *logits;
    generator_reason why;
    int32_t last;
    const chat_request *r = t->r;
    const generator_draw_options o = {.sample = drawing_sample(&r->draw, t->answers),
                                      .tokens = r->draw.tokens,
                                      .take = take_token,
                                      .arg = &a};
    const chat_conversation talk = {.messages = t->messages, .generation_prompt = true};
    TRY(chat_encode(t->work, &talk, CHAT_ASSISTANT, &tokens, e));
    *fits = (int64_t)tokens.count < t->g.room;
    if (!*fits) {
        console_say(
            "the conversation has %zu tokens, --context has room for %lld; /reset begins anew",
            tokens.count, (long long)t->g.room);
        goto done;
    }
    TRY(feed(t, &tokens, &logits, e));
    TRY(generator_draw(&t->g, logits, &o, &c, &why, &last, e));
    TRY(console_write("\n", 1, e));
    say_end(t, why);
    t->answers++;
    TRY(text_check(&a.content, e));
    TRY(add_message(t, "assistant", a.content.chars ? a.content.chars : "", a.content.bytes, e));
done:
    completion_clear(&c);
    text_clear(&a.content);
    return result;
}

static status ask(chat_session *t, const char *message, size_t bytes, err *e)
{
    status result = OK;
    bool fits;
    TRY(add_message(t, "user", message, bytes, e));
    TRY(answer(t, &fits, e));
    if (!fits) json_array_remove(t->messages, json_array_size(t->messages) - 1);
done:
    return result;
}

// ---- Lines

static const char HELP[] =
    "/reset           forget the conversation, but for the system message\n"
    "/system TEXT     begin anew with this system message\n"
    "/exit            end; so does the end of the input\n"
    "A line that ends with \\ goes on in the next line. Ctrl-C ends an answer.\n";

// The rest of the line behind the word, without blanks before it; NULL where the line does not begin with the word.
static const char *after_word(const char *line, const char *word)
{
    const size_t n = strlen(word);
    if (strncmp(line, word, n) != 0 || (line[n] && line[n] != ' ')) return NULL;
    return line + n + strspn(line + n, " ");
}

// Obeys a line that begins with "/".
static status obey(chat_session *t, const char *line, bool *ends, err *e)
{
    status result = OK;
    char *kept = NULL;
    const char *rest;
    const json_t *first = json_array_get(t->messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    if (after_word(line, "/exit")) {
        *ends = true;
    } else if (after_word(line, "/reset")) {
        if (role && strcmp(role, "system") == 0)
            TRY(text_copy(json_string_value(json_object_get(first, "content")), &kept, e));
        TRY(begin_anew(t, kept, e));
    } else if ((rest = after_word(line, "/system")) && *rest) {
        TRY(begin_anew(t, rest, e));
    } else if (after_word(line, "/help")) {
        console_report(HELP, sizeof HELP - 1);
    } else {
        console_say("found %s; valid: /reset, /system TEXT, /exit, /help", line);
    }
done:
    free(kept);
    return result;
}

// Reads a message: a line, and the next ones while they end with a backslash. *ended: there is none.
static status read_message(const chat_session *t, text *out, bool *ended, err *e)
{
    status result = OK;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    text_clear(out);
    *ended = false;
    pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL); // ends the program, as anywhere
    for (bool more = true; more && !*ended;) {
        if (isatty(STDIN_FILENO) && !t->r->quiet) console_report(out->bytes ? ". " : "> ", 2);
        errno = 0;
        n = getline(&line, &room, stdin);
        if (n < 0 && errno) {
            result = err_errno(e, "chat: cannot read stdin");
            goto done;
        }
        *ended = n < 0 && out->bytes == 0;
        if (n > 0 && line[n - 1] == '\n') n--;
        more = n > 0 && line[n - 1] == '\\';
        if (n > 0) text_add_bytes(out, line, (size_t)(more ? n - 1 : n));
        if (more) text_add(out, "\n");
    }
    TRY(text_check(out, e));
done:
    pthread_sigmask(SIG_BLOCK, &interrupt, NULL);
    free(line);
    return result;
}

static status talk(chat_session *t, err *e)
{
    status result = OK;
    text message = {0};
    bool ends = false;
    while (!ends) {
        TRY(read_message(t, &message, &ends, e));
        if (ends || message.bytes == 0) continue;
        if (message.chars[0] == '/')
            TRY(obey(t, message.chars, &ends, e));
        else
            TRY(ask(t, message.chars, message.bytes, e));
    }
done:
    text_clear(&message);
    return result;
}

// ---- The folder

// SIGINT ends an answer, not the program. Threads of the device inherit the mask.
static status take_interrupts(chat_session *t, err *e)
{
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, NULL);
    t->interrupts = signalfd(-1, &interrupt, SFD_NONBLOCK | SFD_CLOEXEC);
    return t->interrupts >= 0 ? OK : err_errno(e, "chat: signalfd");
}

static status open_talk(chat_session *t, const session_folders *f, err *e)
{
    status result = OK;
    const char *folder = f->base;
    const chat_request *r = t->r;
    const generator_options o = {.folder = folder,
                                 .adapter = f->adapter,
                                 .type = r->draw.type,
                                 .threads = (int)r->draw.threads};
    TRY(generator_open(&o, &t->g, e));
    TRY(chat_template_open(t->g.tokenizer, folder, &t->template, e));
    if (!t->template)
        FAIL(E_USAGE,
             "chat: %s: found no chat template; valid: a folder with chat_template.jinja, or "
             "chat_template in tokenizer_config.json; `trireme generate` continues a text",
             folder);
    TRY(chat_workspace_open(t->template, &t->work, e));
    const int64_t most = t->g.config.max_seq;
    if (r->context > most)
        FAIL(E_USAGE, "chat: --context: found %lld; valid: at most %lld, which the model takes",
             (long long)r->context, (long long)most);
    const int64_t room = r->context ? r->context : most < MOST_CONTEXT ? most : MOST_CONTEXT;
    TRY(alloc_array(&t->fed, (size_t)room, sizeof *t->fed, "the tokens of the conversation", e));
    TRY(take_interrupts(t, e));
    TRY(generator_load(&t->g, room, e));
    if (f->adapter) TRY(session_adapter_check_mark(f->adapter, t->g.mark, e));
    TRY(begin_anew(t, r->system, e));
done:
    return result;
}

static void close_talk(chat_session *t)
{
    if (t->interrupts >= 0) close(t->interrupts);
    chat_workspace_close(t->work);
    chat_template_close(t->template);
    generator_close(&t->g);
    json_decref(t->messages);
    free(t->fed);
}

static int cmd_chat(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    session_folders folders = {.base = NULL};
    chat_request r = {.draw = drawing_defaults(1024)};
    chat_session t = {.r = &r, .messages = json_array(), .interrupts = -1};
    TRY(flags_parse(flags, FLAGS, argc, argv, &r, NULL, e));
    TRY(check_request(&r, e));
    TRY(session_folders_find(&(session_model_names){r.model, r.adapter}, &folders, e));
    TRY(open_talk(&t, &folders, e));
    if (r.prompt) {
        TRY(ask(&t, r.prompt, strlen(r.prompt), e));
        goto done;
    }
    if (isatty(STDIN_FILENO) && !r.quiet) console_say("%s: /help names the commands", folders.base);
    TRY(talk(&t, e));
done:
    close_talk(&t);
    session_folders_clear(&folders);
    return result == OK ? 0 : cmd_fail(e);
}

const command command_chat = {
    .name = "chat",
    .run = cmd_chat,
    .usage = "--model DIR [flags]",
    .help = "Talks with a model.",
    .about = "Reads messages from stdin, a line each, and prints each answer token by token. The "
             "model's own chat "
             "template makes the text that it reads. /reset forgets the conversation; /help names "
             "the other commands.",
    .flags = flags,
    .flag_count = FLAGS,
};
