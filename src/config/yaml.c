// yaml.c -- reads YAML into the tree of yaml_node.h from libyaml's events, which have line numbers.
// settings.c calls it for job files and for bracketed values of the command line. It does not know
// keys. It refuses aliases, so that each value of a job file stands at its key.
#include "config/yaml_node.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 16, KEYS_MAX = 1024 };

typedef struct yaml_builder {
    const char *name;
    const char *content; // [bytes]
    size_t bytes;
    yaml_node *root;
    yaml_node *open[DEPTH_MAX]; // the open maps and lists, outermost first
    char *key[DEPTH_MAX];       // of a map: the key whose value comes next
    int key_line[DEPTH_MAX];
    int keys[DEPTH_MAX]; // of a map: its keys so far
    int depth;
    int documents;
    bool repeats; // a key may be given twice in one map
} yaml_builder;

// For patterns such as *.bias, which YAML takes for an alias.
static const char QUOTE_STARS[] = "; text that begins with * needs quotes";

static int line_of(yaml_mark_t mark)
{
    return (int)mark.line + 1;
}

static int column_of(yaml_mark_t mark)
{
    return (int)mark.column + 1;
}

// Returns whether a tab stands among the spaces that begin this line, counted from 0.
static bool is_indented_by_tab(const yaml_builder *b, size_t line)
{
    const char *s = b->content, *const end = s + b->bytes;
    for (; line > 0 && s; line--) {
        s = memchr(s, '\n', (size_t)(end - s));
        if (s) s++;
    }
    while (s && s < end && *s == ' ') s++;
    return s && s < end && *s == '\t';
}

static status parser_error(const yaml_builder *b, const yaml_parser_t *p, err *e)
{
    const char *problem = p->problem ? p->problem : "cannot be read";
    if (p->error == YAML_MEMORY_ERROR) return err_set(e, E_MEMORY, "no memory for %s", b->name);
    if (p->error == YAML_READER_ERROR)
        return err_set(e, E_USAGE, "%s: broken YAML: %s at byte %zu", b->name, problem,
                       p->problem_offset);
    if (is_indented_by_tab(b, p->problem_mark.line))
        return err_set(e, E_USAGE, "%s:%d: found a tab before the key; valid: spaces", b->name,
                       line_of(p->problem_mark));
    const char *context = p->context ? p->context : "";
    return err_set(e, E_USAGE, "%s:%d:%d: broken YAML: %s%s%s%s", b->name, line_of(p->problem_mark),
                   column_of(p->problem_mark), problem, *context ? " " : "", context,
                   strstr(context, "scanning an alias") ? QUOTE_STARS : "");
}

// Adds a value to the map or list that is open. Takes `n`.
static status add_value(yaml_builder *b, yaml_node *n, err *e)
{
    status result = OK;
    if (b->depth == 0) {
        b->root = n;
        return OK;
    }
    yaml_node *parent = b->open[b->depth - 1];
    if (parent->kind == NODE_MAP) {
        const yaml_node *earlier = yaml_node_entry(parent, b->key[b->depth - 1]);
        if (++b->keys[b->depth - 1] > KEYS_MAX)
            FAIL(E_USAGE, "%s:%d: more than %d keys in one section", b->name,
                 b->key_line[b->depth - 1], KEYS_MAX);
        n->key = b->key[b->depth - 1];
        n->line = b->key_line[b->depth - 1];
        b->key[b->depth - 1] = NULL;
        if (earlier && !b->repeats)
            FAIL(E_USAGE, "%s:%d: key %s is given twice; the first is in line %d", b->name, n->line,
                 n->key, earlier->line);
    }
    yaml_node_append(parent, n);
    n = NULL;
done:
    yaml_node_free(n);
    return result;
}

static status begin(yaml_builder *b, yaml_node_kind kind, yaml_mark_t mark, err *e)
{
    status result = OK;
    if (b->depth == DEPTH_MAX)
        FAIL(E_USAGE, "%s:%d:%d: more than %d levels of nesting", b->name, line_of(mark),
             column_of(mark), DEPTH_MAX);
    if (b->depth && b->open[b->depth - 1]->kind == NODE_MAP && !b->key[b->depth - 1])
        FAIL(E_USAGE, "%s:%d:%d: a key must be a word, not a %s", b->name, line_of(mark),
             column_of(mark), kind == NODE_MAP ? "section" : "list");
    yaml_node *n = NULL;
    TRY(yaml_node_list(line_of(mark), &n, e));
    n->kind = kind;
    TRY(add_value(b, n, e));
    b->keys[b->depth] = 0;
    b->open[b->depth++] = n;
done:
    return result;
}

static status scalar(yaml_builder *b, const yaml_event_t *event, err *e)
{
    const char *s = (const char *)event->data.scalar.value;
    yaml_mark_t mark = event->start_mark;
    if (strlen(s) != event->data.scalar.length)
        return err_set(e, E_USAGE, "%s:%d:%d: a zero byte in text", b->name, line_of(mark),
                       column_of(mark));
    if (b->depth && b->open[b->depth - 1]->kind == NODE_MAP && !b->key[b->depth - 1]) {
        b->key_line[b->depth - 1] = line_of(mark);
        return text_copy(s, &b->key[b->depth - 1], e);
    }
    yaml_node *n = NULL;
    const status made = yaml_node_scalar(s, line_of(mark), &n, e);
    if (made != OK) return made;
    n->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return add_value(b, n, e);
}

static status take_event(yaml_builder *b, const yaml_event_t *event, err *e)
{
    yaml_mark_t mark = event->start_mark;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->documents++ == 0) return OK;
        return err_set(e, E_USAGE, "%s:%d: a second document begins here; a job file is one",
                       b->name, line_of(mark));
    case YAML_ALIAS_EVENT:
        return err_set(e, E_USAGE, "%s:%d:%d: alias *%s: aliases are not supported%s", b->name,
                       line_of(mark), column_of(mark), (const char *)event->data.alias.anchor,
                       QUOTE_STARS);
    case YAML_SCALAR_EVENT:
        return scalar(b, event, e);
    case YAML_SEQUENCE_START_EVENT:
        return begin(b, NODE_LIST, mark, e);
    case YAML_MAPPING_START_EVENT:
        return begin(b, NODE_MAP, mark, e);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return OK;
    default:
        return OK;
    }
}

static status parse(yaml_builder b, yaml_node **out, err *e)
{
    status result = OK;
    const char *const name = b.name;
    yaml_parser_t parser;
    bool ended = false;
    if (!yaml_parser_initialize(&parser)) return err_set(e, E_MEMORY, "no memory for %s", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)b.content, b.bytes);
    while (!ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            result = parser_error(&b, &parser, e);
            goto done;
        }
        ended = event.type == YAML_STREAM_END_EVENT;
        result = take_event(&b, &event, e);
        yaml_event_delete(&event);
        if (result != OK) goto done;
    }
    if (!b.root || yaml_node_is_null(b.root)) {
        yaml_node_free(b.root);
        b.root = NULL;
        TRY(yaml_node_list(1, &b.root, e));
        b.root->kind = NODE_MAP;
    }
    *out = b.root;
    b.root = NULL;
done:
    for (int i = 0; i < DEPTH_MAX; i++) free(b.key[i]);
    yaml_node_free(b.root);
    yaml_parser_delete(&parser);
    return result;
}

status yaml_node_parse(const char *name, const char *s, size_t bytes, yaml_node **out, err *e)
{
    return parse((yaml_builder){.name = name, .content = s, .bytes = bytes}, out, e);
}

status yaml_node_parse_repeats(const char *name, const char *s, size_t bytes, yaml_node **out,
                               err *e)
{
    const yaml_builder b = {.name = name, .content = s, .bytes = bytes, .repeats = true};
    return parse(b, out, e);
}
