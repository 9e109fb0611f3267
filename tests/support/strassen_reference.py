"""Strassen's product in Winograd's form, as strassen.c computes it, by NumPy."""

import numpy as np


def quarters(matrix):
    (rows, columns) = (size // 2 for size in matrix.shape)
    return matrix[:rows, :columns], matrix[:rows, columns:], matrix[rows:, :columns], matrix[rows:, columns:]


def strassen(a, b, less):
    """C = A B by the seven products of strassen.c; ``less(x, y)`` is x - y, or x + y for the sum of magnitudes."""
    a11, a12, a21, a22 = quarters(a)
    b11, b12, b21, b22 = quarters(b)
    s1, t1 = a21 + a22, less(b12, b11)
    s2, t2 = less(s1, a11), less(b22, t1)
    s3, t3 = less(a11, a21), less(b22, b12)
    s4, t4 = less(a12, s2), less(t2, b21)
    p1, p5, u2 = a11 @ b11, s1 @ t1, a11 @ b11 + s2 @ t2
    u3 = u2 + s3 @ t3
    return np.block([[p1 + a12 @ b21, u2 + p5 + s4 @ b22], [less(u3, a22 @ t4), u3 + p5]])
