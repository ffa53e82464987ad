// causes_own.c -- lines of Trireme itself, which already name a cause. See cause.h.
#include "diagnose/tables.h"

static const diagnose_cause ROWS[] = {
    {
        .code = "own-fit",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"trireme: ",
                     "trireme: (?<text>.*(?:does not fit|the first change that fits).*)"}},
        .sentence = "the job does not fit in memory: {text}",
        .remedy = {"Take the change that the line names",
                   "$ trireme explain JOB # where the bytes go"},
        .check = {"memory-available", "gpu-memory-taken"},
        .reference = "docs/troubleshooting.md#it-does-not-fit-in-memory",
    },
    {
        .code = "own-late-rank",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern =
            {{"Watchdog caught collective operation timeout: rank",
              "(?<text>rank (?<rank>\\d+)(?: \\(?on host (?<host>[\\w.-]+)\\)?)? did not come to "
              ".*)"}},
        .sentence = "a rank was late: {text}",
        .why = "The line says in which instruction the rank was.",
        .remedy = {"Look at that host: disk for LOAD_BATCH, processor or GPU for FORWARD",
                   "Raise checks.watchdog where a long pause is expected"},
        .check = {"cpu-steal", "gpu-slowdown", "interface-rule"},
        .reference = "docs/troubleshooting.md#a-collective-times-out",
    },
    {
        .code = "own-rank-killed",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"was killed by signal",
                     "rank (?<rank>\\d+) \\((?:host (?<host>[\\w.-]+))?.*?was killed by signal "
                     "(?<signal>\\d+) \\((?<name>[^)]*)\\)"}},
        .sentence = "a rank was killed by signal {signal} ({name})",
        .why = "Signal 9 is most often the kernel's, for lack of memory; 11 is a crash.",
        .remedy = {"$ dmesg -T | tail -50 # on its host"},
        .check = {"memory-available", "cgroup-memory", "kernel-oom"},
        .reference = "docs/troubleshooting.md#a-rank-dies",
    },
    {
        .code = "own-nonfinite",
        .weight = DIAGNOSE_SPECIFIC,
        .pattern = {{"not finite", "(?<text>step \\d+: .*not finite.*)"}},
        .sentence = "a loss or gradient is not finite: {text}",
        .remedy = {"Lower the learning rate or warm up for longer",
                   "checks.nonfinite: skip leaves such a step out"},
        .check = {"gpu-ecc-uncorrected"},
        .reference = "docs/troubleshooting.md#mistakes-that-cannot-happen",
    },
    {
        .code = "own-worker",
        .weight = DIAGNOSE_GENERAL,
        .pattern =
            {{"trireme: rank ",
              "trireme: rank (?<rank>\\d+) \\((?:host (?<host>[\\w.-]+))?.*?(?:ended with exit "
              "code (?<exit>\\d+)|says rank \\d+)(?::? ?(?<text>.*))?"},
             {"trireme: node ", "trireme: node \\d+ \\(host (?<host>[\\w.-]+)\\): (?<text>.*)"}},
        .sentence = "a worker failed[ with exit code {exit}][: {text}]",
        .remedy = {"Read the log of that worker, before the time of this line"},
        .check = {0},
        .reference = "docs/troubleshooting.md#a-rank-dies",
    },
    {
        .code = "own-error",
        .weight = DIAGNOSE_SYMPTOM,
        .pattern =
            {{"trireme: ",
              "^(?:.{0,40} )?trireme: (?!warning: |kept in |metrics at |rank \\d+ \\("
              "|node \\d+ \\()(?:rank (?<rank>\\d+)(?: \\(host (?<host>[\\w.-]+)\\))?: "
              ")?(?<text>.*)"},
             {"\"event\":\"error\"",
              "\"event\":\"error\"(?:.*?\"rank\":(?<rank>\\d+))?.*?\"text\":\"(?<text>(?:[^\"\\\\]|"
              "\\\\.)*)\""}},
        .sentence = "{text}",
        .why = "Trireme names the cause in its own line.",
        .remedy = {"$ trireme help --search WORD # explains a key or a message"},
        .check = {0},
        .reference = "docs/log-lines.md",
    },
};

const diagnose_table DIAGNOSE_OWN = {ROWS, sizeof ROWS / sizeof *ROWS};
