// manual.c -- the manual page trireme(1) in troff, from the rows of commands and keys. Called by
// `trireme help --man`. Beside the frame of the page it writes only sentences of help.
#include "cmd/help.h"

#include "base/text.h"
#include "cmd/cmd.h"
#include "config/job.h"

#include <string.h>

// Escapes text so that troff takes no line of it for a request.
static void put(FILE *out, const char *s)
{
    bool first = true;
    for (; *s; s++) {
        if (first && (*s == '.' || *s == '\'')) fputs("\\&", out);
        first = *s == '\n';
        if (*s == '-')
            fputs("\\-", out);
        else if (*s == '\\')
            fputs("\\e", out);
        else
            fputc(*s, out);
    }
}

static void put_flag(FILE *out, const flag *f)
{
    fputs(".TP\n\\fB", out);
    put(out, f->name);
    fputs("\\fR", out);
    if (f->value) {
        fputs(" \\fI", out);
        put(out, f->value);
        fputs(f->kind == FLAG_TEXTS ? "...\\fR" : "\\fR", out);
    }
    fputc('\n', out);
    put(out, f->help);
    fputc('\n', out);
}

static void put_command(const command *c, const char *title, void *arg)
{
    FILE *out = arg;
    fputs(".SS trireme ", out);
    put(out, title);
    fputs("\n.nf\n", out);
    const char *form = c->usage ? c->usage : "";
    do {
        const size_t bytes = strcspn(form, "\n");
        text line = {0};
        text_addf(&line, "trireme %s%s%.*s", title, bytes ? " " : "", (int)bytes, form);
        put(out, line.chars);
        fputc('\n', out);
        text_clear(&line);
        form += bytes + (form[bytes] == '\n');
    } while (*form);
    fputs(".fi\n.PP\n", out);
    put(out, c->help);
    fputc('\n', out);
    if (c->about) put(out, c->about);
    if (c->about) fputc('\n', out);
    if (c->takes_job) fputs("Every key of the job file is also a flag.\n", out);
    for (size_t i = 0; i < c->flag_count; i++) put_flag(out, &c->flags[i]);
}

static void put_key(const key_help *k, void *arg)
{
    FILE *out = arg;
    fputs(".TP\n\\fB", out);
    put(out, k->path);
    fputs("\\fR (", out);
    put(out, k->fallback.chars);
    fputs(")\n", out);
    put(out, k->help);
    fputs("\nValid: ", out);
    put(out, k->valid.chars);
    if (k->unit) {
        fputs(" (", out);
        put(out, k->unit);
        fputc(')', out);
    }
    fputs(".\n", out);
}

void help_manual(FILE *out)
{
    fprintf(out, ".TH TRIREME 1 \"\" \"trireme %s\" \"Trireme\"\n", TRIREME_VERSION);
    fputs(".SH NAME\ntrireme \\- trains neural networks on many devices\n"
          ".SH SYNOPSIS\n\\fBtrireme\\fR \\fICOMMAND\\fR [\\fIarguments\\fR]\n"
          ".SH COMMANDS\n"
          "\\fB\\-\\-help\\fR or \\fB\\-h\\fR anywhere on a command line prints help instead of "
          "running the command.\n"
          "\\fB\\-\\-help\\fR \\fIKEY\\fR explains one key of the job file, or one flag.\n",
          out);
    command_each(&command_trireme, put_command, out);
    fputs(".SH KEYS OF THE JOB FILE\n"
          "Defaults stand in brackets. On the command line a key is \\fB\\-\\-key\\fR "
          "\\fIvalue\\fR or\n\\fB\\-\\-key=\\fR\\fIvalue\\fR, which wins over the job file.\n",
          out);
    job_help_each(put_key, out);
    fputs(".SH EXIT STATUS\n"
          ".TP\n0\nThe command is done.\n.TP\n1\nThe run failed; one line says which rank and "
          "why.\n"
          ".TP\n2\nUsage, configuration or input is bad; nothing was started or changed.\n"
          ".TP\n3\nThe job does not fit in memory.\n"
          ".TP\n130\nThe run was interrupted, and has saved a checkpoint.\n",
          out);
}
