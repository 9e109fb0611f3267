# Part of kernels.pyx: what there is of kernels and instruction sets, and where arrays lie.


def rows() -> list:
    """Every line of kernels.inc for this architecture: the members of a ``table.KernelRow``."""
    return [
        (pa_kernel_rows[i].op.decode(), pa_kernel_rows[i].type.decode(), pa_kernel_rows[i].name.decode(),
         pa_kernel_rows[i].isa.decode(), pa_kernel_rows[i].core.decode(), pa_kernel_rows[i].mr, pa_kernel_rows[i].nr,
         pa_kernel_rows[i].kr, bool(pa_kernel_rows[i].flags & PA_NARROW_WEIGHTS),
         bool(pa_kernel_rows[i].flags & PA_UNSIGNED_A))
        for i in range(pa_kernel_row_count)
    ]


def features() -> str:
    """What the CPU says of itself, in the words of /proc/cpuinfo; those that instruction sets here need."""
    cdef const pa_feature *feature = pa_features()
    names = []
    while feature.name != NULL:
        if feature.present:
            names.append(feature.name.decode())
        feature += 1
    return " ".join(names)


cdef void *pointer(array) except? NULL:
    return <void *><uintptr_t>array.ctypes.data


cdef float *f32_pointer(array) except? NULL:
    return <float *>pointer(array)


def place_of(array):
    """Where the elements of an array lie, and how: what tells apart weights of which somebody keeps the arrays."""
    if array is None:
        return None
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str
