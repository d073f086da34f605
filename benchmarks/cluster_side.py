"""TensorFlow's and PyTorch's several processes, for gradwire bench frameworks: they train as their users write it, on rows in
memory, on one host over loopback; the first process prints a JSON line. Runs in that framework's own Python; not a part of
gradwire.

cluster_side.py ddp BATCH ROWS      PyTorch's DistributedDataParallel over gloo, 2 processes: the network of mnist/mlp.yaml
cluster_side.py ps_mlp BATCH ROWS   TensorFlow's ParameterServerStrategy, 2 ps and 2 workers: the same network
cluster_side.py ps_clicks BATCH ROWS KEYS   1 ps and 2 workers: 26 embeddings of size 10, 13 numbers, 3 layers of 400 units
cluster_side.py server JOB INDEX    a ps or worker of TensorFlow's cluster; ps_mlp and ps_clicks start it

BATCH is that of all processes in ddp (sync), and of each worker with ps (async).
"""
import json
import os
import socket
import subprocess
import sys
import time

import numpy as np

from frameworks_side import CLASSES, EPOCHS, images, report

WORKERS = 2
STEPS_PER_CALL = 10  # a call of the coordinator costs more than a step
FIELDS, NUMBERS, DIM = 26, 13, 10


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


# ---- PyTorch ----


def ddp_process(rank, batch, rows, port):
    import torch
    from torch import distributed, nn
    torch.set_num_threads(1)
    torch.manual_seed(1)
    distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORKERS)
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, CLASSES))
    net = nn.parallel.DistributedDataParallel(model)
    optimizer, loss_of = torch.optim.Adam(model.parameters(), fused=True), nn.CrossEntropyLoss()
    x, y = images(rows)
    x, y = torch.from_numpy(x.reshape(rows, 784)), torch.from_numpy(y)
    share = batch // WORKERS
    for epoch in range(EPOCHS):
        if epoch == 1:
            distributed.barrier()
            began = time.perf_counter()
        order = torch.randperm(rows, generator=torch.Generator().manual_seed(epoch))
        for i in range(rank * share, rows // batch * batch, batch):
            rows_of = order[i:i + share]
            optimizer.zero_grad()
            loss_of(net(x[rows_of]), y[rows_of]).backward()
            optimizer.step()
    distributed.barrier()
    seconds = time.perf_counter() - began
    if rank == 0:
        model.eval()
        accuracy = (model(x).argmax(1) == y).float().mean().item()
        report(rows // batch * batch * (EPOCHS - 1) / seconds, accuracy > 0.9, f"accuracy {accuracy}", torch.__version__)
    distributed.destroy_process_group()


def ddp(batch, rows):
    from torch import multiprocessing
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    multiprocessing.spawn(ddp_process, (batch, rows, *free_ports(1)), WORKERS)


# ---- TensorFlow ----


def server(job, index):
    import tensorflow as tf
    cluster = tf.train.ClusterSpec(json.loads(os.environ["CLUSTER"]))
    tf.distribute.Server(cluster, job_name=job, task_index=int(index), protocol="grpc").join()


def ps_strategy(ps, run):
    """Calls run with a ParameterServerStrategy of `ps` ps and WORKERS workers, processes that end with it."""
    import tensorflow as tf
    ports = [f"127.0.0.1:{port}" for port in free_ports(ps + WORKERS)]
    cluster = {"ps": ports[:ps], "worker": ports[ps:]}
    environment = dict(os.environ, CLUSTER=json.dumps(cluster))
    servers = [subprocess.Popen([sys.executable, __file__, "server", job, str(i)], env=environment)
               for job, addresses in cluster.items() for i in range(len(addresses))]
    try:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
        run(tf, tf.distribute.ParameterServerStrategy(resolver))
    finally:
        for process in servers:
            process.kill()
            process.wait()


def rate_of(tf, strategy, arrays, batch, loss_of, variables, optimizer):
    """Trains EPOCHS epochs, of which the first warms up. Returns the examples/s, and the last loss."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    def dataset(_):
        rows = tf.data.Dataset.from_tensor_slices(arrays)
        return rows.batch(batch, drop_remainder=True).shuffle(50).repeat().prefetch(4)

    batches = iter(coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(dataset)))

    def one(*rows):
        with tf.GradientTape() as tape:
            loss = loss_of(*rows)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    @tf.function
    def steps(of):
        loss = 0.0
        for _ in range(STEPS_PER_CALL):
            loss = strategy.run(one, next(of))
        return loss

    calls = len(arrays[-1]) // batch // STEPS_PER_CALL
    for epoch in range(EPOCHS):
        if epoch == 1:
            began = time.perf_counter()
        results = [coordinator.schedule(steps, args=(batches,)) for _ in range(calls)]
        coordinator.join()
    seconds = time.perf_counter() - began
    return calls * STEPS_PER_CALL * batch * (EPOCHS - 1) / seconds, float(results[-1].fetch())


def ps_mlp(batch, rows):
    def run(tf, strategy):
        keras = tf.keras
        x, y = images(rows)
        with strategy.scope():
            model = keras.Sequential([keras.layers.Input((784,)), keras.layers.Dense(128, "relu"), keras.layers.Dropout(0.2),
                                      keras.layers.Dense(CLASSES)])
            optimizer = keras.optimizers.legacy.Adam(1e-3)
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
        x = x.reshape(rows, 784)
        rate, _ = rate_of(tf, strategy, (x, y), batch, lambda bx, by: tf.reduce_mean(loss(by, model(bx, training=True))),
                          model.trainable_variables, optimizer)
        weights = [v.numpy() for v in model.trainable_variables]
        answer = np.maximum(x @ weights[0] + weights[1], 0) @ weights[2] + weights[3]
        accuracy = float((answer.argmax(1) == y).mean())
        report(rate, accuracy > 0.9, f"accuracy {accuracy}", tf.__version__)

    ps_strategy(2, run)


def clicks(rows, keys):
    """ids (rows, FIELDS): Zipf's law in each field; numbers (rows, NUMBERS); labels that the ids' and numbers' weights give."""
    random = np.random.default_rng(1)
    of_field = keys // FIELDS
    ids = (random.zipf(1.2, (rows, FIELDS)) - 1) % of_field + np.arange(FIELDS) * of_field
    numbers = random.standard_normal((rows, NUMBERS), np.float32)
    logit = random.standard_normal(keys)[ids].sum(1) / 4 + numbers @ random.standard_normal(NUMBERS) / 4
    return ids, numbers, (random.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.float32)


def ps_clicks(batch, rows, keys):
    def run(tf, strategy):
        keras = tf.keras
        with strategy.scope():
            table = tf.Variable(tf.random.uniform((keys, DIM), -0.05, 0.05))
            hidden = [keras.layers.Dense(400, "relu") for _ in range(3)]
            deep = keras.Sequential([keras.layers.Input((FIELDS * DIM + NUMBERS,)), *hidden, keras.layers.Dense(1)])
            wide = keras.Sequential([keras.layers.Input((NUMBERS,)), keras.layers.Dense(1)])
            optimizer = keras.optimizers.legacy.Adagrad(1e-2)

        def loss_of(ids, numbers, labels):
            rows_of = tf.reshape(tf.nn.embedding_lookup(table, ids), (-1, FIELDS * DIM))
            logits = (deep(tf.concat([rows_of, numbers], 1)) + wide(numbers))[:, 0]
            return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))

        variables = [table, *deep.trainable_variables, *wide.trainable_variables]
        rate, loss = rate_of(tf, strategy, clicks(rows, keys), batch, loss_of, variables, optimizer)
        report(rate, loss < 0.68, f"loss {loss}", tf.__version__)  # a model that says nothing has 0.69

    ps_strategy(1, run)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # the cluster's variables work with Keras 2 alone
    if sys.argv[1] == "server":
        server(*sys.argv[2:])
    else:
        {"ddp": ddp, "ps_mlp": ps_mlp, "ps_clicks": ps_clicks}[sys.argv[1]](*map(int, sys.argv[2:]))
