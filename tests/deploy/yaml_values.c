// yaml_values.c -- prints each scalar of a YAML file as a line `path=value`, such as spec.containers.0.image=trireme. A file that is
// not valid YAML, or that has a key twice, ends with 1.
#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum { PATH_BYTES = 1024 };

static const char *scalar(const yaml_node_t *n)
{
    return n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : "";
}

static int has_key_before(yaml_document_t *d, yaml_node_t *n, const yaml_node_pair_t *pair)
{
    for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < pair; p++) {
        const char *earlier = scalar(yaml_document_get_node(d, p->key));
        if (strcmp(earlier, scalar(yaml_document_get_node(d, pair->key))) == 0) return 1;
    }
    return 0;
}

static int print_node(yaml_document_t *d, yaml_node_t *n, const char *path)
{
    char inner[PATH_BYTES];
    const char *dot = *path ? "." : "";
    int bad = 0, i = 0;
    switch (n->type) {
    case YAML_SCALAR_NODE:
        printf("%s=%s\n", path, scalar(n));
        break;
    case YAML_SEQUENCE_NODE:
        for (yaml_node_item_t *item = n->data.sequence.items.start;
             item < n->data.sequence.items.top; item++) {
            snprintf(inner, sizeof inner, "%s%s%d", path, dot, i++);
            bad |= print_node(d, yaml_document_get_node(d, *item), inner);
        }
        break;
    case YAML_MAPPING_NODE:
        for (yaml_node_pair_t *pair = n->data.mapping.pairs.start; pair < n->data.mapping.pairs.top;
             pair++) {
            const char *key = scalar(yaml_document_get_node(d, pair->key));
            snprintf(inner, sizeof inner, "%s%s%s", path, dot, key);
            if (has_key_before(d, n, pair)) {
                fprintf(stderr, "the key %s is there twice\n", inner);
                bad = 1;
            }
            bad |= print_node(d, yaml_document_get_node(d, pair->value), inner);
        }
        break;
    default:
        break;
    }
    return bad;
}

int main(int count, char **arguments)
{
    FILE *f = count == 2 ? fopen(arguments[1], "rb") : NULL;
    if (!f) return fprintf(stderr, "usage: yaml_values FILE\n"), 2;
    yaml_parser_t parser;
    yaml_parser_initialize(&parser);
    yaml_parser_set_input_file(&parser, f);
    int bad = 0;
    for (;;) {
        yaml_document_t d;
        if (!yaml_parser_load(&parser, &d)) {
            fprintf(stderr, "line %zu: %s\n", parser.problem_mark.line + 1, parser.problem);
            bad = 1;
            break;
        }
        yaml_node_t *root = yaml_document_get_root_node(&d);
        if (root) bad |= print_node(&d, root, "");
        yaml_document_delete(&d);
        if (!root) break;
    }
    yaml_parser_delete(&parser);
    fclose(f);
    return bad;
}
