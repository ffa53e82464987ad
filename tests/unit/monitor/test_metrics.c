// test_metrics.c -- the metrics of a made-up run in Prometheus's format, compared with a golden text that promtool accepts;
// which ranks an exporter exports, how much it exports, what it sums, and that dashboards name no metric that is not there.
#include "monitor/metrics/devices.h"
#include "monitor/metrics/exporter.h"
#include "monitor/run_view.h"

#include "made_run.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)

static int enter_folder(void **state)
{
    static char folder[64];
    (void)snprintf(folder, sizeof folder, "/tmp/trireme-test-XXXXXX");
    *state = folder;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    return chdir("/") || file_remove_tree(*state, NULL) != OK;
}

static metrics *metrics_of(const char *folder, const char *boot, bool of_run)
{
    metrics *m = NULL;
    const metrics_options o = {.folder = folder, .boot = boot, .of_run = of_run};
    assert_int_equal(metrics_open(&o, &m, NULL), OK);
    assert_int_equal(metrics_refresh(m, 0, NULL), OK);
    return m;
}

static text text_of(const metrics *m)
{
    text t = {0};
    metrics_write(m, &t);
    assert_false(t.failed);
    return t;
}

// The value of the sample that begins with `name{labels}`; NAN: there is none.
static double value_of(const text *t, const char *sample)
{
    const char *at = t->chars ? strstr(t->chars, sample) : NULL;
    return at ? strtod(at + strlen(sample), NULL) : NAN;
}

// The last digits of exp are those of the C library.
static void round_loss(char *chars)
{
    char *at = strstr(chars, "\ntrireme_loss{");
    assert_non_null(at);
    at = strchr(at, '}') + 10;
    const size_t bytes = strcspn(at, "\n");
    memset(at, '0', bytes);
}

static void a_made_run_has_the_golden_text(void **state)
{
    (void)state;
    const made_run o = {.ranks = 4,
                        .steps = 6,
                        .hosts = 2,
                        .stages = 2,
                        .cause = MADE_COMPUTE,
                        .slow_rank = 1,
                        .slow_by = 0.2,
                        .save_every = 3,
                        .save = 0.1,
                        .matmul_share = 0.5};
    char *golden = NULL;
    assert_int_equal(made_run_write("run", &o, NULL), OK);
    metrics *m = metrics_of("run", NULL, true);
    text t = text_of(m);
    round_loss(t.chars);
    const char *const renew = getenv("TRIREME_RENEW_GOLDEN");
    if (renew) assert_int_equal(file_replace(renew, t.chars, t.bytes, NULL), OK);
    assert_int_equal(file_read(TESTS_DIR "/golden/metrics/made_run.prom", &golden, NULL, NULL), OK);
    assert_string_equal(t.chars, golden);
    free(golden);
    text_clear(&t);
    metrics_close(m);
}

static void values_follow_from_the_run(void **state)
{
    (void)state;
    const made_run o = {.ranks = 2, .steps = 5, .comm = 0.2, .save_every = 5, .save = 0.1};
    assert_int_equal(made_run_write("values", &o, NULL), OK);
    metrics *m = metrics_of("values", NULL, true);
    text t = text_of(m);
    assert_true(value_of(&t, "trireme_step{run=\"values\"} ") == 5);
    assert_true(value_of(&t, "trireme_tokens_total{run=\"values\"} ") == 5 * 2048);
    assert_true(value_of(&t, "trireme_step_seconds_count{run=\"values\"} ") == 5);
    assert_true(value_of(&t, "trireme_step_seconds_bucket{run=\"values\",le=\"0.05\"} ") == 0);
    assert_true(value_of(&t, "trireme_step_seconds_bucket{run=\"values\",le=\"0.2\"} ") == 5);
    assert_true(value_of(&t, "trireme_checkpoints_total{run=\"values\"} ") == 1);
    // 5 steps of 100 ms, of which 20 % are communication: 18 % the sum of gradients, 1 MiB between 2 ranks.
    const char *const comm = "trireme_phase_seconds_total{run=\"values\",rank=\"1\",host=\"a\","
                             "phase=\"communication\"} ";
    assert_true(fabs(value_of(&t, comm) - 0.1) < 1e-9);
    const char *const save =
        "trireme_phase_seconds_total{run=\"values\",rank=\"1\",host=\"a\",phase=\"checkpoint\"} ";
    assert_true(fabs(value_of(&t, save) - 0.5 / 9) < 1e-6);
    const char *const labels =
        "{run=\"values\",rank=\"0\",host=\"a\",slurm_job_id=\"unknown\",node=\"a\",gpu=\"GPU0\","
        "comm_name=\"dp_shard\",n_nodes=\"1\",nranks=\"2\",collective=\"AllReduce\","
        "message_size=\"1-2MB\",algo_proto=\"unknown\"} ";
    text sample = {0};
    text_addf(&sample, "nccl_collective_exec_time_microseconds%s", labels);
    assert_true(fabs(value_of(&t, sample.chars) - 18000) < 1e-6);
    text_clear(&sample);
    text_addf(&sample, "nccl_bus_bandwidth_gbs%s", labels);
    assert_true(fabs(value_of(&t, sample.chars) - (1 << 20) / 18e6) < 1e-9);
    text_clear(&sample);
    text_clear(&t);
    metrics_close(m);
}

// The norms of groups are those of the last step, and a step without them has none.
static void groups_have_a_norm_each(void **state)
{
    (void)state;
    static const char *const lines[] = {"{\"event\":\"step\",\"step\":1,\"loss\":2,\"grad_norm_by_"
                                        "group\":{\"*.bias\":0.5,\"no group\":null}}\n",
                                        "{\"event\":\"step\",\"step\":2,\"loss\":2}\n"};
    text log = {0};
    text_add(&log, "{\"event\":\"start\",\"ranks\":1}\n");
    for (int i = 0; i < 2; i++) {
        text_add(&log, lines[i]);
        assert_int_equal(file_make_directories("groups", NULL), OK);
        assert_int_equal(file_replace("groups/log.jsonl", log.chars, log.bytes, NULL), OK);
        metrics *m = metrics_of("groups", NULL, true);
        text t = text_of(m);
        assert_true(i == 1 ||
                    value_of(&t, "trireme_group_grad_norm{run=\"groups\",group=\"*.bias\"} ") ==
                        0.5);
        assert_true((strstr(t.chars, "group=\"no group\"} NaN") != NULL) == (i == 0));
        text_clear(&t);
        metrics_close(m);
    }
    text_clear(&log);
}

// Counts the samples that have the label.
static int count_samples(const text *t, const char *label)
{
    int count = 0;
    for (const char *at = t->chars; (at = strstr(at, label)); at++) count++;
    return count;
}

static void a_rank_has_at_most_200_series(void **state)
{
    (void)state;
    const made_run o = {.ranks = 64, .steps = 3, .stages = 4, .micro = 8, .jitter = 0.3};
    assert_int_equal(made_run_write("large", &o, NULL), OK);
    metrics *m = metrics_of("large", NULL, true);
    text t = text_of(m);
    for (int r = 0; r < 64; r++) {
        char label[32];
        (void)snprintf(label, sizeof label, ",rank=\"%d\",", r);
        assert_in_range(count_samples(&t, label), 20, 200);
    }
    assert_null(strstr(t.chars, ",step="));
    text_clear(&t);
    metrics_close(m);
}

static void an_exporter_has_the_ranks_of_its_machine(void **state)
{
    (void)state;
    const made_run o = {.ranks = 4, .steps = 2, .hosts = 2};
    assert_int_equal(made_run_write("hosts", &o, NULL), OK);
    metrics *first = metrics_of("hosts", "made-0", true),
            *second = metrics_of("hosts", "made-1", false);
    text a = text_of(first), b = text_of(second);
    assert_non_null(strstr(a.chars, "trireme_loss{"));
    assert_non_null(strstr(a.chars, "rank=\"1\",host=\"a\""));
    assert_null(strstr(a.chars, "host=\"b\""));
    assert_null(strstr(b.chars, "trireme_loss{"));
    assert_non_null(strstr(b.chars, "rank=\"2\",host=\"b\""));
    assert_null(strstr(b.chars, "host=\"a\""));
    text_clear(&a);
    text_clear(&b);
    metrics_close(first);
    metrics_close(second);
}

// A run that is not there has no metrics. One that begins under the eyes of the exporter has its steps, and the means of
// its collectives are those of the last 15 seconds.
static void a_run_is_followed(void **state)
{
    (void)state;
    metrics *m = metrics_of("later", NULL, true);
    text t = text_of(m);
    assert_int_equal(t.bytes, 0);
    const made_run o = {.ranks = 2, .steps = 4, .comm = 0.5, .goes_on = true};
    assert_int_equal(made_run_write("later", &o, NULL), OK);
    assert_int_equal(metrics_refresh(m, SECOND, NULL), OK);
    text_clear(&t);
    t = text_of(m);
    assert_true(value_of(&t, "trireme_step{run=\"later\"} ") == 4);
    const char *const time = "nccl_collective_exec_time_microseconds{run=\"later\",rank=\"0\"";
    const char *at = strstr(t.chars, time);
    assert_non_null(at);
    assert_true(fabs(strtod(strchr(at, '}') + 1, NULL) - 45000) < 1e-6);
    // 10 more sums of 1 ms each.
    char *path = NULL;
    spans *s = NULL;
    assert_int_equal(run_view_spans_path("later", 0, &path, NULL), OK);
    assert_int_equal(spans_open(path, &s, NULL), OK);
    uint32_t row = 0;
    while (s->rows[row].kind != SPANS_CALL || s->rows[row].bytes != 1 << 20) row++;
    const long offset = (long)((const char *)&s->rows[row].count - (const char *)s->head);
    const uint64_t more[2] = {s->rows[row].count + 10, s->rows[row].sum_ns + 10 * 1000000};
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, offset, SEEK_SET), 0);
    assert_int_equal(fwrite(more, sizeof more, 1, f), 1);
    fclose(f);
    assert_int_equal(metrics_refresh(m, 20 * SECOND, NULL), OK);
    text_clear(&t);
    t = text_of(m);
    at = strstr(t.chars, time);
    assert_true(fabs(strtod(strchr(at, '}') + 1, NULL) - (4 * 45000 + 10 * 1000) / 14.0) < 1e-6);
    spans_close(s);
    free(path);
    text_clear(&t);
    metrics_close(m);
}

// ---- GPUs

static void gpus_have_the_names_of_dcgm(void **state)
{
    (void)state;
    metrics_devices *d = NULL;
    metrics *m = NULL;
    char host[65] = "";
    text sample = {0};
    assert_int_equal(metrics_devices_open("libno-such-nvml.so.1", &d, NULL), OK);
    assert_null(d);
    assert_int_equal(metrics_devices_open(NVML_STAND_IN, &d, NULL), OK);
    assert_int_equal(metrics_devices_count(d), 2);
    const metrics_options o = {.folder = "none", .devices = d};
    assert_int_equal(metrics_open(&o, &m, NULL), OK);
    text t = text_of(m);
    (void)gethostname(host, sizeof host - 1);
    text_addf(&sample,
              "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"
              "DCGM_FI_DEV_POWER_USAGE{run=\"none\",gpu=\"0\",UUID=\"GPU-0\","
              "pci_bus_id=\"00000000:01:00.0\",device=\"nvidia0\","
              "modelName=\"NVIDIA \\\"Stand-In\\\"\",Hostname=\"%s\"} 350.5\n#",
              host);
    assert_non_null(strstr(t.chars, sample.chars)); // the second GPU does not say its power
    assert_int_equal(count_samples(&t, "gpu=\"0\""), 10);
    assert_int_equal(count_samples(&t, "gpu=\"1\""), 9);
    const char *const used = strstr(t.chars, "DCGM_FI_DEV_FB_USED{run=\"none\",gpu=\"1\"");
    assert_non_null(used);
    assert_true(strtod(strstr(used, "} ") + 2, NULL) == 41);
    text_clear(&sample);
    text_clear(&t);
    metrics_close(m);
    metrics_devices_close(d);
}

// ---- The exporter

static void a_file_is_written_and_replaced(void **state)
{
    (void)state;
    int alive[2];
    exporter *x = NULL;
    char *written = NULL;
    err e = {0};
    const exporter_options o = {.metrics = {.folder = "file", .of_run = true},
                                .textfile = "out.prom"};
    const made_run run = {.ranks = 1, .steps = 2};
    assert_int_equal(pipe(alive), 0);
    assert_int_equal(exporter_open(&o, &x, &e), OK);
    assert_string_equal(exporter_address(x), "");
    assert_true(file_exists("out.prom"));
    assert_int_equal(made_run_write("file", &run, NULL), OK);
    close(alive[1]);
    assert_int_equal(exporter_run(x, alive[0], NULL), OK);
    close(alive[0]);
    assert_int_equal(file_read("out.prom", &written, NULL, NULL), OK);
    assert_non_null(strstr(written, "\ntrireme_step{run=\"file\"} 2\n"));
    free(written);
    exporter_close(x);
    const exporter_options bad = {.metrics = {.folder = "file", .of_run = true},
                                  .textfile = "no/such/out.prom"};
    assert_int_equal(exporter_open(&bad, &x, &e), E_IO);
    assert_non_null(strstr(e.text, "no/such/out.prom"));
}

// ---- Dashboards

static bool is_exported(const char *name, size_t bytes)
{
    static const char *const suffixes[] = {"", "_bucket", "_sum", "_count"};
    for (int m = 0; m < METRICS; m++)
        for (int s = 0; s < 4; s++) {
            const metric_row *row = metric_row_of((metric)m);
            const size_t length = strlen(row->name) + strlen(suffixes[s]);
            if (s > 0 && row->type != METRIC_TYPE_HISTOGRAM) continue;
            if (length == bytes && strncmp(name, row->name, strlen(row->name)) == 0 &&
                strncmp(name + strlen(row->name), suffixes[s], strlen(suffixes[s])) == 0)
                return true;
        }
    return false;
}

// Returns how many metrics the file names. Each is one that is exported.
static int check_dashboard(const char *path)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    static const char *const prefixes[] = {"trireme_", "nccl_", "DCGM_"};
    char *chars = NULL;
    int count = 0;
    assert_int_equal(file_read(path, &chars, NULL, NULL), OK);
    json_t *root = json_loads(chars, 0, NULL);
    assert_non_null(json_object_get(root, "panels"));
    json_decref(root);
    for (const char *at = chars; *at;) {
        const size_t bytes = strspn(at, word);
        for (size_t p = 0; bytes && p < sizeof prefixes / sizeof *prefixes; p++) {
            if (strncmp(at, prefixes[p], strlen(prefixes[p])) != 0) continue;
            if (!is_exported(at, bytes)) fail_msg("%s: %.*s", path, (int)bytes, at);
            count++;
        }
        at += bytes ? bytes : 1;
    }
    free(chars);
    return count;
}

static void dashboards_use_what_is_exported(void **state)
{
    (void)state;
    assert_true(check_dashboard(TESTS_DIR "/../examples/grafana/training.json") > 10);
    assert_true(check_dashboard(TESTS_DIR "/../examples/grafana/collectives.json") > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_made_run_has_the_golden_text),
        cmocka_unit_test(values_follow_from_the_run),
        cmocka_unit_test(groups_have_a_norm_each),
        cmocka_unit_test(a_rank_has_at_most_200_series),
        cmocka_unit_test(an_exporter_has_the_ranks_of_its_machine),
        cmocka_unit_test(a_run_is_followed),
        cmocka_unit_test(gpus_have_the_names_of_dcgm),
        cmocka_unit_test(a_file_is_written_and_replaced),
        cmocka_unit_test(dashboards_use_what_is_exported),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
