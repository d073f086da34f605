"""The other frameworks' side of gradwire bench frameworks: one process trains the classic MNIST CNN, as their users
write it, on images in memory; prints a JSON line. Runs in that framework's own Python; not a part of gradwire.

frameworks_side.py tensorflow|pytorch BATCH ROWS
"""
import json
import sys
import time

import numpy as np

CLASSES, EPOCHS = 10, 3  # the first one warms up


def images(rows):
    """A pattern for each class under noise. It is learned quickly; only the time matters here."""
    random = np.random.default_rng(1)
    y = random.integers(0, CLASSES, rows)
    patterns = random.random((CLASSES, 28, 28, 1), dtype=np.float32)
    return 0.7 * patterns[y] + 0.3 * random.random((rows, 28, 28, 1), dtype=np.float32), y


def tensorflow(batch, rows):
    import keras
    import tensorflow
    layers = keras.layers
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(2),
                              layers.Flatten(), layers.Dense(64, activation="relu"), layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"],
                  steps_per_execution=50)
    x, y = images(rows)
    model.fit(x, y, batch, 1, verbose=0)
    began = time.perf_counter()
    seen = model.fit(x, y, batch, EPOCHS - 1, verbose=0)
    return began, seen.history["accuracy"][-1], tensorflow.__version__


def pytorch(batch, rows):
    import torch
    from torch import nn
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(13 * 13 * 32, 64),
                          nn.ReLU(), nn.Linear(64, 10))
    optimizer, loss_of = torch.optim.Adam(model.parameters()), nn.CrossEntropyLoss()
    x, y = images(rows)
    x, y = torch.from_numpy(x.reshape(rows, 1, 28, 28)), torch.from_numpy(y)
    for epoch in range(EPOCHS):
        if epoch == 1:
            began = time.perf_counter()
        right = torch.zeros((), dtype=torch.int64)
        order = torch.randperm(rows)
        for i in range(0, rows, batch):
            rows_of = order[i:i + batch]
            out = model(x[rows_of])
            loss = loss_of(out, y[rows_of])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (out.argmax(1) == y[rows_of]).sum()
    return began, right.item() / rows, torch.__version__


def report(rate, learned, result, version):
    print(json.dumps({"examples_per_s": rate, "learned": bool(learned), "result": result, "version": version}), flush=True)


def main(name, batch, rows):
    began, accuracy, version = {"tensorflow": tensorflow, "pytorch": pytorch}[name](batch, rows)
    report(rows * (EPOCHS - 1) / (time.perf_counter() - began), accuracy > 0.9, f"accuracy {accuracy}", version)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
