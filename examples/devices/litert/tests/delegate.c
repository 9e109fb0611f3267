/* An external delegate that takes no node, as one has it whose accelerator has none of them: with the option
 * "broken=1" it fails to prepare. Its table is that of TfLiteDelegate, whose order is part of TensorFlow Lite's ABI. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct delegate {
    void *data;
    int (*prepare)(void *context, struct delegate *self);
    void *copy_from, *copy_to, *free_buffer;
    int64_t flags;
    void *opaque_builder;
} delegate;

static int takes_nothing(void *context, delegate *self) {
    (void)context, (void)self;
    return 0;
}

static int broken(void *context, delegate *self) {
    (void)context, (void)self;
    return 1;
}

delegate *tflite_plugin_create_delegate(char **keys, char **values, size_t count, void (*report)(const char *)) {
    if (count && !strcmp(keys[0], "absent")) {
        report("no accelerator at /dev/accel0");
        return NULL;
    }
    (void)values;
    delegate *made = calloc(1, sizeof *made);
    made->prepare = count ? broken : takes_nothing;
    return made;
}

void tflite_plugin_destroy_delegate(delegate *self) { free(self); }
