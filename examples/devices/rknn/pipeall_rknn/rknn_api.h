/* The calls of librknnrt that a stage makes. Names, order of fields and numbers are facts of its published interface,
 * as of version 1.4 and later, on a 64-bit system; stand_in.c checks the sizes. */
#ifndef PIPEALL_RKNN_API_H
#define PIPEALL_RKNN_API_H

#include <stdint.h>

enum { RKNN_MAX_DIMS = 16, RKNN_MAX_NAME_LEN = 256 };
enum { RKNN_QUERY_IN_OUT_NUM = 0, RKNN_QUERY_INPUT_ATTR = 1, RKNN_QUERY_OUTPUT_ATTR = 2 };
enum { RKNN_TENSOR_FLOAT32 = 0, RKNN_TENSOR_FLOAT16 = 1, RKNN_TENSOR_INT8 = 2 }; /* type */
enum { RKNN_TENSOR_QNT_NONE = 0, RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC = 2 };        /* qnt_type: by scale and zp */
enum { RKNN_TENSOR_NCHW = 0, RKNN_TENSOR_NHWC = 1, RKNN_TENSOR_UNDEFINED = 3 }; /* format */
enum {                                                                          /* what calls return */
    RKNN_SUCC = 0,
    RKNN_ERR_FAIL = -1,
    RKNN_ERR_TIMEOUT = -2,
    RKNN_ERR_DEVICE_UNAVAILABLE = -3,
    RKNN_ERR_MALLOC_FAIL = -4,
    RKNN_ERR_PARAM_INVALID = -5,
    RKNN_ERR_MODEL_INVALID = -6,
    RKNN_ERR_CTX_INVALID = -7,
    RKNN_ERR_INPUT_INVALID = -8,
    RKNN_ERR_OUTPUT_INVALID = -9,
    RKNN_ERR_DEVICE_UNMATCH = -10,
    RKNN_ERR_INCOMPATIBLE_PRE_COMPILE = -11,
    RKNN_ERR_INCOMPATIBLE_OPTIMIZATION = -12,
    RKNN_ERR_TARGET_PLATFORM_UNMATCH = -13
};

typedef uint64_t rknn_context;

typedef struct rknn_input_output_num {
    uint32_t n_input, n_output;
} rknn_input_output_num;

typedef struct rknn_tensor_attr {
    uint32_t index; /* set before the query */
    uint32_t n_dims, dims[RKNN_MAX_DIMS];
    char name[RKNN_MAX_NAME_LEN];
    uint32_t n_elems, size;
    int32_t fmt, type, qnt_type;
    int8_t fl;
    int32_t zp;
    float scale;
    uint32_t w_stride, size_with_stride;
    uint8_t pass_through;
    uint32_t h_stride;
} rknn_tensor_attr;

typedef struct rknn_input {
    uint32_t index;
    void *buf;
    uint32_t size;
    uint8_t pass_through; /* 0: the runtime turns type and fmt into what the model reads; 1: it is that already */
    int32_t type, fmt;
} rknn_input;

typedef struct rknn_output {
    uint8_t want_float, is_prealloc;
    uint32_t index;
    void *buf;
    uint32_t size;
} rknn_output;

/* model: a path where size is 0. extend: NULL. */
typedef int rknn_init_fn(rknn_context *context, void *model, uint32_t size, uint32_t flag, void *extend);
typedef int rknn_destroy_fn(rknn_context context);
typedef int rknn_query_fn(rknn_context context, int command, void *info, uint32_t size);
typedef int rknn_set_core_mask_fn(rknn_context context, int mask);
typedef int rknn_inputs_set_fn(rknn_context context, uint32_t count, rknn_input *inputs);
typedef int rknn_run_fn(rknn_context context, void *extend);
typedef int rknn_outputs_get_fn(rknn_context context, uint32_t count, rknn_output *outputs, void *extend);
typedef int rknn_outputs_release_fn(rknn_context context, uint32_t count, rknn_output *outputs);

#endif
