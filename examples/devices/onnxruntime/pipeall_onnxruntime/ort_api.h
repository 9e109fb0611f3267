/* The calls of onnxruntime's C API that a stage makes, in the order of the table that the library hands out. Its order
 * never changes, calls are only added behind: names, arguments and places are those of its documentation,
 * onnxruntime.ai/docs/api/c, as of API version 14. */
#ifndef PIPEALL_ORT_API_H
#define PIPEALL_ORT_API_H

#include <stddef.h>
#include <stdint.h>

enum { ORT_API_VERSION = 14 };
enum { ORT_LOG_ERROR = 3, ORT_OPTIMIZE_ALL = 99, ORT_DEVICE_ALLOCATOR = 0, ORT_MEMORY_DEFAULT = 0 };

typedef struct OrtStatus OrtStatus; /* NULL: done */
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtValue OrtValue;

typedef struct OrtApi {
    void *to_error_message[2];
    const char *(*GetErrorMessage)(const OrtStatus *status);
    OrtStatus *(*CreateEnv)(int log_level, const char *log_id, OrtEnv **out);
    void *to_session[4];
    OrtStatus *(*CreateSessionFromArray)(const OrtEnv *env, const void *model, size_t bytes,
                                         const OrtSessionOptions *options, OrtSession **out);
    OrtStatus *(*Run)(OrtSession *session, const void *run_options, const char *const *input_names,
                      const OrtValue *const *inputs, size_t input_count, const char *const *output_names,
                      size_t output_count, OrtValue **outputs);
    OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **out);
    void *to_optimization[12];
    OrtStatus *(*SetSessionGraphOptimizationLevel)(OrtSessionOptions *options, int level);
    OrtStatus *(*SetIntraOpNumThreads)(OrtSessionOptions *options, int threads);
    void *to_tensor[24];
    OrtStatus *(*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *memory, void *data, size_t bytes,
                                                 const int64_t *shape, size_t rank, int type, OrtValue **out);
    void *to_memory[19];
    OrtStatus *(*CreateCpuMemoryInfo)(int allocator, int memory_type, OrtMemoryInfo **out);
    void *to_release_status[23];
    void (*ReleaseStatus)(OrtStatus *status);
    void *to_release_session;
    void (*ReleaseSession)(OrtSession *session);
    void (*ReleaseValue)(OrtValue *value);
    void *to_release_options[3];
    void (*ReleaseSessionOptions)(OrtSessionOptions *options);
    void *to_config[29];
    OrtStatus *(*AddSessionConfigEntry)(OrtSessionOptions *options, const char *key, const char *value);
    void *to_provider[85];
    OrtStatus *(*SessionOptionsAppendExecutionProvider)(OrtSessionOptions *options, const char *provider,
                                                        const char *const *keys, const char *const *values,
                                                        size_t count);
} OrtApi;

typedef struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
} OrtApiBase;

#endif
