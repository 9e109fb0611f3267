/* A stand-in for librknnrt, of our own: the calls that a stage makes, computed by stand_in.py on the CPU, and refused as
 * the vendor's library refuses them. It lays tensors out as logs of that library show: pixels (NHWC) in, planes (NCHW)
 * out; float32 in and out by its own conversion, int8 as it is.
 *
 * STAND_IN_FAULT=CALL:CODE:COUNT  CALL returns CODE from its COUNTth time on; "late" waits CODE milliseconds a run;
 *                                 "shape", "count", "format", "levels" tell of other tensors than the model has. */
#include <Python.h>

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "rknn_api.h"

/* The sizes and places of the vendor's structures, as its header gives them on 64-bit systems. */
_Static_assert(sizeof(rknn_input_output_num) == 8 && sizeof(rknn_tensor_attr) == 376, "rknn_tensor_attr");
_Static_assert(offsetof(rknn_tensor_attr, name) == 72 && offsetof(rknn_tensor_attr, fmt) == 336 &&
               offsetof(rknn_tensor_attr, zp) == 352 && offsetof(rknn_tensor_attr, h_stride) == 372, "rknn_tensor_attr");
_Static_assert(sizeof(rknn_input) == 32 && offsetof(rknn_input, fmt) == 28, "rknn_input");
_Static_assert(sizeof(rknn_output) == 24 && offsetof(rknn_output, buf) == 8, "rknn_output");

enum { MOST = 8 };

typedef struct model {
    PyObject *python; /* stand_in.Model */
    uint32_t inputs, outputs;
    rknn_tensor_attr attrs[2][MOST];
    void *given[MOST];
    int mask, is_set, has_run;
} model;

int rknn_stand_in = 1;

/* Whether this call of a function is refused: its code, else RKNN_SUCC. */
static int fault(const char *call) {
    static atomic_long counts;
    char name[32] = "";
    int code = 0;
    long first = 1;
    const char *text = getenv("STAND_IN_FAULT");
    if (!text || sscanf(text, "%31[^:]:%d:%ld", name, &code, &first) < 1 || strcmp(name, call)) return RKNN_SUCC;
    return atomic_fetch_add(&counts, 1) + 1 >= first ? code : RKNN_SUCC;
}

static int told(const char *what) {
    const char *text = getenv("STAND_IN_FAULT");
    return text && !strcmp(text, what);
}

static void describe(rknn_tensor_attr *about, uint32_t index, PyObject *tensor) {
    const char *name = PyUnicode_AsUTF8(PyTuple_GetItem(tensor, 0));
    PyObject *shape = PyTuple_GetItem(tensor, 1);
    *about = (rknn_tensor_attr){.index = index, .n_dims = (uint32_t)PyTuple_Size(shape), .n_elems = 1};
    snprintf(about->name, sizeof about->name, "%s", name);
    about->fmt = (int32_t)PyLong_AsLong(PyTuple_GetItem(tensor, 2));
    for (uint32_t i = 0; i < about->n_dims; i++) {
        about->dims[i] = (uint32_t)PyLong_AsLong(PyTuple_GetItem(shape, i));
        about->n_elems *= about->dims[i];
    }
    about->type = PyObject_IsTrue(PyTuple_GetItem(tensor, 3)) ? RKNN_TENSOR_INT8 : RKNN_TENSOR_FLOAT16; /* inside */
    about->size = about->size_with_stride = about->n_elems * (about->type == RKNN_TENSOR_INT8 ? 1 : 2);
    if (about->type == RKNN_TENSOR_INT8) {
        about->qnt_type = RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC;
        about->scale = (float)PyFloat_AsDouble(PyTuple_GetItem(tensor, 4));
        about->zp = (int32_t)PyLong_AsLong(PyTuple_GetItem(tensor, 5)) + told("levels");
    }
    if (told("shape")) about->dims[about->n_dims - 1] += 1;
    if (told("format")) about->fmt = 2;
}

static uint32_t describe_all(rknn_tensor_attr *about, PyObject *python, const char *which) {
    PyObject *tensors = PyObject_GetAttrString(python, which);
    const uint32_t count = (uint32_t)PyTuple_Size(tensors);
    for (uint32_t i = 0; i < count && i < MOST; i++) describe(&about[i], i, PyTuple_GetItem(tensors, i));
    Py_DECREF(tensors);
    return count;
}

/* stand_in.load gives a model, or the code of an error. */
int rknn_init(rknn_context *context, void *path, uint32_t size, uint32_t flag, void *extend) {
    (void)flag, (void)extend;
    int code = size ? RKNN_ERR_PARAM_INVALID : fault("init");
    if (code) return code;
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject *module = PyImport_ImportModule("stand_in");
    PyObject *python = module ? PyObject_CallMethod(module, "load", "s", (const char *)path) : NULL;
    if (!python) {
        PyErr_Print();
        code = RKNN_ERR_FAIL;
    } else if (PyLong_Check(python)) {
        code = (int)PyLong_AsLong(python);
        Py_DECREF(python);
    } else {
        model *self = calloc(1, sizeof *self);
        self->python = python;
        self->inputs = describe_all(self->attrs[0], python, "inputs");
        self->outputs = describe_all(self->attrs[1], python, "outputs");
        *context = (rknn_context)self;
    }
    Py_XDECREF(module);
    PyGILState_Release(state);
    return code;
}

int rknn_destroy(rknn_context context) {
    model *self = (model *)context;
    if (!self) return RKNN_ERR_CTX_INVALID;
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(self->python);
    PyGILState_Release(state);
    free(self);
    return RKNN_SUCC;
}

int rknn_query(rknn_context context, int command, void *info, uint32_t size) {
    const model *self = (const model *)context;
    if (!self) return RKNN_ERR_CTX_INVALID;
    if (command == RKNN_QUERY_IN_OUT_NUM && size == sizeof(rknn_input_output_num)) {
        *(rknn_input_output_num *)info = (rknn_input_output_num){self->inputs, self->outputs + (uint32_t)told("count")};
        return fault("query");
    }
    if ((command != RKNN_QUERY_INPUT_ATTR && command != RKNN_QUERY_OUTPUT_ATTR) || size != sizeof(rknn_tensor_attr))
        return RKNN_ERR_PARAM_INVALID;
    const int out = command == RKNN_QUERY_OUTPUT_ATTR;
    const uint32_t index = ((rknn_tensor_attr *)info)->index;
    if (index >= (out ? self->outputs : self->inputs)) return RKNN_ERR_PARAM_INVALID;
    *(rknn_tensor_attr *)info = self->attrs[out][index];
    return RKNN_SUCC;
}

int rknn_set_core_mask(rknn_context context, int mask) {
    model *self = (model *)context;
    if (!self) return RKNN_ERR_CTX_INVALID;
    if (mask != 1 && mask != 2 && mask != 4) return RKNN_ERR_PARAM_INVALID;
    self->mask = mask;
    return fault("set_core_mask");
}

int rknn_inputs_set(rknn_context context, uint32_t count, rknn_input *inputs) {
    model *self = (model *)context;
    const int code = fault("inputs_set");
    if (!self) return RKNN_ERR_CTX_INVALID;
    if (code) return code;
    if (count != self->inputs) return RKNN_ERR_INPUT_INVALID;
    for (uint32_t i = 0; i < count; i++) {
        const rknn_tensor_attr *about = &self->attrs[0][i];
        const int whole = about->type == RKNN_TENSOR_INT8;
        const int fits = inputs[i].index == i && inputs[i].type == (whole ? RKNN_TENSOR_INT8 : RKNN_TENSOR_FLOAT32) &&
                         inputs[i].pass_through == whole && inputs[i].fmt == about->fmt &&
                         inputs[i].size == about->n_elems * (whole ? 1 : sizeof(float));
        if (!fits || !inputs[i].buf) return RKNN_ERR_INPUT_INVALID;
        self->given[i] = inputs[i].buf;
    }
    self->is_set = 1;
    return RKNN_SUCC;
}

int rknn_run(rknn_context context, void *extend) {
    model *self = (model *)context;
    if (!self) return RKNN_ERR_CTX_INVALID;
    const int code = fault("run"), late_ms = fault("late");
    nanosleep(&(struct timespec){.tv_nsec = late_ms * 1000000L}, NULL);
    if (code || extend || !self->is_set) return code ? code : RKNN_ERR_FAIL;
    self->has_run = 1;
    return RKNN_SUCC;
}

int rknn_outputs_get(rknn_context context, uint32_t count, rknn_output *outputs, void *extend) {
    model *self = (model *)context;
    const int code = fault("outputs_get");
    if (!self) return RKNN_ERR_CTX_INVALID;
    if (code) return code;
    if (!self->has_run || extend || count != self->outputs) return RKNN_ERR_OUTPUT_INVALID;
    for (uint32_t i = 0; i < count; i++) {
        const int whole = self->attrs[1][i].type == RKNN_TENSOR_INT8;
        const int fits = outputs[i].index == i && outputs[i].want_float == !whole && outputs[i].is_prealloc &&
                         outputs[i].buf && outputs[i].size == self->attrs[1][i].n_elems * (whole ? 1 : sizeof(float));
        if (!fits) return RKNN_ERR_OUTPUT_INVALID;
    }
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject *from = PyList_New(self->inputs), *to = PyList_New(count);
    for (uint32_t i = 0; i < self->inputs; i++) PyList_SetItem(from, i, PyLong_FromVoidPtr(self->given[i]));
    for (uint32_t i = 0; i < count; i++) PyList_SetItem(to, i, PyLong_FromVoidPtr(outputs[i].buf));
    PyObject *done = PyObject_CallMethod(self->python, "run", "OO", from, to);
    if (!done) PyErr_Print();
    Py_DECREF(from), Py_DECREF(to);
    Py_XDECREF(done);
    PyGILState_Release(state);
    self->has_run = self->is_set = 0;
    return done ? RKNN_SUCC : RKNN_ERR_FAIL;
}

int rknn_outputs_release(rknn_context context, uint32_t count, rknn_output *outputs) {
    (void)count, (void)outputs;
    return context ? RKNN_SUCC : RKNN_ERR_CTX_INVALID;
}
