// Tests of the checks of the processor, on files that look like those of a machine: each finds its fault, and is silent
// without it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "doctor_rig.h"

#define CPUS "/sys/devices/system/cpu"

static void write_cores(rig *r, const char *usable, const char *online)
{
    char content[256];
    snprintf(content, sizeof content, "Name:\ttrireme\nCpus_allowed:\tff\nCpus_allowed_list:\t%s\n",
             usable);
    rig_write(r, "/proc/self/status", content);
    snprintf(content, sizeof content, "%s\n", online);
    rig_write(r, CPUS "/online", content);
    rig_write(r, CPUS "/present", content);
}

// Two cores with a file of such contents.
static void write_each(rig *r, const char *name, const char *first, const char *second)
{
    char path[256];
    snprintf(path, sizeof path, CPUS "/cpu0/%s", name);
    rig_write(r, path, first);
    snprintf(path, sizeof path, CPUS "/cpu1/%s", name);
    rig_write(r, path, second);
}

static void write_nodes(rig *r)
{
    rig_write(r, "/sys/devices/system/node/node0/cpulist", "0-3\n");
    rig_write(r, "/sys/devices/system/node/node1/cpulist", "4-7\n");
}

// The first remedy of the check's only finding.
static void expect_remedy(rig *r, const char *code, const char *remedy)
{
    doctor_report report;
    err e = {.code = OK};
    char *s = NULL;
    rig_run(r, code, &report);
    assert_int_equal(report.of[0].count, 1);
    rig_must(doctor_expand(report.of[0].check->remedy[0], &report.of[0].finding[0], &s, &e), &e);
    assert_string_equal(s, remedy);
    free(s);
    doctor_report_clear(&report);
}

static void a_quota_below_the_cores_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_cores(&r, "0-7", "0-7");
    r.context.ranks = 2;
    rig_write(&r, "/proc/self/cgroup", "0::/job/step\n");
    rig_write(&r, "/sys/fs/cgroup/job/cpu.max", "450000 100000\n");
    rig_write(&r, "/sys/fs/cgroup/job/step/cpu.max", "600000 100000\n");
    rig_expect_found(
        &r, "cpu-limit",
        "The control group /sys/fs/cgroup/job allows the time of 4.5 cores, while 8 are visible");
    expect_remedy(&r, "cpu-limit", "$ trireme train job.yaml --launch.threads_per_rank 2");
    r.context.ranks = 8;
    expect_remedy(&r, "cpu-limit", "$ trireme train job.yaml --launch.threads_per_rank 1");
    rig_write(&r, "/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    rig_write(&r, "/sys/fs/cgroup/job/cpu.max", "800000 100000\n");
    rig_expect_passed(&r, "cpu-limit");
    rig_write(&r, "/sys/fs/cgroup/job/cpu.max", "max 100000\n");
    rig_expect_skipped(&r, "cpu-limit", "no control group limits the time of cores");
    rig_close(&r);
}

static void a_quota_of_version_1_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_cores(&r, "0-7", "0-7");
    rig_write(&r, "/proc/self/cgroup", "2:cpu,cpuacct:/docker/ab12\n");
    rig_write(&r, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
    rig_write(&r, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    rig_expect_found(&r, "cpu-limit",
                     "The control group /sys/fs/cgroup/cpu,cpuacct allows the time of 2 cores, "
                     "while 8 are visible");
    rig_write(&r, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    rig_expect_skipped(&r, "cpu-limit", "no control group limits the time of cores");
    rig_close(&r);
}

static void threads_that_were_stopped_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/self/cgroup", "0::/job\n");
    rig_write(&r, "/sys/fs/cgroup/job/cpu.stat",
              "usage_usec 1\nnr_periods 1000\nnr_throttled 300\nthrottled_usec 5\n");
    rig_expect_found(&r, "cpu-throttled",
                     "The kernel stopped the threads of this control group in 30 % of the periods, "
                     "because its time was used up");
    rig_write(&r, "/sys/fs/cgroup/job/cpu.stat",
              "usage_usec 1\nnr_periods 1000\nnr_throttled 49\nthrottled_usec 5\n");
    rig_expect_passed(&r, "cpu-throttled");
    rig_write(&r, "/sys/fs/cgroup/job/cpu.stat", "usage_usec 1\nnr_periods 0\nnr_throttled 0\n");
    rig_expect_skipped(&r, "cpu-throttled", "no control group limits the time of cores");
    rig_close(&r);
}

static void a_mask_of_few_cores_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_cores(&r, "0,2-4", "0-7");
    rig_expect_found(&r, "cpuset", "This process may use 4 cores, while 8 are online");
    write_cores(&r, "5", "0-7");
    rig_expect_found_as(&r, "cpuset", DOCTOR_WARNING,
                        "This process may use 1 core, while 8 are online");
    write_cores(&r, "0-7", "0-7");
    rig_expect_passed(&r, "cpuset");
    rig_remove(&r, "/proc/self/status");
    rig_expect_blind(
        &r, "cpuset",
        "/proc/self/status and /sys/devices/system/cpu/online do not say which cores there are");
    rig_close(&r);
}

static void ranks_that_share_cores_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_cores(&r, "0-2", "0-7");
    r.context.ranks = 4;
    rig_expect_found(&r, "cores-per-rank", "3 cores for 4 ranks is too few; 4 is the least");
    r.context.ranks = 3;
    rig_expect_passed(&r, "cores-per-rank");
    r.context.ranks = 0; // one for each GPU, with two cores
    rig_write(&r, "/dev/nvidia0", "");
    rig_write(&r, "/dev/nvidia1", "");
    rig_write(&r, "/dev/nvidiactl", "");
    rig_expect_found(&r, "cores-per-rank", "3 cores for 2 ranks is too few; 4 is the least");
    rig_remove(&r, "/dev/nvidia1");
    rig_expect_passed(&r, "cores-per-rank");
    rig_close(&r);
}

static void cores_that_are_off_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_cores(&r, "0-5", "0-5");
    rig_write(&r, CPUS "/present", "0-7\n");
    rig_write(&r, CPUS "/smt/control", "on\n");
    rig_expect_found(&r, "cores-offline", "2 of 8 cores are offline");
    rig_write(&r, CPUS "/present", "0-5\n");
    rig_expect_passed(&r, "cores-offline");
    rig_write(&r, CPUS "/present", "0-11\n");
    rig_write(&r, CPUS "/smt/control", "off\n");
    rig_expect_skipped(&r, "cores-offline", "simultaneous threads of cores are switched off");
    rig_close(&r);
}

static void isolated_cores_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, CPUS "/isolated", "2-5\n");
    rig_expect_found(&r, "cores-isolated",
                     "The cores 2-5 are isolated: the kernel moves no thread to them by itself");
    rig_write(&r, CPUS "/isolated", "\n");
    rig_expect_passed(&r, "cores-isolated");
    rig_close(&r);
}

static void ranks_that_do_not_fit_the_nodes_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_nodes(&r);
    r.context.ranks = 3;
    rig_expect_found(&r, "numa-ranks", "3 ranks cannot be spread evenly over 2 NUMA nodes");
    r.context.ranks = 1;
    rig_expect_found(&r, "numa-ranks", "1 rank cannot be spread evenly over 2 NUMA nodes");
    rig_write(&r, "/dev/nvidia0", ""); // a rank of a GPU needs one node only
    rig_expect_passed(&r, "numa-ranks");
    r.context.ranks = 4;
    rig_expect_passed(&r, "numa-ranks");
    rig_remove(&r, "/sys/devices/system/node/node1");
    rig_expect_skipped(&r, "numa-ranks", "there is one NUMA node");
    rig_close(&r);
}

static void a_low_priority_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/self/stat",
              "12 (a) b) R 1 12 12 0 -1 4194304 90 0 0 0 1 2 3 4 30 10 1 0 555 4096 20 7\n");
    rig_expect_found(&r, "process-priority",
                     "This process has the nice value 10, which the ranks inherit");
    rig_write(&r, "/proc/self/stat",
              "12 (a) b) R 1 12 12 0 -1 4194304 90 0 0 0 1 2 3 4 20 0 1 0 555 4096 20 7\n");
    rig_expect_passed(&r, "process-priority");
    rig_close(&r);
}

static void a_low_weight_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/self/cgroup", "0::/pods/best\n");
    rig_write(&r, "/sys/fs/cgroup/pods/cpu.weight", "100\n");
    rig_write(&r, "/sys/fs/cgroup/pods/best/cpu.weight", "1\n");
    rig_expect_found(&r, "cpu-weight",
                     "The control group /sys/fs/cgroup/pods/best has 0.01 of the usual weight");
    rig_write(&r, "/sys/fs/cgroup/pods/best/cpu.weight", "100\n");
    rig_expect_passed(&r, "cpu-weight");
    rig_remove(&r, "/sys/fs/cgroup/pods");
    rig_expect_skipped(&r, "cpu-weight", "no control group has a weight");
    rig_write(&r, "/proc/self/cgroup", "3:cpu:/\n");
    rig_write(&r, "/sys/fs/cgroup/cpu/cpu.shares", "512\n");
    rig_expect_found(&r, "cpu-weight",
                     "The control group /sys/fs/cgroup/cpu has 0.5 of the usual weight");
    rig_write(&r, "/sys/fs/cgroup/cpu/cpu.shares", "1024\n");
    rig_expect_passed(&r, "cpu-weight");
    rig_close(&r);
}

static void a_slow_governor_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_expect_skipped(&r, "cpu-governor", "the kernel does not set the frequency of cores");
    rig_folder(&r, CPUS "/cpufreq"); // is no core
    rig_folder(&r, CPUS "/cpuidle");
    write_each(&r, "cpufreq/scaling_driver", "acpi-cpufreq\n", "acpi-cpufreq\n");
    write_each(&r, "cpufreq/scaling_governor", "schedutil\n", "powersave\n");
    rig_expect_found(&r, "cpu-governor", "1 of 2 cores have the governor powersave");
    write_each(&r, "cpufreq/scaling_governor", "performance\n", "schedutil\n");
    rig_expect_passed(&r, "cpu-governor");
    // Of this driver, powersave is the usual governor.
    write_each(&r, "cpufreq/scaling_driver", "intel_pstate\n", "intel_pstate\n");
    write_each(&r, "cpufreq/scaling_governor", "powersave\n", "powersave\n");
    rig_expect_passed(&r, "cpu-governor");
    rig_close(&r);
}

static void a_preference_to_save_energy_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_each(&r, "cpufreq/energy_performance_preference", "balance_power\n", "balance_power\n");
    rig_expect_found(&r, "cpu-energy", "2 of 2 cores have the energy preference balance_power");
    write_each(&r, "cpufreq/energy_performance_preference", "balance_performance\n",
               "performance\n");
    rig_expect_passed(&r, "cpu-energy");
    rig_close(&r);
}

static void a_cap_of_the_frequency_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_each(&r, "cpufreq/cpuinfo_max_freq", "3800000\n", "3800000\n");
    write_each(&r, "cpufreq/scaling_max_freq", "2000000\n", "2000000\n");
    rig_expect_found(&r, "cpu-frequency-cap", "2 of 2 cores may reach only 2.00 of 3.80 GHz");
    write_each(&r, "cpufreq/scaling_max_freq", "3800000\n", "3700000\n");
    rig_expect_passed(&r, "cpu-frequency-cap");
    rig_close(&r);
}

static void a_boost_that_is_off_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_expect_skipped(&r, "cpu-boost", "the kernel does not set the boost of cores");
    rig_write(&r, CPUS "/cpufreq/boost", "0\n");
    rig_expect_found(&r, "cpu-boost",
                     "The boost of cores is off: /sys/devices/system/cpu/cpufreq/boost is 0");
    rig_write(&r, CPUS "/cpufreq/boost", "1\n");
    rig_expect_passed(&r, "cpu-boost");
    rig_write(&r, CPUS "/intel_pstate/no_turbo", "1\n");
    rig_expect_found(
        &r, "cpu-boost",
        "The boost of cores is off: /sys/devices/system/cpu/intel_pstate/no_turbo is 1");
    rig_close(&r);
}

static void heat_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_each(&r, "thermal_throttle/core_throttle_count", "0\n", "0\n");
    write_each(&r, "thermal_throttle/package_throttle_count", "99\n", "99\n");
    rig_expect_passed(&r, "cpu-thermal");
    write_each(&r, "thermal_throttle/core_throttle_count", "0\n", "1234\n");
    rig_expect_found(&r, "cpu-thermal",
                     "Heat has slowed cpu1 down 1234 times since the machine started");
    rig_close(&r);
}

static void stolen_time_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, "/proc/stat",
              "cpu  500 0 100 200 0 0 0 200 0 0\ncpu0 500 0 100 200 0 0 0 200 0 0\n");
    rig_expect_found(&r, "cpu-steal",
                     "The hypervisor gave other machines 20 % of the time of these cores since "
                     "this machine started");
    rig_write(&r, "/proc/stat",
              "cpu  500 0 100 360 0 0 0 40 0 0\ncpu0 500 0 100 360 0 0 0 40 0 0\n");
    rig_expect_passed(&r, "cpu-steal");
    rig_close(&r);
}

static void load_of_others_is_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_cores(&r, "0-7", "0-7");
    rig_write(&r, "/proc/loadavg", "1.00 6.00 9.00 3/200 4242\n");
    rig_expect_found(&r, "cpu-load", "The load of the last five minutes is 6.0 on 8 cores");
    rig_write(&r, "/proc/loadavg", "9.00 5.90 9.00 3/200 4242\n");
    rig_expect_passed(&r, "cpu-load");
    rig_close(&r);
}

static void a_slow_clock_is_found(void **state)
{
    static const char PATH[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(&r, PATH, "hpet\n");
    rig_expect_found(&r, "clocksource", "The kernel takes the time from hpet");
    rig_write(&r, PATH, "tsc\n");
    rig_expect_passed(&r, "clocksource");
    rig_write(&r, PATH, "kvm-clock\n");
    rig_expect_passed(&r, "clocksource");
    rig_close(&r);
}

static void missing_vector_instructions_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    rig_write(
        &r, "/proc/cpuinfo",
        "processor\t: 0\nmodel name\t: QEMU Virtual CPU\nflags\t\t: fpu sse2 avx avx2x f16c\n");
    rig_expect_found(&r, "cpu-features", "The processor (QEMU Virtual CPU) lacks avx2, fma");
    rig_write(&r, "/proc/cpuinfo",
              "processor\t: 0\nmodel name\t: Intel Xeon\nflags\t\t: fpu fma sse2 f16c avx avx2\n");
    rig_expect_passed(&r, "cpu-features");
    rig_write(&r, "/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd sve\n");
    rig_expect_skipped(&r, "cpu-features", "the processor is not of the kind x86");
    rig_close(&r);
}

static void two_kinds_of_cores_are_found(void **state)
{
    rig r;
    (void)state;
    rig_open(&r);
    write_each(&r, "cpufreq/cpuinfo_max_freq", "5200000\n", "3900000\n");
    rig_expect_found(&r, "core-kinds",
                     "The highest frequency of some cores is 3.90 GHz, and of others 5.20 GHz");
    write_each(&r, "cpufreq/cpuinfo_max_freq", "5200000\n", "5100000\n"); // favoured cores
    rig_expect_passed(&r, "core-kinds");
    rig_close(&r);
}

static void hosts_are_compared_by_their_processors(void **state)
{
    rig r;
    doctor_report report;
    (void)state;
    rig_open(&r);
    write_cores(&r, "0-5", "0-7");
    rig_write(&r, "/proc/cpuinfo", "model name\t: Intel Xeon\nflags\t\t: fma f16c avx2\n");
    rig_run(&r, "cpuset", &report);
    assert_int_equal(report.of[0].number_count, 1);
    assert_string_equal(report.of[0].number[0].key, "cores_usable");
    assert_true(report.of[0].number[0].value == 6);
    assert_true(report.of[0].number[0].compares);
    doctor_report_clear(&report);
    rig_run(&r, "cpu-features", &report);
    assert_int_equal(report.of[0].fact_count, 1);
    assert_string_equal(report.of[0].fact[0].name, "cpu_model");
    assert_string_equal(report.of[0].fact[0].text, "Intel Xeon");
    doctor_report_clear(&report);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quota_below_the_cores_is_found),
        cmocka_unit_test(a_quota_of_version_1_is_found),
        cmocka_unit_test(threads_that_were_stopped_are_found),
        cmocka_unit_test(a_mask_of_few_cores_is_found),
        cmocka_unit_test(ranks_that_share_cores_are_found),
        cmocka_unit_test(cores_that_are_off_are_found),
        cmocka_unit_test(isolated_cores_are_found),
        cmocka_unit_test(ranks_that_do_not_fit_the_nodes_are_found),
        cmocka_unit_test(a_low_priority_is_found),
        cmocka_unit_test(a_low_weight_is_found),
        cmocka_unit_test(a_slow_governor_is_found),
        cmocka_unit_test(a_preference_to_save_energy_is_found),
        cmocka_unit_test(a_cap_of_the_frequency_is_found),
        cmocka_unit_test(a_boost_that_is_off_is_found),
        cmocka_unit_test(heat_is_found),
        cmocka_unit_test(stolen_time_is_found),
        cmocka_unit_test(load_of_others_is_found),
        cmocka_unit_test(a_slow_clock_is_found),
        cmocka_unit_test(missing_vector_instructions_are_found),
        cmocka_unit_test(two_kinds_of_cores_are_found),
        cmocka_unit_test(hosts_are_compared_by_their_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
