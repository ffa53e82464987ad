// vector_types.h -- the vector types of CUDA C++ that sources of the cuda device use, with CUDA's sizes and
// alignments. cuda_runtime_api.h includes it, as CUDA's own does. C and C++ read it.
#ifndef TRIREME_STAND_IN_VECTOR_TYPES_H
#define TRIREME_STAND_IN_VECTOR_TYPES_H

#ifdef __cplusplus
#define STAND_IN_ALIGN(n) alignas(n)
#else
#define STAND_IN_ALIGN(n) _Alignas(n)
#endif

#define STAND_IN_VECTOR(name, type, align)                                                         \
    typedef struct name##1                                                                         \
    {                                                                                              \
        type x;                                                                                    \
    }                                                                                              \
    name##1;                                                                                       \
    typedef struct name##2                                                                         \
    {                                                                                              \
        STAND_IN_ALIGN(2 * sizeof(type)) type x;                                                   \
        type y;                                                                                    \
    }                                                                                              \
    name##2;                                                                                       \
    typedef struct name##3                                                                         \
    {                                                                                              \
        type x, y, z;                                                                              \
    }                                                                                              \
    name##3;                                                                                       \
    typedef struct name##4                                                                         \
    {                                                                                              \
        STAND_IN_ALIGN(align) type x;                                                              \
        type y, z, w;                                                                              \
    }                                                                                              \
    name##4

STAND_IN_VECTOR(char, signed char, 4);
STAND_IN_VECTOR(uchar, unsigned char, 4);
STAND_IN_VECTOR(short, short, 8);
STAND_IN_VECTOR(ushort, unsigned short, 8);
STAND_IN_VECTOR(int, int, 16);
STAND_IN_VECTOR(uint, unsigned, 16);
STAND_IN_VECTOR(float, float, 16);
STAND_IN_VECTOR(longlong, long long, 16);
STAND_IN_VECTOR(ulonglong, unsigned long long, 16);
STAND_IN_VECTOR(double, double, 16);

#undef STAND_IN_VECTOR
#undef STAND_IN_ALIGN

#ifdef __cplusplus
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz)
    {
    }
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
    {
    }
    constexpr operator uint3() const
    {
        return uint3{x, y, z};
    }
};
#else
typedef struct dim3 {
    unsigned x, y, z;
} dim3;
#endif

#endif
