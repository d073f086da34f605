"""onnxruntime's side of gradwire bench predict: scores rows that predict.c has drawn, and compares its scores with those of
predict.c. Runs in a Python that has onnxruntime and onnx; not a part of gradwire.

predict_side.py FOLDER ROWS MODEL: MODEL is an .onnx file, or the directory of a model with the layers of
examples/clicks/wide_deep.yaml. FOLDER has the rows and scores. Each line "THREADS BATCH MILLISECONDS" of the input is answered
by a line of JSON. `seconds` is the median time of a call, and `empty` that of a call that computes nothing.
"""
import json
import os
import struct
import sys
import threading
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

TOLERANCE = 1e-5


def session(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def graph(nodes, weights, inputs, outputs):
    made = helper.make_graph(nodes, "graph", inputs, [helper.make_tensor_value_info(outputs, TensorProto.FLOAT, ["n", None])],
                             [numpy_helper.from_array(value, name) for name, value in weights.items()])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)])
    model.ir_version = 8
    return model.SerializeToString()


def value(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, ["n", *shape])


def read_safetensors(path):
    with open(path, "rb") as file:
        head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    kinds = {"F32": np.float32, "U64": np.uint64, "U32": np.uint32}
    return {name: np.frombuffer(data[slice(*of["data_offsets"])], kinds[of["dtype"]]).reshape(of["shape"])
            for name, of in head.items() if name != "__metadata__"}


def wide_deep(folder, columns, numbers):
    """The fastest graph that we know: one LabelEncoder for all columns, and a row of zeros for keys without a row. Its numbers
    are encoded."""
    weights = {name.replace("/", "_"): of for name, of in
               read_safetensors(os.path.join(folder, "weights.safetensors")).items()}
    for table in ("wide", "e"):
        of = read_safetensors(os.path.join(folder, "tables", table + ".safetensors"))
        weights[table] = np.concatenate([of["rows"], np.zeros((1, of["rows"].shape[1]), np.float32)])
        keys = of["keys"].view(np.int64).tolist()
    weights["shape"] = np.array([0, columns * weights["e"].shape[1]], np.int64)
    weights["axis"] = np.array([1], np.int64)
    node = helper.make_node
    nodes = [node("LabelEncoder", ["keys"], ["at"], domain="ai.onnx.ml", keys_int64s=keys,
                  values_int64s=list(range(len(keys))), default_int64=len(keys)),
             node("Gather", ["e", "at"], ["rows"]), node("Reshape", ["rows", "shape"], ["vectors"]),
             node("Concat", ["vectors", "numbers"], ["x0"], axis=1)]
    for i, name in enumerate(("dense", "dense_1", "dense_2")):
        nodes += [node("Gemm", [f"x{i}", name + "_kernel", name + "_bias"], [name]), node("Relu", [name], [f"x{i + 1}"])]
    nodes += [node("MatMul", ["x3", "deep_kernel"], ["deep"]), node("Gather", ["wide", "at"], ["linear"]),
              node("ReduceSum", ["linear", "axis"], ["sum"], keepdims=0), node("Add", ["sum", "wide_bias"], ["with_bias"]),
              node("Add", ["with_bias", "deep"], ["logit"]), node("Sigmoid", ["logit"], ["score"])]
    return graph(nodes, weights, [value("keys", TensorProto.INT64, columns), value("numbers", TensorProto.FLOAT, numbers)],
                 "score")


def without_scale(path):
    """The graph after the multiplication by data.scale: with it, onnxruntime computes convolutions more slowly."""
    model = onnx.load(path)
    first, name = model.graph.node[0], model.graph.input[0].name
    if first.op_type == "Mul" and first.input[0] == name:
        for node in model.graph.node:
            node.input[:] = [name if i == first.output[0] else i for i in node.input]
        model.graph.node.remove(first)
    return model.SerializeToString()


def empty(inputs):
    """A graph with these inputs that computes nothing."""
    name, array = next((name, array) for name, array in inputs.items() if array.dtype == np.float32)
    made = [value(n, TensorProto.FLOAT if a.dtype == np.float32 else TensorProto.INT64, *a.shape[1:])
            for n, a in inputs.items()]
    model = helper.make_model(helper.make_graph(
        [helper.make_node("Identity", [name], ["same"])], "graph", made,
        [helper.make_tensor_value_info("same", TensorProto.FLOAT, ["n", *array.shape[1:]])]),
        opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def calls(run, feeds, milliseconds, clock, first=0):
    """The times of calls, one after the other."""
    seconds = []
    end = time.perf_counter() + milliseconds / 1000
    while len(seconds) < 2 or time.perf_counter() < end:
        feed = feeds[(first + len(seconds)) % len(feeds)]
        begin = clock()
        run(None, feed)
        seconds.append(clock() - begin)
    return seconds


class Side:
    def __init__(self, folder, rows, model):
        def read(name, kind):
            return np.fromfile(os.path.join(folder, name), kind).reshape(rows, -1)
        self.rows = rows
        if model.endswith(".onnx"):
            self.model = without_scale(model)
            needs = session(self.model, 1).get_inputs()[0]
            self.inputs = {needs.name: read("features.f32", np.float32).reshape(rows, *needs.shape[1:])}
        else:
            self.inputs = {"keys": read("keys.i64", np.int64), "numbers": read("features.f32", np.float32)}
            self.model = wide_deep(model, self.inputs["keys"].shape[1], self.inputs["numbers"].shape[1])
        self.empty = session(empty(self.inputs), 1)
        scores, wanted = session(self.model, 1).run(None, self.inputs)[0], read("scores.f32", np.float32)
        self.apart = float(np.max(np.abs(scores - wanted) / np.maximum(1, np.abs(wanted))))
        self.sessions = {}

    def feeds(self, batch):
        return [{name: of[i:i + batch] for name, of in self.inputs.items()} for i in range(0, self.rows - batch + 1, batch)]

    def run(self, threads):
        if threads not in self.sessions:
            self.sessions[threads] = session(self.model, threads).run
        return self.sessions[threads]

    def together(self, threads, feeds, milliseconds):
        """Threads of Python, each with batches of its own."""
        times = [[] for _ in range(threads)]

        def one(i):
            times[i] = calls(self.run(1), feeds, milliseconds, time.perf_counter, i)
        workers = [threading.Thread(target=one, args=(i,)) for i in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return np.median(np.concatenate(times)) / threads

    def measure(self, threads, batch, milliseconds):
        """Seconds for a batch. With one thread it is the time of the thread itself, as in predict.c."""
        feeds = self.feeds(batch)
        if threads == 1:
            return np.median(calls(self.run(1), feeds, milliseconds, time.thread_time))
        return min(np.median(calls(self.run(threads), feeds, milliseconds / 2, time.perf_counter)),
                   self.together(threads, feeds, milliseconds / 2))

    def answer(self, threads, batch, milliseconds):
        clock = time.thread_time if threads == 1 else time.perf_counter
        nothing = np.median(calls(self.empty.run, [{name: of[:1] for name, of in self.inputs.items()}], 5, clock))
        return {"valid": self.apart <= TOLERANCE, "seconds": float(self.measure(threads, batch, milliseconds)),
                "empty": float(nothing)}


def main(folder, rows, model):
    side = Side(folder, int(rows), model)
    print(json.dumps({"valid": True, "apart": side.apart, "onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}),
          flush=True)
    for line in sys.stdin:
        print(json.dumps(side.answer(*(int(word) for word in line.split()))), flush=True)


main(*sys.argv[1:])
