/* A ring of rows that are sums across an image, as its sums down need them: each row is made once. */
#ifndef PIPEALL_ROW_CACHE_H
#define PIPEALL_ROW_CACHE_H

#include <stdint.h>

/* Which slot of the ring holds the row of each tap: slot[k] that of needed[k]. Rows that no tap needs are given up for those
 * that are missing: returns how many these are, missing[i] being the slot of each; held[slot] says which row it has to be.
 * All arrays have `taps` elements, held -1 for none. */
static inline int64_t cache_rows(int64_t taps, const int32_t *needed, int32_t *held, int32_t *slot, int32_t *missing) {
    int64_t count = 0;
    for (int64_t k = 0; k < taps; k++) {
        slot[k] = -1;
        for (int64_t i = 0; i < taps && slot[k] < 0; i++)
            if (held[i] == needed[k]) slot[k] = (int32_t)i;
    }
    for (int64_t k = 0; k < taps; k++) {
        int64_t i = 0;
        while (i < taps && held[i] != needed[k]) i++; /* an earlier tap may miss it too */
        if (i == taps) {
            int used = 1;
            for (i = -1; used;) {
                i++;
                used = 0;
                for (int64_t other = 0; other < taps; other++) used |= slot[other] == i;
            }
            missing[count++] = (int32_t)i;
            held[i] = needed[k];
        }
        slot[k] = (int32_t)i;
    }
    return count;
}

#endif
