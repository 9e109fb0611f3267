# Part of kernels.pyx: what cores can do at most.


def probe(str kernel, int64_t rounds, x) -> float:
    """What a kernel of op "peak" or "stream" returns for ``x`` of its element type (kernels.h: pa_peak_f32_fn, kernels_s8.h:
    pa_peak_s8_fn); other threads go on."""
    number = [pa_kernel_rows[i].name for i in range(pa_kernel_row_count)].index(kernel.encode())
    cdef const pa_kernel_row *row = &pa_kernel_rows[<int>number]
    cdef const void *source = pointer(x)
    cdef bint integers = row.type == b"s8"
    cdef double total
    with nogil:
        if integers:
            total = (<pa_peak_s8_fn>row.function)(rounds, <const int8_t *>source)
        else:
            total = (<pa_peak_f32_fn>row.function)(rounds, <const float *>source)
    return total
