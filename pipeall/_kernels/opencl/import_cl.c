#include "import_cl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "entry_points.h"

enum { CL_MEM_READ_ONLY = 1 << 2, CL_INVALID_VALUE = -30, CL_INVALID_OPERATION = -59, ANON_INODES = 0x09041934 };
/* Of cl_arm_import_memory. */
enum { CL_IMPORT_TYPE_ARM = 0x40B2, CL_IMPORT_TYPE_DMA_BUF_ARM = 0x40B4,
       CL_IMPORT_DMA_BUF_DATA_CONSISTENCY_WITH_HOST_ARM = 0x41E3 };

static void let_go(pa_cl_picture *picture, pa_cl_import *import) {
    if (!import->mem) return;
    if (picture->bound == import->mem) picture->bound = NULL;
    pa_cl.clReleaseMemObject(import->mem);
    *import = (pa_cl_import){0};
}

void pa_cl_forget_imports(pa_cl_picture *picture) {
    for (int i = 0; i < PA_CL_IMPORTS; i++) let_go(picture, &picture->imports[i]);
    picture->oldest_import = 0;
}

/* Buffer of the device that is a dma-buf; NULL with *failed set. */
static void *make(pa_cl_program *self, int descriptor, size_t bytes, int *failed) {
    /* The last property has the driver see to caches, where the CPU has written the frame. */
    static const intptr_t properties[] = {CL_IMPORT_TYPE_ARM, CL_IMPORT_TYPE_DMA_BUF_ARM,
                                          CL_IMPORT_DMA_BUF_DATA_CONSISTENCY_WITH_HOST_ARM, CL_TRUE, 0};
    const pa_cl_picture *picture = &self->picture;
    int code = 0;
    void *(*import)(void *context, uint64_t flags, const intptr_t *properties, void *memory, size_t bytes, int *code);
    *(void **)&import = pa_cl.clGetExtensionFunctionAddressForPlatform(picture->importing, "clImportMemoryARM");
    if (!import) {
        snprintf(self->message, sizeof self->message, "expected the function of cl_arm_import_memory, got none: "
                 "clImportMemoryARM in step %s", picture->step);
        *failed = CL_INVALID_OPERATION;
        return NULL;
    }
    void *made = import(picture->context, CL_MEM_READ_ONLY, properties, &descriptor, bytes, &code);
    *failed = pa_cl_keep(self, 0, code, "clImportMemoryARM", picture->step);
    return made;
}

int pa_cl_import_dma_buf(pa_cl_program *self, int descriptor, size_t bytes, void **mem) {
    pa_cl_picture *picture = &self->picture;
    struct stat about;
    struct statfs system;
    *mem = NULL;
    if (fstat(descriptor, &about) || fstatfs(descriptor, &system)) {
        snprintf(self->message, sizeof self->message, "dma_buf of a frame: expected a descriptor, got %d: %s in step %s",
                 descriptor, strerror(errno), picture->step);
        return CL_INVALID_VALUE;
    }
    if (system.f_type == ANON_INODES) return 0;
    for (int i = 0; i < PA_CL_IMPORTS; i++) {
        const pa_cl_import *import = &picture->imports[i];
        if (import->mem && import->device == about.st_dev && import->inode == about.st_ino) {
            *mem = import->mem;
            return 0;
        }
    }
    pa_cl_import *import = &picture->imports[picture->oldest_import];
    int failed = 0;
    if (import->mem) { /* frames under way and recordings may read it */
        TRY(clFinish, picture->step, self->queue);
        if (failed) return failed;
        pa_cl_forget_recordings(self);
        let_go(picture, import);
    }
    void *made = make(self, descriptor, bytes, &failed);
    if (failed) return failed;
    *import = (pa_cl_import){about.st_dev, about.st_ino, made};
    picture->oldest_import = (picture->oldest_import + 1) % PA_CL_IMPORTS;
    *mem = made;
    return 0;
}
