"""The configuration of a quantized network, and what it resolves to: parameters of tensors, integer weights."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..graph.ir import Graph, Node
from ..graph.passes.rewrite import rewrite
from ..graph.pointwise import UNARY
from .histogram import HistogramObserver
from .insert_qdq import IntegerWeights, integer_weights, with_qdq
from .qparams import METHODS, QuantParams, behind
from .quantizable import Quantizable, activation_of, never_clipped, quantizable

TINY = np.finfo(float).tiny
AFTER_ACTIVATION = " after activation"  # behind the method of a tensor that only an activation reads


@dataclass(frozen=True)
class QuantConfig:
    """What is chosen for a network.

    graph         of floats, without residuals in its convolutions
    histograms    of every tensor that may be quantized
    equalized     whether the channels of ``graph`` were equalized
    method        of calibration, a key of ``METHODS``
    own_methods   of tensors that have another one, by the names of those that share parameters
    float_nodes   names of the nodes that compute with floats
    gptq_weights  weights rounded by GPTQ, by the layer's name; other layers' are rounded to nearest
    corrections   mean error of each output of a layer, by its name: subtracted from the biases
    margin        by which ranges reach beyond what was seen, in standard deviations of the samples' greatest values
    reach         the largest values that tensors are expected to have, of some that may have more than was seen
    known         parameters by method and tensors, shared by configurations that differ in something else
    """

    graph: Graph
    histograms: dict[str, HistogramObserver]
    equalized: bool
    method: str = "minmax"
    own_methods: dict[tuple[str, ...], str] = field(default_factory=dict)
    float_nodes: frozenset[str] = frozenset()
    gptq_weights: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    corrections: dict[str, np.ndarray] = field(default_factory=dict)
    margin: float = 0.0
    reach: dict[str, float] = field(default_factory=dict)
    known: dict[tuple[str, tuple[str, ...]], QuantParams] = field(default_factory=dict, repr=False)

    def resolve(self) -> Resolved:
        """What follows from these choices. The method of each tensor is the configuration's or the tensor's own, with
        two exceptions: what leaves the network or enters a softmax is not clipped, and of what only an activation reads
        the values behind that activation count."""
        of = quantizable(self.graph, self.float_nodes)
        whole, methods, qparams = never_clipped(self.graph, of), {}, {}
        for root, names in of.sources.items():
            usual = self.method + AFTER_ACTIVATION if self._activation(names) else self.method
            methods[root] = how = "minmax" if root in whole else self.own_methods.get(names, usual)
            if (how, names) not in self.known:
                self.known[how, names] = self._qparams(names, how)
            qparams[root] = self.known[how, names]
        return Resolved(self, of, methods, qparams)

    def _activation(self, names: tuple[str, ...]) -> Node | None:
        return activation_of(self.graph, names[0]) if len(names) == 1 else None

    def _qparams(self, names: tuple[str, ...], how: str) -> QuantParams:
        peaks = np.max([self.histograms[name].peaks for name in names], 0)
        seen, most = self._seen(names, how), max(self.reach.get(name, 0.0) for name in names)
        return seen.wider(max(1 + self.margin * float(peaks.std() / max(peaks.max(), TINY)), most / seen.largest))

    def _seen(self, names: tuple[str, ...], how: str) -> QuantParams:
        """The parameters for what was seen."""
        histogram = deepcopy(self.histograms[names[0]])
        for name in names[1:]:
            histogram.merge(self.histograms[name])
        activation = self._activation(names)
        if not how.endswith(AFTER_ACTIVATION) or activation is None:
            return METHODS[how](histogram)
        entry, attrs = UNARY[activation.op], activation.attrs
        values = [np.float64(attrs[name]) for name in entry.parameters]
        return behind(how.removesuffix(AFTER_ACTIVATION), histogram, lambda x: entry.compute(x, *values))


@dataclass(frozen=True)
class Resolved:
    """What a configuration says of each tensor; methods and parameters are by root (``Quantizable``)."""

    config: QuantConfig
    quantizable: Quantizable
    methods: dict[str, str]
    qparams: dict[str, QuantParams]

    @property
    def graph(self) -> Graph:
        """The network of floats."""
        return self.config.graph

    @cached_property
    def weights(self) -> IntegerWeights:
        return integer_weights(self.graph, self.quantizable, self.qparams, self.config.gptq_weights)

    def input_params(self, layer: Node) -> QuantParams:
        """The parameters of the tensor that a layer reads."""
        return self.qparams[self.quantizable.root[layer.inputs[0]]]

    def alone(self, root: str) -> Graph:
        """The network of floats where only the tensors of this root are quantized."""
        of = replace(self.quantizable, layers=(), sources={root: self.quantizable.sources[root]})
        return with_qdq(self.graph, of, self.qparams, {}, {})

    def build(self, corrections: Mapping[str, np.ndarray] | None = None) -> Graph:
        """The quantized network, with these corrections of biases in place of the configuration's."""
        corrections = self.config.corrections if corrections is None else corrections
        return rewrite(with_qdq(self.graph, self.quantizable, self.qparams, self.weights, corrections))
