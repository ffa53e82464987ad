// shell.c -- reads the script that starts a run: replaces the variables that it sets, and finds the command with the
// arguments. A file that starts no program is an argument file, whose words are the arguments. arguments.c makes a tree
// of them. It runs nothing: what only a shell or the environment knows is an error where the command needs it.
//
// LONG: one grammar, from a character to a command.
#include "config/dialect/shell.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLES_MAX = 1024, VALUE_MOST = 1 << 18 };

// A text whose bytes have lines.
typedef struct shell_text {
    text chars, lines; // lines: an int for each byte of chars
} shell_text;

typedef struct shell_variable {
    char *name;
    shell_text value;  // of a scalar
    shell_words items; // of an array
    // is_known false: a shell decides a part of the value, or a condition all of it; the other parts stand there.
    bool is_array, is_known;
    char cause[40]; // the first part that a shell decides, or nothing where a condition does
    int line;
} shell_variable;

typedef struct shell {
    const char *name;    // of the file
    const char *command; // the name of a command with subcommands; NULL: none
    const char *s, *end;
    int line, depth; // depth: of if, for, while and case
    shell_variable *all;
    int count;
    // The first text of an argument that could not be replaced; empty: none. The launcher's words may have some: they say
    // where the run is, not which run it is.
    text unknown;
    int unknown_line;
    const char *unknown_why;
} shell;

// ---- words and texts ----

static void add_char(shell_text *t, char c, int line)
{
    text_add_bytes(&t->chars, &c, 1);
    text_add_bytes(&t->lines, &line, sizeof line);
}

static void text_drop(shell_text *t)
{
    text_clear(&t->chars);
    text_clear(&t->lines);
}

static int line_at(const shell_text *t, size_t i)
{
    int line = 0;
    memcpy(&line, t->lines.chars + i * sizeof line, sizeof line);
    return line;
}

void shell_words_clear(shell_words *w)
{
    for (size_t i = 0; i < w->count; i++) free(w->word[i]);
    free(w->word);
    free(w->line);
    *w = (shell_words){.word = NULL};
}

static status add_word(shell_words *w, const char *s, int line, err *e)
{
    status result = OK;
    size_t lines = w->room, words = w->room;
    TRY(alloc_grow(&w->word, &words, w->count + 1, sizeof *w->word, "a script", e));
    TRY(alloc_grow(&w->line, &lines, w->count + 1, sizeof *w->line, "a script", e));
    w->room = words < lines ? words : lines;
    TRY(text_copy(s, &w->word[w->count], e));
    w->line[w->count++] = line;
done:
    return result;
}

// Ends the word in `t`, if there is one.
static status end_word(shell_text *t, bool *open, int line, shell_words *out, err *e)
{
    status result = OK;
    if (!*open) return OK;
    TRY(text_check(&t->chars, e));
    TRY(text_check(&t->lines, e));
    if (out->count > 4096) FAIL(E_USAGE, "more than 4096 words");
    TRY(add_word(out, t->chars.chars ? t->chars.chars : "", t->chars.bytes ? line_at(t, 0) : line,
                 e));
    text_drop(t);
    *open = false;
done:
    return result;
}

// ---- variables ----

static shell_variable *find_variable(const shell *h, const char *name, size_t bytes)
{
    for (int i = 0; i < h->count; i++)
        if (strncmp(h->all[i].name, name, bytes) == 0 && !h->all[i].name[bytes]) return &h->all[i];
    return NULL;
}

static void variable_clear(shell_variable *v)
{
    text_drop(&v->value);
    shell_words_clear(&v->items);
}

static size_t name_bytes(const char *s, const char *end)
{
    size_t n = 0;
    if (s < end && !isalpha((unsigned char)*s) && *s != '_') return 0;
    while (s + n < end && (isalnum((unsigned char)s[n]) || s[n] == '_')) n++;
    return n;
}

// Notes a text that cannot be replaced; the first one of a word stays.
static void note_unknown(shell *h, const char *s, size_t bytes, int line, const char *why)
{
    if (h->unknown.bytes) return;
    text_add_bytes(&h->unknown, s, bytes > 200 ? 200 : bytes);
    h->unknown_line = line;
    h->unknown_why = why;
}

// Adds the text of a variable: in quotes as it is, else as words.
static status add_value(const shell_text *value, bool quoted, int line, shell_text *t, bool *open,
                        shell_words *out, err *e)
{
    status result = OK;
    if (t->chars.bytes + value->chars.bytes > VALUE_MOST)
        return err_set(e, E_USAGE, "a text of more than %d bytes", VALUE_MOST);
    for (size_t i = 0; i < value->chars.bytes; i++) {
        const char c = value->chars.chars[i];
        if (!quoted && isspace((unsigned char)c)) {
            TRY(end_word(t, open, line, out, e));
        } else {
            add_char(t, c, line_at(value, i));
            *open = true;
        }
    }
done:
    return result;
}

static status add_items(const shell_words *items, shell_text *t, bool *open, shell_words *out,
                        err *e)
{
    status result = OK;
    for (size_t i = 0; i < items->count; i++) {
        if (i) TRY(end_word(t, open, items->line[i], out, e));
        for (const char *c = items->word[i]; *c; c++) add_char(t, *c, items->line[i]);
        *open = true;
    }
done:
    return result;
}

// ---- expansions ----

// The end of $(…), ${…} or `…`, which begins at s; NULL: there is none.
static const char *skip_expansion(const char *s, const char *end)
{
    char open = 0, close = '`';
    int depth = 1;
    if (*s++ == '$') open = *s, close = *s == '(' ? ')' : '}', s++;
    for (; s < end; s++) {
        if (*s == '\\') {
            s++;
        } else if (*s == close) {
            if (--depth == 0) return s + 1;
        } else if (open && *s == open) {
            depth++;
        }
    }
    return NULL;
}

static int lines_in(const char *s, const char *end)
{
    int lines = 0;
    for (; s < end; s++) lines += *s == '\n';
    return lines;
}

// Notes a variable that is not known, and why.
static void note_variable(shell *h, const char *s, size_t bytes, const shell_variable *v)
{
    text what = {0};
    text_add_bytes(&what, s, bytes > 80 ? 80 : bytes);
    if (v->cause[0]) text_addf(&what, ", which line %d sets to a text with %s", v->line, v->cause);
    if (what.chars)
        note_unknown(h, what.chars, what.bytes, h->line,
                     v->cause[0] ? "which only a shell can replace"
                                 : "which a condition of the script sets");
    text_clear(&what);
}

// Adds NAME's value, or `fallback` [bytes] of ${NAME:-fallback} where it has none.
static status replace(shell *h, const char *s, const char *after, const char *name, size_t bytes,
                      const char *fallback, bool quoted, shell_text *t, bool *open,
                      shell_words *out, err *e)
{
    const shell_variable *v = find_variable(h, name, bytes);
    const size_t fallback_bytes = fallback ? (size_t)(after - 1 - fallback) : 0;
    const bool empty = v && v->is_known && !v->is_array && !v->value.chars.bytes;
    if (v && !v->is_known) note_variable(h, s, (size_t)(after - s), v);
    if (v && v->is_array) return add_items(&v->items, t, open, out, e);
    if (v && !(empty && fallback)) return add_value(&v->value, quoted, h->line, t, open, out, e);
    if (!fallback) {
        note_unknown(h, s, (size_t)(after - s), h->line, "which nothing in the file sets");
    } else if (memchr(fallback, '$', fallback_bytes) || memchr(fallback, '"', fallback_bytes)) {
        note_unknown(h, s, (size_t)(after - s), h->line, "which only a shell can replace");
    } else {
        for (size_t i = 0; i < fallback_bytes; i++) add_char(t, fallback[i], h->line);
        *open = *open || fallback_bytes;
    }
    return OK;
}

// Replaces the $… or `…` at h->s.
static status take_expansion(shell *h, bool quoted, shell_text *t, bool *open, shell_words *out,
                             err *e)
{
    const char *s = h->s, *name = s + 1, *fallback = NULL;
    const bool braces = *s == '$' && name < h->end && *name == '{';
    if (*s == '`' || (name < h->end && (*name == '(' || braces))) {
        h->s = skip_expansion(s, h->end);
        if (!h->s) return err_set(e, E_USAGE, "found no end of %.*s", 2, s);
    }
    if (braces) name++;
    const size_t bytes = *s == '$' ? name_bytes(name, h->end) : 0;
    const char *after = name + bytes;
    bool fits = bytes > 0;
    if (braces) {
        const size_t rest = (size_t)(h->s - 1 - after);
        const bool is_list = rest == 3 && (!strncmp(after, "[@]", 3) || !strncmp(after, "[*]", 3));
        if (rest >= 1 && *after == '-') fallback = after + 1;
        if (rest >= 2 && strncmp(after, ":-", 2) == 0) fallback = after + 2;
        fits = bytes && (rest == 0 || fallback || is_list);
    } else if (bytes) {
        h->s = after;
    } else if (h->s == s) {
        h->s = s + (name < h->end && !isspace((unsigned char)*name) && *name != '"' ? 2 : 1);
        if (h->s == s + 1) { // A dollar sign alone is one.
            add_char(t, '$', h->line);
            *open = true;
            return OK;
        }
    }
    status result = OK;
    if (fits)
        result = replace(h, s, h->s, name, bytes, fallback, quoted, t, open, out, e);
    else
        note_unknown(h, s, (size_t)(h->s - s), h->line, "which only a shell can replace");
    h->line += lines_in(s, h->s);
    return result;
}

static status take_quoted(shell *h, char quote, shell_text *t, bool *open, shell_words *out, err *e)
{
    status result = OK;
    const int from = h->line;
    *open = true;
    for (h->s++; h->s < h->end && *h->s != quote;) {
        const char c = *h->s;
        if (quote == '"' && (c == '$' || c == '`')) {
            TRY(take_expansion(h, true, t, open, out, e));
            continue;
        }
        if (quote == '"' && c == '\\' && h->s + 1 < h->end && strchr("\"\\$`\n", h->s[1])) {
            h->s++;
            if (*h->s == '\n')
                h->line++;
            else
                add_char(t, *h->s, h->line);
        } else {
            if (c == '\n') h->line++;
            add_char(t, c, h->line);
        }
        h->s++;
    }
    if (h->s == h->end) FAIL(E_USAGE, "%d: found no %c at the end of a text", from, quote);
    h->s++;
done:
    return result;
}

static bool ends_command(char c)
{
    return c == '\n' || c == ';' || c == '|' || c == '&' || c == '(' || c == ')';
}

// Takes one word, which may become none or several, and moves behind it. `ends` says which characters end it.
static status take_word(shell *h, bool (*ends)(char c), shell_words *out, err *e)
{
    status result = OK;
    shell_text t = {.chars = {0}};
    bool open = false;
    const int from = h->line;
    while (h->s < h->end && !isspace((unsigned char)*h->s) && !ends(*h->s)) {
        const char c = *h->s;
        if (!c) FAIL(E_USAGE, "%d: a zero byte in text", h->line);
        if (c == '"' || c == '\'') {
            TRY(take_quoted(h, c, &t, &open, out, e));
        } else if (c == '$' || c == '`') {
            TRY(take_expansion(h, false, &t, &open, out, e));
        } else if (c == '\\' && h->s + 1 < h->end && h->s[1] == '\n') {
            break;
        } else {
            if (c == '\\' && h->s + 1 < h->end) h->s++;
            add_char(&t, *h->s++, h->line);
            open = true;
        }
    }
    TRY(end_word(&t, &open, from, out, e));
done:
    text_drop(&t);
    return result;
}

// Skips blanks, comments and lines that go on. Returns whether the command goes on behind them.
static bool skip_blanks(shell *h)
{
    for (; h->s < h->end; h->s++) {
        if (*h->s == '\\' && h->s + 1 < h->end && h->s[1] == '\n')
            h->line++, h->s++;
        else if (*h->s == '#')
            while (h->s + 1 < h->end && h->s[1] != '\n') h->s++;
        else if (!isspace((unsigned char)*h->s) || *h->s == '\n')
            return !ends_command(*h->s);
    }
    return false;
}

// ---- statements ----

static bool ends_item(char c)
{
    return c == ')';
}

// Takes the items of NAME=( … ), from behind the parenthesis.
static status take_items(shell *h, shell_words *out, err *e)
{
    status result = OK;
    for (;;) {
        while (h->s < h->end && (isspace((unsigned char)*h->s) || *h->s == '\\' || *h->s == '#')) {
            if (*h->s == '#')
                while (h->s + 1 < h->end && h->s[1] != '\n') h->s++;
            else if (*h->s == '\n')
                h->line++;
            h->s++;
        }
        if (h->s == h->end) FAIL(E_USAGE, "%d: found no ) at the end of a list", h->line);
        if (*h->s == ')') break;
        TRY(take_word(h, ends_item, out, e));
    }
    h->s++;
done:
    return result;
}

static status variable_for(shell *h, const char *name, size_t bytes, shell_variable **out, err *e)
{
    status result = OK;
    text copy = {0};
    *out = find_variable(h, name, bytes);
    if (*out) return OK;
    if (h->count == VARIABLES_MAX) return err_set(e, E_USAGE, "more than %d variables", h->count);
    text_add_bytes(&copy, name, bytes);
    TRY(text_take(&copy, &h->all[h->count].name, e));
    *out = &h->all[h->count++];
    (*out)->is_known = true;
done:
    text_clear(&copy);
    return result;
}

static bool ends_nothing(char c)
{
    return c == ';' || c == '&' || c == '|';
}

// Takes the value of NAME= or NAME+=, from behind the sign.
static status take_value(shell *h, shell_variable *v, bool adds, err *e)
{
    status result = OK;
    shell_words words = {.word = NULL};
    shell_text t = {.chars = {0}};
    bool open = false;
    text_clear(&h->unknown);
    if (!adds) variable_clear(v), v->is_known = true, v->is_array = false;
    if (h->s < h->end && *h->s == '(') {
        h->s++;
        v->is_array = true;
        TRY(take_items(h, &v->items, e));
    } else {
        // A scalar's value is one text: expansions of it are not split.
        while (h->s < h->end && !isspace((unsigned char)*h->s) && !ends_nothing(*h->s)) {
            const char c = *h->s;
            if (c == '"' || c == '\'')
                TRY(take_quoted(h, c, &t, &open, &words, e));
            else if (c == '$' || c == '`')
                TRY(take_expansion(h, true, &t, &open, &words, e));
            else
                add_char(&t, *h->s++, h->line);
        }
        // An array in quotes becomes several words; a scalar has them with blanks between.
        for (size_t i = 0; i < words.count; i++) {
            for (const char *c = words.word[i]; *c; c++) add_char(&v->value, *c, words.line[i]);
            add_char(&v->value, ' ', words.line[i]);
        }
        open = true;
        TRY(add_value(&t, true, h->line, &v->value, &open, &words, e));
    }
    if (h->unknown.bytes || h->depth) v->is_known = false;
    if (h->depth) variable_clear(v);
    // Of a variable within a variable, its name says enough.
    const char *unknown = h->unknown.chars ? h->unknown.chars : "";
    if (!adds || !v->cause[0])
        snprintf(v->cause, sizeof v->cause, "%.*s", h->depth ? 0 : (int)strcspn(unknown, ","),
                 unknown);
    v->line = h->unknown.bytes ? h->unknown_line : h->line;
done:
    text_drop(&t);
    shell_words_clear(&words);
    return result;
}

// Takes NAME=value at h->s. *is false where there is none.
static status take_assignment(shell *h, bool *is, err *e)
{
    status result = OK;
    const size_t bytes = name_bytes(h->s, h->end);
    const char *sign = h->s + bytes;
    shell_variable *v;
    const bool adds = bytes && sign + 1 < h->end && sign[0] == '+' && sign[1] == '=';
    *is = bytes && sign < h->end && (*sign == '=' || adds);
    if (!*is) return OK;
    TRY(variable_for(h, h->s, bytes, &v, e));
    h->s = sign + (adds ? 2 : 1);
    TRY(take_value(h, v, adds, e));
done:
    return result;
}

// Moves behind the lines of <<WORD.
static void skip_document(shell *h)
{
    while (h->s < h->end && (*h->s == '<' || *h->s == '-' || *h->s == ' ')) h->s++;
    const char quote = h->s < h->end && (*h->s == '"' || *h->s == '\'') ? *h->s++ : 0;
    const char *word = h->s;
    const size_t bytes = name_bytes(word, h->end);
    h->s += bytes + (quote != 0);
    while (bytes && h->s < h->end) {
        while (h->s < h->end && *h->s != '\n') h->s++;
        if (h->s < h->end) h->s++, h->line++;
        while (h->s < h->end && *h->s == '\t') h->s++;
        const size_t left = (size_t)(h->end - h->s);
        if (left >= bytes && strncmp(h->s, word, bytes) == 0 &&
            (left == bytes || h->s[bytes] == '\n')) {
            h->s += bytes;
            return;
        }
    }
}

static int opens(const char *word)
{
    static const char *const OPEN[] = {"if", "for", "while", "until", "case"};
    static const char *const CLOSE[] = {"fi", "done", "esac"};
    for (size_t i = 0; i < sizeof OPEN / sizeof *OPEN; i++)
        if (strcmp(word, OPEN[i]) == 0) return 1;
    for (size_t i = 0; i < sizeof CLOSE / sizeof *CLOSE; i++)
        if (strcmp(word, CLOSE[i]) == 0) return -1;
    return 0;
}

// Words after which a command begins.
static bool leads(const char *word)
{
    static const char *const WORDS[] = {"export", "local", "declare", "readonly", "then",
                                        "do",     "else",  "exec",    "time",     "nohup"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (strcmp(word, WORDS[i]) == 0) return true;
    return false;
}

// Moves behind a redirection such as >FILE or 2>&1 at h->s. Returns whether there is one.
static bool skip_redirection(shell *h)
{
    const char *s = h->s;
    while (s < h->end && isdigit((unsigned char)*s)) s++;
    if (s < h->end && *s == '&' && s + 1 < h->end && s[1] == '>') s++;
    if (s == h->end || (*s != '>' && *s != '<')) return false;
    if (*s == '<' && s + 1 < h->end && s[1] == '<') {
        h->s = s;
        skip_document(h);
        return true;
    }
    while (s < h->end && (*s == '>' || *s == '<' || *s == '&' || *s == ' ')) s++;
    while (s < h->end && !isspace((unsigned char)*s) && !ends_command(*s)) s++;
    h->s = s;
    return true;
}

// Returns whether a word names the program, such as pretrain_gpt.py.
static bool is_program(const char *word)
{
    const size_t bytes = strlen(word);
    return bytes > 3 && strcmp(word + bytes - 3, ".py") == 0 && word[0] != '-' &&
           !strpbrk(word, " \t\n");
}

// Returns whether a word is a name, or a path that ends with it.
static bool is_name(const char *word, const char *name)
{
    const char *slash = strrchr(word, '/');
    return strcmp(slash ? slash + 1 : word, name) == 0;
}

// The number of the word that names the program; -1: none. Words of a condition or of a message name none.
static int find_program(const shell *h, const shell_words *w)
{
    static const char *const OTHERS[] = {"[",  "[[", "test", "echo", "printf", "cd",
                                         "cp", "mv", "ls",   "cat",  "sed"};
    for (size_t i = 0; w->count && i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (strcmp(w->word[0], OTHERS[i]) == 0 || opens(w->word[0]) > 0) return -1;
    for (size_t i = 0; i < w->count; i++)
        if (is_program(w->word[i]) ||
            (i && h->command && w->word[i][0] != '-' && is_name(w->word[i - 1], h->command)))
            return (int)i;
    return -1;
}

static status take_command(shell *h, shell_words *out, err *e)
{
    status result = OK;
    bool begins = true, is_assignment;
    text_clear(&h->unknown);
    while (skip_blanks(h)) {
        if (begins) {
            TRY(take_assignment(h, &is_assignment, e));
            if (is_assignment) {
                text_clear(&h->unknown);
                continue;
            }
        }
        if (skip_redirection(h)) continue;
        const size_t before = out->count;
        const bool has_program = find_program(h, out) >= 0;
        TRY(take_word(h, ends_command, out, e));
        if (!has_program && find_program(h, out) >= 0) text_clear(&h->unknown);
        if (!begins || out->count == before) continue;
        const char *word = out->word[before];
        h->depth += opens(word);
        begins = leads(word);
        if (h->depth < 0) h->depth = 0;
        if (begins || opens(word) < 0) shell_words_clear(out);
    }
done:
    return result;
}

// ---- the command of the file ----

static status move_words(shell_words *from, size_t first, size_t end, shell_words *to, err *e)
{
    status result = OK;
    for (size_t i = first; i < end; i++) TRY(add_word(to, from->word[i], from->line[i], e));
done:
    return result;
}

// Puts a command's words where they belong.
static status keep_command(const shell *h, shell_words *w, shell_command *out, err *e)
{
    status result = OK;
    const int program = find_program(h, w);
    const bool is_option = w->count && w->word[0][0] == '-';
    if (program >= 0 && out->has_program)
        FAIL(E_USAGE, "%d: found a second command, %s; valid: one", w->line[program],
             w->word[program]);
    if (program < 0 && (!is_option || out->has_program)) return OK;
    if (program >= 0) {
        shell_words_clear(&out->argument);
        out->has_program = true;
        TRY(text_copy(w->word[program], &out->program, e));
        TRY(move_words(w, 0, (size_t)program, &out->launcher, e));
    }
    if (h->unknown.bytes)
        FAIL(E_USAGE, "%d: found %s, %s; valid: the value itself, or its assignment in the file",
             h->unknown_line, h->unknown.chars, h->unknown_why);
    TRY(move_words(w, (size_t)(program + 1), w->count, &out->argument, e));
done:
    return result;
}

void shell_command_clear(shell_command *c)
{
    shell_words_clear(&c->launcher);
    shell_words_clear(&c->argument);
    free(c->program);
    c->program = NULL;
}

status shell_read(const char *name, const char *s, size_t bytes, const char *command,
                  shell_command *out, err *e)
{
    status result = OK;
    shell h = {.name = name, .command = command, .s = s, .end = s + bytes, .line = 1};
    shell_words words = {.word = NULL};
    TRY(alloc_zeroed(&h.all, VARIABLES_MAX, sizeof *h.all, "a script", e));
    while (h.s < h.end) {
        result = take_command(&h, &words, e);
        if (result == OK) result = keep_command(&h, &words, out, e);
        if (result != OK) break;
        shell_words_clear(&words);
        if (h.s < h.end && *h.s == '\n') h.line++;
        if (h.s < h.end) h.s++;
    }
    if (result == E_USAGE) err_prefix(e, "%s:", name);
    if (result == OK && !out->argument.count)
        result = err_set(e, E_USAGE,
                         "%s: found no option; valid: a command with a program PROGRAM.py and its "
                         "options, or lines of options",
                         name);
done:
    shell_words_clear(&words);
    for (int i = 0; i < h.count; i++) {
        variable_clear(&h.all[i]);
        free(h.all[i].name);
    }
    free(h.all);
    text_clear(&h.unknown);
    return result;
}
