// An OpenCL driver that ends the process, or never comes back, while it is loaded.
#include <stdlib.h>
#include <unistd.h>

#ifdef HANGS
__attribute__((constructor)) static void loaded(void) { for (;;) pause(); }
#elif defined EXITS
int clIcdGetPlatformIDsKHR(unsigned count, void *platforms, unsigned *found) { exit(0); }
#else
__attribute__((constructor)) static void loaded(void) { abort(); }
#endif
