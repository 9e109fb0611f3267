"""Arithmetic, reductions, norms and products of ONNX files, each in many forms, against onnxruntime."""

from dataclasses import dataclass, field

import numpy as np
import onnx_models
import pytest
from bounds import U
from onnx import TensorProto, helper, numpy_helper

from pipeall import load
from pipeall.errors import ModelError
from pipeall.graph.ops import run_graph

INT32, INT64, UINT8, INT8, BOOL = np.int32, np.int64, np.uint8, np.int8, np.bool_
SIGMAS = 8  # deviations of a sum's roundings, and roundings of the functions in between


@dataclass
class Form:
    """One node: its operands in order (None: absent), attributes and opset; ``fixed`` operands must be constant."""

    op: str
    operands: tuple
    opset: int = 21
    fixed: tuple[int, ...] = ()
    outputs: int = 1
    attrs: dict = field(default_factory=dict)

    def __str__(self):
        shapes = "+".join("" if x is None else f"{x.dtype.name}{list(x.shape)}" for x in self.operands)
        attrs = " ".join(f"{name}={value}" for name, value in self.attrs.items())
        return f"{self.op}-{self.opset} {shapes} {attrs}".strip().replace(" ", "_")


def values(*shape, dtype=np.float32, lo=-3.0, hi=3.0):
    rng = np.random.default_rng([*shape, 5])
    if dtype is BOOL:
        return np.asarray(rng.random(shape) < 0.5)
    array = np.asarray(rng.uniform(lo, hi, shape))
    return np.asarray(array if dtype is np.float32 else np.rint(array), dtype)


def form(op, *operands, opset=21, fixed=(), outputs=1, **attrs):
    operands = tuple(values(*x) if isinstance(x, tuple) else x for x in operands)
    return Form(op, operands, opset, fixed, outputs, attrs)


def ints(*numbers):
    return np.array(numbers, INT64)


PAIRS = [
    ((2, 3, 4), (2, 3, 4)),
    ((2, 3, 4), (4,)),
    ((3, 1), (2, 1, 4)),
    ((1,), (2, 3)),
    ((), (2, 3)),
    ((2, 1, 3), (5, 1)),
]


def pairs(op, *types, opset=21, lo=-3.0, hi=3.0, b_lo=None, **attrs):
    """All ways of broadcasting on the first type, one on the others."""
    for dtype in types:
        for a, b in PAIRS if dtype is types[0] else PAIRS[2:3]:
            x, y = (
                values(*a, dtype=dtype, lo=lo, hi=hi),
                values(*b, dtype=dtype, lo=lo if b_lo is None else b_lo, hi=hi),
            )
            yield form(op, x, y, opset=opset, **attrs)


F = np.float32
NUMBERS = (F, INT32, INT64)
ARITHMETIC = [
    *(f for op in ("Add", "Sub", "Mul") for f in pairs(op, *NUMBERS)),
    *pairs("Div", *NUMBERS, b_lo=1.0),
    form("Div", values(2, 3), np.zeros((2, 1), F)),
    form("Div", np.array([-7, 7, -8, 8], INT32), np.array([2, -2, 3, -3], INT32)),
    *pairs("Pow", *NUMBERS, lo=1.0),
    *(form("Pow", values(2, 3, lo=0.5), np.array(e, F)) for e in (1, 2, 3, 0.5, -1, 2.5)),
    form("Pow", values(2, 3), np.array([2], INT64)), form("Pow", values(2, 3), np.array([[3, 2, 1]], INT32)),
    form("Pow", values(2, 3, dtype=INT32, lo=1.0), values(3, lo=1.0)),
    *(f for op in ("Max", "Min") for f in pairs(op, *NUMBERS)),
    *(form(op, (2, 3), (3,), (2, 1)) for op in ("Max", "Min", "Sum", "Mean")),
    *(form(op, (2, 3)) for op in ("Max", "Min", "Sum", "Mean")),
    form("Max", (2, 3), np.array(0.5, F), np.array([1.0], F)), form("Min", (2, 3), np.array(0.5, F), (3,)),
    *(f for op in ("Greater", "Less", "GreaterOrEqual", "LessOrEqual") for f in pairs(op, *NUMBERS)),
    *pairs("Equal", INT64, F, INT32, BOOL),
    *(f for op in ("And", "Or", "Xor") for f in pairs(op, BOOL)),
    *(f for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor") for f in pairs(op, INT32, UINT8, lo=0.0, hi=200.0)),
    *(form("BitShift", values(2, 5, dtype=UINT8, lo=0, hi=255), values(5, dtype=UINT8, lo=0, hi=7), direction=d)
      for d in ("LEFT", "RIGHT")),
    *(form("Mod", np.array([-7, 7, -8, 8], dtype), np.array([3, -3, 3, -3], dtype), fmod=f)
      for dtype in (INT32, INT64) for f in (0, 1)),
    form("Mod", (2, 7), np.array([1.5], F), fmod=1),
    *(form("PRelu", (2, 3, 4, 5), slope, opset=o) for slope in ((3, 1, 1), (1,), (2, 3, 4, 5)) for o in (9, 16)),
    *(form("Where", values(*c, dtype=BOOL), values(*a, dtype=t), values(*b, dtype=t))
      for c, a, b in (((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), (1, 3)), ((2, 1, 1), (3, 1), (4,))) for t in NUMBERS),
]  # fmt: skip

CASTS = {F: 1, UINT8: 2, INT8: 3, INT32: 6, INT64: 7, BOOL: 9}
UNARIES = [
    *(form(op, (2, 3, 4))
      for op in "Abs Neg Sign Floor Ceil Round Sin Cos Tan Atan Sinh Cosh Asinh Exp Tanh Erf Sigmoid "
      "Softplus Softsign Relu HardSwish Mish Elu Selu Celu ThresholdedRelu Shrink LeakyRelu HardSigmoid Gelu".split()),
    *(form(op, values(2, 3, lo=0.1)) for op in ("Sqrt", "Log", "Reciprocal")),
    *(form(op, values(2, 3, lo=-0.9, hi=0.9)) for op in ("Asin", "Acos", "Atanh")),
    form("Acosh", values(2, 3, lo=1.0)),
    form("Round", np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], F)),
    form("Selu", (2, 3), alpha=0.5, gamma=2.0), form("Celu", (2, 3), alpha=0.3), form("Elu", (2, 3), alpha=0.4),
    form("ThresholdedRelu", (2, 3), alpha=-0.5), form("Shrink", (2, 3), lambd=1.5, bias=0.25),
    form("Gelu", (2, 3, 4), approximate="tanh"),
    *(form(op, values(2, 3, dtype=t)) for op in ("Abs", "Neg", "Sign", "Relu") for t in (INT32,)),
    form("Not", values(2, 3, dtype=BOOL)), form("BitwiseNot", values(2, 3, dtype=INT32)),
    form("IsNaN", np.array([1, np.nan, np.inf], F)),
    *(form("IsInf", np.array([1, np.inf, -np.inf, np.nan], F), detect_negative=a, detect_positive=b)
      for a in (0, 1) for b in (0, 1)),
    form("Clip", (2, 3), opset=6, min=-0.5, max=0.7), form("Clip", (2, 3)),
    *(form("Clip", values(2, 3, dtype=t), np.array(-1, t), np.array(2, t)) for t in NUMBERS),
    form("Clip", (2, 3), None, np.array(0.5, F)), form("Clip", (2, 3), np.array(2, F), np.array(-1, F)),
    *(form("Cast", values(2, 3, dtype=a, lo=0.0), to=code) for a in CASTS for code in CASTS.values()),
    form("CastLike", (2, 3), values(1, dtype=INT32)),
]  # fmt: skip

REDUCTIONS = [
    *(form(f"Reduce{how}", x, opset=13, axes=axes, keepdims=k) if how != "Sum" else
      form("ReduceSum", x, ints(*axes), fixed=(1,), keepdims=k)
      for how in "Sum Mean Max Min Prod L1 L2 SumSquare LogSum LogSumExp".split()
      for x, axes in ((values(2, 3, 4, 5, lo=0.5), [2, 3]), (values(2, 3, 4, 5, lo=0.5), [-1]),
                      (values(2, 3, 4, lo=0.5), [0, 2]), (values(5, lo=0.5), [0]), (values(1, 3, 4, 5, lo=0.5), [1, 3]))
      for k in (0, 1)),
    *(form(f"Reduce{how}", (2, 3, 4), ints(1), opset=18, fixed=(1,))
      for how in ("Mean", "Max", "L1", "L2", "SumSquare")),
    *(form(f"Reduce{how}", values(2, 3, 4, dtype=t), ints(1), opset=18, fixed=(1,))
      for how in ("Sum", "Max", "Min", "Prod", "SumSquare", "L1") for t in (INT32, INT64) if (how, t) != ("L1", INT64)),
    *(form(f"Reduce{how}", values(2, 3, dtype=t, lo=0.0), ints(1), opset=20, fixed=(1,)) for how in ("Max", "Min")
      for t in (UINT8, INT8)),
    *(form(f"Reduce{how}", (2, 3), opset=18) for how in ("Sum", "Mean", "L2")),
    *(form(f"Reduce{how}", (2, 3), opset=18, noop_with_empty_axes=1) for how in ("Sum", "Mean")),
    *(form(op, values(3, 7, 5, dtype=t), axis=axis, keepdims=k, select_last_index=last)
      for op in ("ArgMax", "ArgMin") for t in (F, INT32) for axis in (0, -1) for k in (0, 1) for last in (0, 1)),
    *(form("CumSum", values(3, 4, dtype=t), np.array(axis, INT64), fixed=(1,), exclusive=e, reverse=r)
      for t in NUMBERS for axis in (0, -1) for e in (0, 1) for r in (0, 1)),
    *(form(op, x) for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool") for x in ((2, 3, 7), (2, 3, 4, 5))),
    *(form(op, (2, 3, 4, 3, 5)) for op in ("GlobalAveragePool", "GlobalMaxPool")),
    form("GlobalLpPool", (2, 3, 4, 5), p=1), form("GlobalLpPool", (2, 3, 4, 5), p=3),
]  # fmt: skip

BATCH_NORM = (values(3), values(3, lo=-1.0), values(3, lo=-2.0), values(3, lo=0.5))
NORMS = [
    *(form(op, (2, 3, 4, 5), opset=o, axis=axis) for op in ("Softmax", "LogSoftmax", "Hardmax") for o in (11, 13)
      for axis in (0, 1, 2, 3)),
    *(form(op, (5, 17)) for op in ("Softmax", "LogSoftmax", "Hardmax")),
    *(form("LayerNormalization", (2, 3, 4, 5), s, s, opset=17, axis=axis)
      for axis, s in ((-1, (5,)), (2, (4, 5)), (1, (3, 4, 5)))),
    form("LayerNormalization", (2, 7, 9), (9,), opset=17, epsilon=0.1, outputs=3),
    form("LayerNormalization", (9,), (9,), opset=17),
    *(form("RMSNormalization", (2, 3, 8), s, opset=23, axis=axis) for axis, s in ((-1, (8,)), (1, (3, 8)))),
    *(form("InstanceNormalization", x, (3,), (3,)) for x in ((2, 3, 7), (2, 3, 4, 5), (2, 3, 2, 4, 3))),
    *(form("GroupNormalization", (2, 6, 4, 5), (6,), (6,), num_groups=groups) for groups in (1, 2, 3, 6)),
    form("MeanVarianceNormalization", (2, 3, 4, 5)), form("MeanVarianceNormalization", (2, 3, 4, 5), axes=[1, 2]),
    *(form("LpNormalization", (2, 3, 4), axis=axis, p=p) for axis in (-1, 1) for p in (1, 2)),
    *(form("BatchNormalization", x, *BATCH_NORM, epsilon=0.01)
      for x in ((2, 3), (2, 3, 5), (2, 3, 4, 5), (1, 3, 2, 3, 4))),
    *(form("LRN", (2, 7, 4, 5), size=size, alpha=0.3) for size in (1, 3, 5)),
]  # fmt: skip

MATRICES = [
    ((4, 5), (5, 3)), ((2, 4, 5), (5, 3)), ((2, 3, 4, 5), (2, 3, 5, 6)), ((2, 1, 4, 5), (3, 5, 6)), ((5,), (5, 3)),
    ((4, 5), (5,)), ((5,), (5,)), ((2, 4, 5), (5,)), ((5,), (2, 5, 3)), ((1, 5), (1, 5, 3)), ((2, 3, 4, 5), (1, 5, 2)),
]  # fmt: skip
PRODUCTS = [
    *(form("MatMul", *shapes) for shapes in MATRICES),
    *(form("Gemm", (4, 5) if not ta else (5, 4), (5, 3) if not tb else (3, 5), *c,
           transA=ta, transB=tb, alpha=a, beta=b)
      for ta in (0, 1) for tb in (0, 1) for c in ((), ((3,),), ((4, 3),), ((4, 1),), ((1,),))
      for a, b in ((1.0, 1.0), (0.5, -2.0))),
    *(form("Einsum", *x, equation=e) for e, x in (
        ("ij,jk->ik", ((2, 3), (3, 4))), ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))),
        ("bhid,bhjd->bhij", ((2, 3, 4, 5), (2, 3, 6, 5))),
        ("bhij,bhjd->bihd", ((2, 3, 4, 5), (2, 3, 5, 6))), ("ij->ji", ((2, 3),)), ("ij->j", ((2, 3),)),
        ("ij->", ((2, 3),)),
        ("i,j->ij", ((2,), (3,))), ("i,i->", ((4,), (4,))), ("ij,j", ((2, 3), (3,))), ("ba", ((2, 3),)),
        ("...ij,...jk->...ik", ((2, 1, 3, 4), (1, 5, 4, 6))), ("...i->...", ((2, 3, 4),)),
        ("ij,ij->ij", ((2, 3), (2, 3))),
        ("bijk,bkl->bijl", ((2, 3, 4, 5), (2, 5, 6))), ("ijk,lk->ijl", ((2, 3, 4), (5, 4))),
        ("nchw,ncv->nvhw", ((1, 3, 4, 5), (1, 3, 6))),
        ("ijk,j->ik", ((2, 3, 4), (3,))), ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
        ("abc,bd,cd->ad", ((2, 3, 4), (3, 5), (4, 5))), ("ab,b,c->ca", ((2, 3), (3,), (4,))), ("a,a,a->", ((3,),) * 3),
        ("aab,bc,cd,de->e", ((2, 2, 3), (3, 2), (2, 4), (4, 3))), ("...a,ab,b...->...", ((3, 2), (2, 4), (4, 3))),
    )),
    *(form("MatMul", *(values(*s, dtype=t, lo=-2e9, hi=2e9) for s in shapes)) for shapes in MATRICES
      for t in (INT32, INT64)),
]  # fmt: skip

ATTENTION = [
    form("Attention", (2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8), opset=23),
    form("Attention", (2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5), opset=23, scale=0.3),
    form("Attention", (2, 6, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8), opset=23),
    form("Attention", (2, 4, 24), (2, 6, 24), (2, 6, 24), opset=23, q_num_heads=3, kv_num_heads=3),
    form("Attention", (2, 4, 24), (2, 6, 8), (2, 6, 8), opset=23, q_num_heads=3, kv_num_heads=1),
    form("Attention", (2, 3, 5, 8), (2, 3, 5, 8), (2, 3, 5, 8), opset=23, is_causal=1),
    form("Attention", (2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8), (4, 6), opset=23, softcap=2.0),
    form("Attention", (2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8), (2, 1, 4, 6), opset=23),
    *(form("RotaryEmbedding", (2, 3, 4, 8), (2, 4, 4), (2, 4, 4), opset=23, interleaved=i) for i in (0, 1)),
    form("RotaryEmbedding", (2, 4, 24), (2, 4, 4), (2, 4, 4), opset=23, num_heads=3),
]  # fmt: skip

FORMS = ARITHMETIC + UNARIES + REDUCTIONS + NORMS + PRODUCTS + ATTENTION


def model_of(case, constant):
    """The model of a form, whose operands at the places ``constant`` are initializers."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(case.operands)]
    fed = {
        n: x for i, (n, x) in enumerate(zip(names, case.operands, strict=True)) if x is not None and i not in constant
    }
    outputs = [f"y{i}" for i in range(case.outputs)]
    graph = helper.make_graph(
        [helper.make_node(case.op, names, outputs, **case.attrs)],
        "form",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in fed.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(case.operands[i], names[i]) for i in constant if case.operands[i] is not None],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=10)
    return proto, fed


def check(case, constant, folder):
    proto, fed = model_of(case, constant)
    graph = load(onnx_models.saved(proto, folder))
    with np.errstate(all="ignore"):
        got = run_graph(graph, {tensor.name: fed[tensor.name] for tensor in graph.inputs})
    for name, expected in onnx_models.run(proto, fed).items():
        assert got[name].shape == expected.shape, case
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(got[name], expected)
            continue
        terms = max(x.size for x in case.operands if x is not None)
        finite = expected[np.isfinite(expected)]
        scale = max(np.abs(finite).max(initial=0), max(_largest(x) for x in case.operands if x is not None))
        limit = SIGMAS * (np.sqrt(terms) + 2) * U * scale
        np.testing.assert_allclose(got[name], expected, rtol=0, atol=limit)


def _largest(x):
    return np.abs(x[np.isfinite(x)]).max(initial=0) if x.dtype.kind == "f" else 0


@pytest.mark.parametrize("case", FORMS, ids=str)
def test_computed_operands_agree_with_onnxruntime(case, tmp_path):
    check(case, case.fixed, tmp_path)


@pytest.mark.parametrize("case", [case for case in FORMS if len(case.operands) > 1], ids=str)
def test_constant_operands_agree_with_onnxruntime(case, tmp_path):
    check(case, tuple(range(1, len(case.operands))), tmp_path)


FIRST = [case for case in ARITHMETIC + PRODUCTS if len(case.operands) == 2 and case.op != "PRelu"]


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_constant_first_operands_agree_with_onnxruntime(case, tmp_path):
    check(case, (0,), tmp_path)


REFUSED = {
    "product of two types": (form("MatMul", (2, 3), values(3, 2, dtype=INT32)), "of floats, int32 or int64"),
    "shapes": (form("Add", (2, 3), (4,)), "do not broadcast"),
    "matrices": (form("MatMul", (2, 3), (4, 2)), "cannot multiply"),
    "groups": (form("GroupNormalization", (1, 6, 2), (6,), (6,), num_groups=4), "4 groups"),
    "strings": (form("Cast", (2, 3), to=TensorProto.STRING), "element type 8"),
    "three operands": (form("Einsum", (2, 2), (2, 3), (4, 2), equation="ij,jk,kl->il"), "sizes 3 and 4"),
    "equation": (form("Einsum", (2, 2), (2, 2), equation="ij,jk->iq"), "equation"),
    "sizes": (form("Einsum", (2, 3), (4, 2), equation="ij,jk->ik"), "sizes 3 and 4"),
    "axis": (form("Softmax", (2, 3), axis=2), "axis 2"),
    "axes at run time": (form("ReduceSum", (2, 3), ints(1)), "must be a constant"),
    "training": (form("BatchNormalization", (2, 3), *BATCH_NORM, training_mode=1), "inference"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_not_supported_is_refused_by_name(reason, tmp_path):
    case, message = REFUSED[reason]
    proto, _ = model_of(case, case.fixed)
    with pytest.raises(ModelError, match=message) as error:
        load(onnx_models.saved(proto, tmp_path))
    assert "node 'y0'" in str(error.value) and "\n" not in str(error.value)
