// `trireme data`: chooses between prepare and inspect. Called by main.
// It deliberately does not know their flags.
#include "cmd/data.h"

#include "base/text.h"
#include "cmd/cmd.h"

#include <stdio.h>
#include <string.h>

static int usage(FILE *out)
{
    fputs("usage: trireme data prepare --input FILE... --output-prefix P [flags]\n"
          "       trireme data inspect P [flags]\n"
          "\n"
          "  prepare   text or JSONL to token shards P.bin and P.idx\n"
          "  inspect   what is in a token shard\n"
          "\n"
          "`trireme data prepare --help` and `trireme data inspect --help` list the flags.\n",
          out);
    return out == stdout ? 0 : 2;
}

int cmd_data(int argc, char **argv)
{
    static const char *const names[] = {"prepare", "inspect"};
    if (argc < 2) return usage(stderr);
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return usage(stdout);
    if (strcmp(word, "prepare") == 0) return data_prepare(argc - 1, argv + 1);
    if (strcmp(word, "inspect") == 0) return data_inspect(argc - 1, argv + 1);
    err e = {0};
    const char *near = text_nearest(word, names, 2);
    err_set(&e, E_USAGE, "data: found '%s', valid are prepare and inspect%s%s%s", word,
            near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return cmd_fail(&e);
}
