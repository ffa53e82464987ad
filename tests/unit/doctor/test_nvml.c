// test_nvml.c -- what doctor/gpu/nvml.h declares is NVML's: sizes and values, where this machine has NVIDIA's header.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "doctor/gpu/nvml.h"

#if defined __has_include
#if __has_include(<nvml.h>)
#include <nvml.h>
#define HAS_HEADER
#endif
#endif

#ifdef HAS_HEADER
_Static_assert(sizeof(nvml_memory) == sizeof(nvmlMemory_v2_t), "");
_Static_assert(offsetof(nvml_memory, used) == offsetof(nvmlMemory_v2_t, used), "");
_Static_assert(sizeof(nvml_bar) == sizeof(nvmlBAR1Memory_t), "");
_Static_assert(sizeof(nvml_utilization) == sizeof(nvmlUtilization_t), "");
_Static_assert(sizeof(nvml_pci) == sizeof(nvmlPciInfo_t), "");
_Static_assert(offsetof(nvml_pci, domain) == offsetof(nvmlPciInfo_t, domain), "");
_Static_assert(sizeof(nvml_process) == sizeof(nvmlProcessInfo_t), "");
_Static_assert(sizeof(nvml_fabric) == sizeof(nvmlGpuFabricInfo_t), "");
_Static_assert(offsetof(nvml_fabric, state) == offsetof(nvmlGpuFabricInfo_t, state), "");
_Static_assert(sizeof(nvml_field) == sizeof(nvmlFieldValue_t), "");
_Static_assert(offsetof(nvml_field, result) == offsetof(nvmlFieldValue_t, nvmlReturn), "");
_Static_assert(offsetof(nvml_field, value) == offsetof(nvmlFieldValue_t, value), "");
_Static_assert((int)NVML_NOT_SUPPORTED == (int)NVML_ERROR_NOT_SUPPORTED, "");
_Static_assert((int)NVML_TOO_SMALL == (int)NVML_ERROR_INSUFFICIENT_SIZE, "");
_Static_assert((int)NVML_NO_LIBRARY == (int)NVML_ERROR_LIBRARY_NOT_FOUND, "");
_Static_assert((int)NVML_NO_FUNCTION == (int)NVML_ERROR_FUNCTION_NOT_FOUND, "");
_Static_assert((int)NVML_OTHER_DRIVER == (int)NVML_ERROR_LIB_RM_VERSION_MISMATCH, "");
_Static_assert(NVML_REASON_POWER_CAP == nvmlClocksThrottleReasonSwPowerCap, "");
_Static_assert(NVML_REASON_SLOWDOWN == nvmlClocksThrottleReasonHwSlowdown, "");
_Static_assert(NVML_REASON_HOT_SOFTWARE == nvmlClocksThrottleReasonSwThermalSlowdown, "");
_Static_assert(NVML_REASON_HOT == nvmlClocksThrottleReasonHwThermalSlowdown, "");
_Static_assert(NVML_REASON_POWER_BRAKE == nvmlClocksThrottleReasonHwPowerBrakeSlowdown, "");
_Static_assert((int)NVML_MODE_PROHIBITED == (int)NVML_COMPUTEMODE_PROHIBITED, "");
_Static_assert((int)NVML_MODE_EXCLUSIVE == (int)NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, "");
_Static_assert((int)NVML_LINK_CRC_DATA == (int)NVML_NVLINK_ERROR_DL_CRC_DATA, "");
_Static_assert(NVML_LINKS >= NVML_NVLINK_MAX_LINKS, "");
#endif

// On machines without the header: the sizes that its version 13 has.
static void test_records_have_the_sizes_of_the_interface(void **state)
{
    (void)state;
    assert_int_equal(sizeof(nvml_memory), 40);
    assert_int_equal(sizeof(nvml_pci), 68);
    assert_int_equal(sizeof(nvml_process), 24);
    assert_int_equal(sizeof(nvml_fabric), 28);
    assert_int_equal(sizeof(nvml_field), 40);
}

static void test_a_library_that_is_not_there_is_said(void **state)
{
    (void)state;
    nvml n;
    assert_int_equal(nvml_open(&n, "/nonexistent/libnvidia-ml.so.1"), NVML_NO_LIBRARY);
    assert_string_equal(nvml_error_text(&n, NVML_NO_LIBRARY), "the library cannot be opened");
    assert_int_equal(nvml_open(&n, ""), NVML_NO_LIBRARY);
    assert_int_equal(nvml_open(&n, NULL), NVML_NO_LIBRARY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_have_the_sizes_of_the_interface),
        cmocka_unit_test(test_a_library_that_is_not_there_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
