// parse_value.c -- reads single values into the tree: constants, names, lists, and what follows a value: parts, calls,
// filters and tests. parse_expression.c joins them with operators.
#include "jinja/builtins.h"
#include "jinja/parse.h"

#include <string.h>

// ---- Values

static status parse_constant(jinja_parser *p, jinja_value v, jinja_node **out, err *e)
{
    status result = OK;
    TRY(parse_node(p, JINJA_NODE_CONSTANT, out, e));
    (*out)->constant = v;
done:
    return result;
}

// Adjacent strings are one.
static status parse_string(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    size_t bytes = 0, n = 0;
    char *chars = NULL;
    jinja_string *string = NULL;
    jinja_run *run = NULL;
    jinja_memory *m = &p->t->memory;
    for (const jinja_token *t = p->token; t->kind == TOKEN_STRING; t++) bytes += t->bytes;
    TRY(jinja_take(m, &chars, bytes + 1, e));
    TRY(jinja_take(m, &string, sizeof *string, e));
    TRY(jinja_take(m, &run, sizeof *run, e));
    TRY(parse_constant(p, (jinja_value){.kind = KIND_STRING, .string = string}, out, e));
    for (; p->token->kind == TOKEN_STRING; p->token++) {
        if (p->token->bytes) memcpy(chars + n, p->token->chars, p->token->bytes);
        n += p->token->bytes;
    }
    *run = (jinja_run){.bytes = bytes, .string = -1};
    *string = (jinja_string){.chars = chars, .bytes = bytes, .run = run, .runs = 1};
    for (size_t i = 0; i < bytes; i++) string->points += ((unsigned char)chars[i] & 0xc0) != 0x80;
done:
    return result;
}

static status parse_name_or_word(jinja_parser *p, jinja_node **out, err *e)
{
    static const struct {
        const char *word;
        jinja_value value;
    } WORDS[] = {{"true", {.kind = KIND_BOOL, .truth = true}},
                 {"True", {.kind = KIND_BOOL, .truth = true}},
                 {"false", {.kind = KIND_BOOL, .truth = false}},
                 {"False", {.kind = KIND_BOOL, .truth = false}},
                 {"none", {.kind = KIND_NONE}},
                 {"None", {.kind = KIND_NONE}}};
    status result = OK;
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (!parse_skip_name(p, WORDS[i].word)) continue;
        TRY(parse_constant(p, WORDS[i].value, out, e));
        goto done;
    }
    p->lists += parse_is_name(p, "varargs");
    p->pairs += parse_is_name(p, "kwargs");
    p->callers += parse_is_name(p, "caller");
    TRY(parse_node(p, JINJA_NODE_NAME, out, e));
    TRY(parse_take_name(p, *out, e));
done:
    return result;
}

// The items of a list or a dict, behind its opening bracket.
static status parse_items(jinja_parser *p, jinja_node_kind kind, jinja_node **out, err *e)
{
    status result = OK;
    const int close = kind == JINJA_NODE_DICT ? '}' : ']';
    jinja_node **end, *n = NULL;
    TRY(parse_node(p, kind, out, e));
    end = &(*out)->first;
    while (!parse_is_op(p, close)) {
        if ((*out)->first) TRY(parse_expect_op(p, ',', e));
        if (parse_is_op(p, close)) break;
        TRY(parse_expression(p, &n, e));
        parse_append(&end, n);
        if (kind != JINJA_NODE_DICT) continue;
        TRY(parse_expect_op(p, ':', e));
        TRY(parse_expression(p, &n, e));
        parse_append(&end, n);
    }
    TRY(parse_expect_op(p, close, e));
done:
    return result;
}

static status parse_primary(jinja_parser *p, jinja_node **out, err *e)
{
    status result = OK;
    const jinja_token *t = p->token;
    if (t->kind == TOKEN_NAME) {
        TRY(parse_name_or_word(p, out, e));
    } else if (t->kind == TOKEN_STRING) {
        TRY(parse_string(p, out, e));
    } else if (t->kind == TOKEN_INT || t->kind == TOKEN_FLOAT) {
        p->token++;
        TRY(parse_constant(p, t->kind == TOKEN_INT ? jinja_int(t->whole) : jinja_float(t->real),
                           out, e));
    } else if (parse_skip_op(p, '(')) {
        if (parse_is_op(p, ')'))
            TRY(parse_node(p, JINJA_NODE_TUPLE, out, e));
        else
            TRY(parse_tuple(p, true, out, e));
        TRY(parse_expect_op(p, ')', e));
    } else if (parse_skip_op(p, '[')) {
        TRY(parse_items(p, JINJA_NODE_LIST, out, e));
    } else if (parse_skip_op(p, '{')) {
        TRY(parse_items(p, JINJA_NODE_DICT, out, e));
    } else {
        TRY(parse_unexpected(p, "a value", e));
    }
done:
    return result;
}

// ---- What follows a value

// The bounds of a slice or the key of an item, behind "[".
static status parse_subscript(jinja_parser *p, jinja_node *n, err *e)
{
    status result = OK;
    jinja_node **bound[] = {&n->b, &n->c, &n->d};
    int colons = 0;
    while (!parse_is_op(p, ']')) {
        if (parse_skip_op(p, ':')) {
            if (++colons > 2) TRY(parse_unexpected(p, "']'", e));
        } else if (!*bound[colons]) {
            TRY(parse_expression(p, bound[colons], e));
        } else {
            TRY(parse_unexpected(p, "']'", e));
        }
    }
    n->kind = colons ? JINJA_NODE_SLICE : JINJA_NODE_ITEM;
    if (!colons && !n->b) TRY(parse_unexpected(p, "a value", e));
    TRY(parse_expect_op(p, ']', e));
done:
    return result;
}

static status parse_dot(jinja_parser *p, jinja_node *n, err *e)
{
    status result = OK;
    const jinja_token *t = p->token;
    if (t->kind == TOKEN_INT) {
        p->token++;
        n->kind = JINJA_NODE_ITEM;
        TRY(parse_constant(p, jinja_int(t->whole), &n->b, e));
        goto done;
    }
    TRY(parse_expect(p, TOKEN_NAME, "a name", e));
    n->text = t->chars;
    n->bytes = t->bytes;
done:
    return result;
}

static status parse_postfix(jinja_parser *p, jinja_node **node, err *e)
{
    status result = OK;
    for (;;) {
        jinja_node *n = NULL;
        if (!parse_is_op(p, '.') && !parse_is_op(p, '[') && !parse_is_op(p, '(')) break;
        TRY(parse_node_of(p, JINJA_NODE_ATTRIBUTE, *node, &n, e));
        if (parse_skip_op(p, '.')) {
            TRY(parse_dot(p, n, e));
        } else if (parse_skip_op(p, '[')) {
            TRY(parse_subscript(p, n, e));
        } else {
            n->kind = JINJA_NODE_CALL;
            TRY(parse_arguments(p, &n->first, e));
        }
        *node = n;
    }
done:
    return result;
}

static status parse_argument(jinja_parser *p, bool *keyed, jinja_node **out, err *e)
{
    status result = OK;
    const jinja_token *t = p->token;
    jinja_node *n = NULL;
    if (parse_is_op(p, '*') || parse_is_op(p, OPERATOR('*', '*'))) {
        TRY(parse_node(p, t->op == '*' ? JINJA_NODE_SPREAD : JINJA_NODE_SPREAD_PAIRS, &n, e));
        p->token++;
        *keyed = true;
    } else if (t->kind == TOKEN_NAME && t[1].kind == TOKEN_OPERATOR && t[1].op == '=') {
        TRY(parse_node(p, JINJA_NODE_KEYWORD, &n, e));
        n->text = t->chars;
        p->token += 2;
        *keyed = true;
    } else if (*keyed) {
        FAIL(E_USAGE, "an argument by position follows one by name");
    }
    TRY(parse_expression(p, n ? &n->a : out, e));
    if (n) *out = n;
done:
    return result;
}

status parse_arguments(jinja_parser *p, jinja_node **first, err *e)
{
    status result = OK;
    jinja_node **end = first;
    bool keyed = false;
    TRY(parse_expect_op(p, '(', e));
    while (!parse_is_op(p, ')')) {
        jinja_node *n = NULL;
        if (*first) TRY(parse_expect_op(p, ',', e));
        if (parse_is_op(p, ')')) break;
        TRY(parse_argument(p, &keyed, &n, e));
        parse_append(&end, n);
    }
    TRY(parse_expect_op(p, ')', e));
done:
    return result;
}

// Refuses a name that no row has. Within {% if %} that waits until it is evaluated, as in Jinja: templates test what an
// interpreter has before they use it.
static status refuse_name(jinja_parser *p, jinja_node *n, const char *what, const char *near,
                          err *e)
{
    if (p->conditions) return OK;
    p->line = n->line;
    return err_set(e, E_USAGE, "unknown %s '%.*s'%s%s%s", what, TEXT_CUT(n->text, 60),
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static status parse_filter(jinja_parser *p, jinja_node **node, err *e)
{
    status result = OK;
    jinja_node *n = NULL;
    TRY(parse_node_of(p, JINJA_NODE_FILTER, *node, &n, e));
    n->text = p->token->chars;
    TRY(parse_expect(p, TOKEN_NAME, "the name of a filter", e));
    n->row = jinja_find_filter(n->text);
    if (!n->row) TRY(refuse_name(p, n, "filter", jinja_nearest_filter(n->text), e));
    if (parse_is_op(p, '(')) TRY(parse_arguments(p, &n->first, e));
    *node = n;
done:
    return result;
}

status parse_filters(jinja_parser *p, bool begun, jinja_node **node, err *e)
{
    status result = OK;
    while (begun || parse_skip_op(p, '|')) {
        begun = false;
        TRY(parse_filter(p, node, e));
    }
done:
    return result;
}

// Returns whether the argument of a test follows without brackets.
static bool has_argument(const jinja_parser *p)
{
    const jinja_token *t = p->token;
    if (parse_is_name(p, "else") || parse_is_name(p, "or") || parse_is_name(p, "and")) return false;
    return t->kind == TOKEN_NAME || t->kind == TOKEN_STRING || t->kind == TOKEN_INT ||
           t->kind == TOKEN_FLOAT || parse_is_op(p, '[') || parse_is_op(p, '{');
}

static status parse_test(jinja_parser *p, jinja_node **node, err *e)
{
    status result = OK;
    jinja_node *n = NULL;
    const bool negated = parse_skip_name(p, "not");
    TRY(parse_node_of(p, JINJA_NODE_TEST, *node, &n, e));
    n->text = p->token->chars;
    TRY(parse_expect(p, TOKEN_NAME, "the name of a test", e));
    n->row = jinja_find_test(n->text);
    if (!n->row) TRY(refuse_name(p, n, "test", jinja_nearest_test(n->text), e));
    if (parse_is_op(p, '(')) {
        TRY(parse_arguments(p, &n->first, e));
    } else if (parse_is_name(p, "is")) {
        FAIL(E_USAGE, "a test cannot follow another test");
    } else if (has_argument(p)) {
        TRY(parse_primary(p, &n->first, e));
        TRY(parse_postfix(p, &n->first, e));
    }
    *node = n;
    if (negated) TRY(parse_node_of(p, JINJA_NODE_NOT, n, node, e));
done:
    return result;
}

status parse_unary(jinja_parser *p, bool filters, jinja_node **out, err *e)
{
    status result = OK;
    if (++p->depth > PARSE_DEPTH_MOST) FAIL(E_USAGE, "expressions are nested too deeply");
    if (parse_is_op(p, '-') || parse_is_op(p, '+')) {
        TRY(parse_node(p, parse_is_op(p, '-') ? JINJA_NODE_NEGATE : JINJA_NODE_PLUS, out, e));
        p->token++;
        TRY(parse_unary(p, false, &(*out)->a, e));
    } else {
        TRY(parse_primary(p, out, e));
    }
    TRY(parse_postfix(p, out, e));
    while (filters) {
        if (parse_is_op(p, '|')) {
            TRY(parse_filters(p, false, out, e));
        } else if (parse_skip_name(p, "is")) {
            TRY(parse_test(p, out, e));
        } else if (parse_is_op(p, '(')) {
            TRY(parse_postfix(p, out, e));
        } else {
            break;
        }
    }
done:
    p->depth--;
    return result;
}
