/* onnxruntime with a provider that fails: its library as it is, but Run is refused from a frame on.
 * FAILING_ORT_LIBRARY is the path of the real one, FAILING_ORT_FRAME the first frame that fails, FAILING_ORT_SIGNAL the
 * signal that it crashes with, if any. */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "ort_api.h"

enum { CALLS = 400, EP_FAIL = 11 };

static const OrtApi *real;
static void *table[CALLS]; /* a copy of it; longer than the API is so far */
static long frames;

static OrtStatus *run(OrtSession *session, const void *options, const char *const *input_names,
                      const OrtValue *const *inputs, size_t input_count, const char *const *output_names,
                      size_t output_count, OrtValue **outputs) {
    OrtStatus *(*create)(int, const char *) = NULL;
    memcpy(&create, &real->to_error_message[0], sizeof create);
    const int fails = frames++ >= atol(getenv("FAILING_ORT_FRAME"));
    const char *crash = getenv("FAILING_ORT_SIGNAL");
    if (fails && crash) raise(atoi(crash));
    if (fails) return create(EP_FAIL, "the accelerator was unplugged\nline 2");
    return real->Run(session, options, input_names, inputs, input_count, output_names, output_count, outputs);
}

static const OrtApi *get_api(uint32_t version) {
    void *library = dlopen(getenv("FAILING_ORT_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    const OrtApiBase *(*base)(void) = NULL;
    *(void **)&base = dlsym(library, "OrtGetApiBase");
    real = base()->GetApi(version);
    memcpy(table, real, sizeof(OrtApi));
    ((OrtApi *)table)->Run = run;
    return (const OrtApi *)table;
}

static const char *version(void) { return "failing"; }

const OrtApiBase *OrtGetApiBase(void) {
    static const OrtApiBase base = {get_api, version};
    return &base;
}
