#!/usr/bin/env python3
"""Prints all that the real tensorboard package reads in a folder, as JSON: for evaluator_test.py, by a Python that has it."""
import json
import sys

from tensorboard.backend.event_processing import plugin_event_multiplexer
from tensorboard.util import tensor_util
from tensorboard.plugins.hparams import plugin_data_pb2

SESSION = "_hparams_/session_start_info"


def value(field):
    return getattr(field, field.WhichOneof("kind"))


reader = plugin_event_multiplexer.EventMultiplexer()
reader.AddRunsFromDirectory(sys.argv[1])
reader.Reload()
runs, plugins, histograms, texts = {}, {}, {}, {}
for run, found in reader.Runs().items():
    runs[run] = {}
    for tag in found["tensors"]:
        name = reader.SummaryMetadata(run, tag).plugin_data.plugin_name
        if run == "logs/train":
            plugins[tag] = name
        if name == "scalars":
            runs[run][tag] = [(e.step, e.tensor_proto.float_val[0]) for e in reader.Tensors(run, tag)]
        elif name == "histograms":  # rows of left, right, count
            histograms[tag] = [(e.step, tensor_util.make_ndarray(e.tensor_proto).tolist()) for e in reader.Tensors(run, tag)]
        elif name == "text":
            texts[tag] = tensor_util.make_ndarray(reader.Tensors(run, tag)[-1].tensor_proto).item().decode()
content = reader.SummaryMetadata("logs", SESSION).plugin_data.content
start = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
print(json.dumps({"runs": runs, "plugins": plugins, "histograms": histograms, "texts": texts,
                  "hparams": {key: value(v) for key, v in start.hparams.items()}}))
