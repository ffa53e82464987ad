// kernel_rates_json.c -- rates of kernels as a section of a machine file: one object for each curve, with its points as
// [size, size, size, efficiency]. See kernel_rates.h.
#include "base/alloc.h"
#include "planner/kernel_rates.h"

#include <math.h>
#include <string.h>

enum { POINT_NUMBERS = KERNEL_COST_SIZES + 1 };

// ---- Reading

static status read_positive(const json_t *section, const char *key, double *out, err *e)
{
    const json_t *v = json_object_get(section, key);
    *out = json_number_value(v);
    if (*out > 0) return OK;
    return err_set(e, E_USAGE, "kernels.%s: valid is a number above 0", key);
}

static status read_type(const char *name, const char *where, dtype *out, err *e)
{
    for (int t = 0; name && t < DTYPES; t++)
        if (strcmp(dtype_name((dtype)t), name) == 0) {
            *out = (dtype)t;
            return OK;
        }
    return err_set(e, E_USAGE, "%s: found %s; valid is a type, such as fp32", where,
                   name ? name : "no text");
}

static status read_products(const json_t *section, kernel_rates *out, err *e)
{
    status result = OK;
    const json_t *const rates = json_object_get(section, "product_flops");
    const char *name = NULL;
    json_t *v = NULL;
    if (json_object_size(rates) == 0)
        FAIL(E_USAGE, "kernels.product_flops: valid is a rate for each type");
    json_object_foreach((json_t *)(uintptr_t)rates, name, v)
    {
        dtype type = F32;
        TRY(read_type(name, "kernels.product_flops", &type, e));
        TRY(read_positive(rates, name, &out->product_flops[type], e));
    }
done:
    return result;
}

static status read_kind(const json_t *row, size_t number, kernel_kind *out, err *e)
{
    const char *name = json_string_value(json_object_get(row, "kernel"));
    for (int k = 0; name && k < KERNELS; k++)
        if (strcmp(kernel_name((kernel_kind)k), name) == 0) {
            *out = (kernel_kind)k;
            return OK;
        }
    return err_set(e, E_USAGE,
                   "kernels.rows[%zu].kernel: found %s; valid is the name of a kernel, such as "
                   "matmul",
                   number, name ? name : "no text");
}

static bool read_numbers(const json_t *from, kernel_point *out)
{
    double v[POINT_NUMBERS];
    if (json_array_size(from) != POINT_NUMBERS) return false;
    for (size_t i = 0; i < POINT_NUMBERS; i++) {
        v[i] = json_number_value(json_array_get(from, i));
        if (!(v[i] > 0)) return false;
    }
    memcpy(out->size, v, sizeof out->size);
    out->efficiency = v[KERNEL_COST_SIZES];
    return true;
}

static status read_row(const json_t *row, size_t number, kernel_rates *out, size_t *room, err *e)
{
    status result = OK;
    char where[48];
    const json_t *const points = json_object_get(row, "points"), *const form =
                                                                     json_object_get(row, "form");
    kernel_point p = {.form = (int)json_integer_value(form)};
    TRY(read_kind(row, number, &p.kind, e));
    snprintf(where, sizeof where, "kernels.rows[%zu].type", number);
    TRY(read_type(json_string_value(json_object_get(row, "type")), where, &p.type, e));
    if (!json_is_integer(form))
        FAIL(E_USAGE, "kernels.rows[%zu].form: valid is a whole number", number);
    if (json_array_size(points) == 0)
        FAIL(E_USAGE, "kernels.rows[%zu].points: valid is a list of points", number);
    for (size_t i = 0; i < json_array_size(points); i++) {
        if (!read_numbers(json_array_get(points, i), &p))
            FAIL(E_USAGE,
                 "kernels.rows[%zu].points[%zu]: valid are three sizes and an efficiency, all "
                 "above 0",
                 number, i);
        TRY(alloc_grow(&out->point, room, out->points + 1, sizeof *out->point,
                       "the rates of kernels", e));
        out->point[out->points++] = p;
    }
done:
    return result;
}

status kernel_rates_read(const json_t *section, kernel_rates *out, err *e)
{
    status result = OK;
    size_t room = 0;
    const json_t *const rows = json_object_get(section, "rows");
    *out = (kernel_rates){.points = 0};
    if (!json_is_object(section)) FAIL(E_USAGE, "kernels: valid is an object with rows");
    TRY(read_positive(section, "memory_bytes_per_s", &out->memory_bytes_per_s, e));
    TRY(read_products(section, out, e));
    out->cache_bytes = fmax(json_number_value(json_object_get(section, "cache_bytes")), 0);
    if (json_array_size(rows) == 0) FAIL(E_USAGE, "kernels.rows: valid is a list of rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        TRY(read_row(json_array_get(rows, i), i, out, &room, e));
    result = kernel_rates_fit(out, e);
    if (result != OK) err_prefix(e, "kernels.");
done:
    if (result != OK) kernel_rates_clear(out);
    return result;
}

// ---- Writing

static json_t *write_fit(const kernel_fit *f)
{
    json_t *const points = json_array();
    bool whole = points != NULL;
    for (int i = 0; i < f->points; i++) {
        const kernel_point *p = &f->point[i];
        json_t *numbers = json_pack("[ffff]", p->size[0], p->size[1], p->size[2], p->efficiency);
        whole = json_array_append_new(points, numbers) == 0 && whole;
    }
    if (whole)
        return json_pack("{s:s,s:s,s:i,s:o}", "kernel", kernel_name(f->kind), "type",
                         dtype_name(f->type), "form", f->form, "points", points);
    json_decref(points);
    return NULL;
}

json_t *kernel_rates_write(const kernel_rates *r)
{
    json_t *const products = json_object(), *const rows = json_array();
    bool whole = products && rows;
    for (int t = 0; t < DTYPES; t++)
        if (r->product_flops[t] > 0)
            whole = json_object_set_new(products, dtype_name((dtype)t),
                                        json_real(r->product_flops[t])) == 0 &&
                    whole;
    for (size_t i = 0; i < r->fits; i++)
        whole = json_array_append_new(rows, write_fit(&r->fit[i])) == 0 && whole;
    json_t *const out =
        json_pack("{s:f,s:f,s:o,s:o}", "memory_bytes_per_s", r->memory_bytes_per_s, "cache_bytes",
                  r->cache_bytes, "product_flops", products, "rows", rows);
    if (whole) return out;
    json_decref(out);
    return NULL;
}
