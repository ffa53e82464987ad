// doctor.c -- `trireme doctor`: runs the checks of this machine, or of all hosts of a job, and prints what they found. The
// checks are in src/doctor/; doctor_hosts.c and doctor_ssh.c have what is done on several hosts.
#include "cmd/doctor/doctor.h"
#include "base/alloc.h"
#include "base/proc.h"
#include "cmd/cmd.h"
#include "cmd/command.h"
#include "cmd/console.h"
#include "cmd/doctor/doctor_hosts.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum { STORE_PORT = 29500, PORT_MOST = 65535 };

typedef struct request {
    bool active, stress, all, list, markdown, json, strict, python;
    const char *machine, *folder, *peer;
    int64_t ranks, port;
    doctor_hosts_flags hosts;
} request;

#define AT(member) offsetof(request, member)
static const flag flags[] = {
    // Those of several hosts stand first: they are taken away from what the hosts are given.
    {"--hosts", FLAG_TEXT, AT(hosts.hosts), "A,B,…",
     "Checks these hosts, through ssh, and compares them."},
    {"--hostfile", FLAG_TEXT, AT(hosts.hostfile), "FILE",
     "Takes the hosts from a file, as DeepSpeed writes it."},
    {"--secret-file", FLAG_TEXT, AT(hosts.secret_file), "FILE",
     "Holds the secret by which the hosts know each other."},
    {"--timeout", FLAG_TEXT, AT(hosts.timeout), "DURATION",
     "Sets how long the hosts wait for each other (default: 30s)."},
    {"--ssh-port", FLAG_COUNT, AT(hosts.ssh_port), "PORT", "Sets the port of ssh."},
    {"--active", FLAG_SWITCH, AT(active), NULL,
     "Also measures, for less than half a minute: cores, memory, disk, links, GPUs."},
    {"--stress", FLAG_SWITCH, AT(stress), NULL,
     "Also loads the machine for minutes, to find what fails under load only."},
    {"--all", FLAG_SWITCH, AT(all), NULL, "Also prints what passed and what was skipped."},
    {"--strict", FLAG_SWITCH, AT(strict), NULL, "Ends with exit code 1 where there are warnings."},
    {"--machine", FLAG_TEXT, AT(machine), "FILE",
     "Takes the thresholds of this file (default: the first of those in "
     "~/.config/trireme/machines/ that fits the machine)."},
    {"--folder", FLAG_TEXT, AT(folder), "DIR",
     "Checks this folder as train.out (default: the working folder)."},
    {"--ranks", FLAG_COUNT, AT(ranks), "N",
     "Sets how many ranks would run on this host (default: one for each device)."},
    {"--port", FLAG_COUNT, AT(port), "PORT", "Checks this port of the store (default: 29500)."},
    {"--peer", FLAG_TEXT, AT(peer), "HOST", "Checks the way to this host, as to --master-addr."},
    {"--python", FLAG_SWITCH, AT(python), NULL, "Also looks at python3 and its packages."},
    {"--list", FLAG_SWITCH, AT(list), NULL, "Prints all checks, and runs none."},
    {"--markdown", FLAG_SWITCH, AT(markdown), NULL,
     "With --list, prints what docs/troubleshooting.md has of each check."},
    {"--json", FLAG_SWITCH, AT(json), NULL, "Prints one JSON object."},
};
enum { FLAGS = sizeof flags / sizeof *flags, HOST_FLAGS = 5 };

static doctor_level level_of(const request *q)
{
    return q->stress ? DOCTOR_STRESS : q->active ? DOCTOR_ACTIVE : DOCTOR_PASSIVE;
}

int doctor_exit_code(const doctor_report *r, bool strict)
{
    doctor_severity worst;
    if (!doctor_worst(r, &worst)) return 0;
    return worst == DOCTOR_ERROR ? 2 : worst == DOCTOR_WARNING && strict ? 1 : 0;
}

static status print(const request *q, const doctor_report *r, const char *machine, err *e)
{
    status result = OK;
    text out = {0};
    json_t *json = NULL;
    char *chars = NULL;
    if (q->json) {
        TRY(doctor_to_json(r, &json, e));
        chars = json_dumps(json, JSON_COMPACT);
        if (!chars) FAIL(E_MEMORY, "out of memory for a report");
        text_addf(&out, "%s\n", chars);
    } else {
        if (machine) text_addf(&out, "thresholds of %s\n", machine);
        doctor_add_text(&out, r, q->all);
    }
    TRY(text_check(&out, e));
    console_print(out.chars, out.bytes);
done:
    free(chars);
    json_decref(json);
    text_clear(&out);
    return result;
}

static status check_here(const request *q, const doctor_context *c, const flag_texts *codes,
                         int *code, err *e)
{
    status result = OK;
    doctor_report r = {0};
    const char **named = NULL;
    if (codes->count) {
        TRY(alloc_zeroed(&named, codes->count + 1, sizeof *named, "the codes", e));
        memcpy(named, codes->items, codes->count * sizeof *named);
    }
    TRY(doctor_run(c, level_of(q), named, &r, e));
    TRY(print(q, &r, c->machine ? doctor_machine_name(c->machine) : NULL, e));
    *code = doctor_exit_code(&r, q->strict);
done:
    doctor_report_clear(&r);
    free(named);
    return result;
}

// Here, on the other hosts of a launcher, or on those of --hosts.
static status check_where(const request *q, const doctor_context *c, const flag_texts *codes,
                          int argc, char **argv, int *code, err *e)
{
    status result = OK;
    launcher_location l;
    request unused = *q;
    // Variables of a launcher that contradict each other are what checks find.
    const bool is_known = launcher_find(&l, NULL) == OK;
    if (is_known && l.launcher && l.local_ranks < l.ranks) {
        const doctor_hosts_request r = {.context = c,
                                        .level = level_of(q),
                                        .strict = q->strict,
                                        .json = q->json,
                                        .all = q->all,
                                        .flags = &q->hosts,
                                        .location = &l};
        if (codes->count)
            FAIL(E_USAGE, "doctor: found the check %s; valid on several hosts: all of a level",
                 codes->items[0]);
        *code = doctor_hosts_run(&r);
    } else if (q->hosts.hosts || q->hosts.hostfile) {
        TRY(flags_take(flags, HOST_FLAGS, &argc, argv, &unused, e));
        *code = doctor_hosts_start(&q->hosts, (int)q->port, argc, argv);
    } else {
        TRY(check_here(q, c, codes, code, e));
    }
done:
    return result;
}

static status run(const request *q, const flag_texts *codes, int argc, char **argv, int *code,
                  err *e)
{
    status result = OK;
    doctor_machine *machine = NULL;
    if (q->port < 1 || q->port > PORT_MOST)
        FAIL(E_USAGE, "--port: found %lld; valid: 1 to %d", (long long)q->port, PORT_MOST);
    if (q->ranks > 4096)
        FAIL(E_USAGE, "--ranks: found %lld; valid: up to 4096", (long long)q->ranks);
    TRY(doctor_machine_find(q->machine, &machine, e));
    const doctor_context c = {.root = "",
                              .environment = environ,
                              .nvml = "libnvidia-ml.so.1",
                              .folder = q->folder,
                              .ranks = (int)q->ranks,
                              .port = (int)q->port,
                              .peer = q->peer,
                              .python = q->python,
                              .machine = machine};
    TRY(check_where(q, &c, codes, argc, argv, code, e));
done:
    doctor_machine_close(machine);
    return result;
}

static int cmd_doctor(int argc, char **argv)
{
    status result = OK;
    err error = {0}, *e = &error;
    request q = {.port = STORE_PORT, .hosts.ssh_port = -1};
    flag_texts codes = {0};
    int code = 0;
    TRY(flags_parse(flags, FLAGS, argc, argv, &q, &codes, e));
    if (q.list)
        TRY(doctor_print_list(q.json, q.markdown, e));
    else
        TRY(run(&q, &codes, argc, argv, &code, e));
done:
    flag_texts_clear(&codes);
    return result == OK ? code : cmd_fail(e);
}

const command command_doctor = {
    .name = "doctor",
    .run = cmd_doctor,
    .usage = "[CODE ...] [--active] [--stress] [--json] [--strict]\n"
             "--hosts A,B,… | --hostfile FILE [--active]\n"
             "--list [--json]",
    .help = "Checks this machine, or all hosts of a job, before a run.",
    .about =
        "Each check looks for one fault, and says what it does to a run and what helps. Without "
        "--active none takes time. The codes of checks choose some of them. Nothing is changed, "
        "and root is never needed: what cannot be seen without it is said. Under `trireme run`, "
        "mpirun or srun, with one process on each host, the hosts are compared. Exit codes: 0 a "
        "run may start, 1 there are warnings (with --strict), 2 a run would fail.",
    .flags = flags,
    .flag_count = FLAGS,
};
