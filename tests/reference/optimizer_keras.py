"""The numbers in optimizer_keras.h, from Keras 3 itself. Not part of any test: run it by hand where Keras is.

    pip install keras jax; KERAS_BACKEND=jax python3 optimizer_keras.py > optimizer_keras.h

Six weights in one variable "kernel", ten steps of a made-up gradient. The numbers are the weights after the last step; with
use_ema their moving average, which Keras ends with."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import keras
import numpy as np

N, STEPS = 6, 10
CASES = [
    ("sgd", "SGD", dict(learning_rate=0.1)),
    ("sgd_momentum", "SGD", dict(learning_rate=0.1, momentum=0.9)),
    ("sgd_nesterov", "SGD", dict(learning_rate=0.1, momentum=0.9, nesterov=True)),
    ("sgd_decay", "SGD", dict(learning_rate=0.1, weight_decay=0.05)),
    ("adam", "Adam", dict(learning_rate=0.01)),
    ("adam_amsgrad", "Adam", dict(learning_rate=0.01, beta_2=0.7, amsgrad=True)),
    ("adamw", "AdamW", dict(learning_rate=0.01, weight_decay=0.3)),
    ("adagrad", "Adagrad", dict(learning_rate=0.1)),
    ("adagrad_epsilon", "Adagrad", dict(learning_rate=0.1, initial_accumulator_value=0.5, epsilon=0.25)),
    ("rmsprop", "RMSprop", dict(learning_rate=0.01)),
    ("rmsprop_momentum", "RMSprop", dict(learning_rate=0.01, rho=0.8, momentum=0.5, epsilon=0.1)),
    ("rmsprop_centered", "RMSprop", dict(learning_rate=0.01, centered=True)),
    ("rmsprop_centered_momentum", "RMSprop", dict(learning_rate=0.01, centered=True, momentum=0.9)),
    ("ftrl", "Ftrl", dict(learning_rate=0.1)),
    ("ftrl_l1_l2", "Ftrl", dict(learning_rate=0.1, l1_regularization_strength=0.3, l2_regularization_strength=0.2,
                                l2_shrinkage_regularization_strength=0.1, beta=0.5)),
    ("accumulated", "Adam", dict(learning_rate=0.01, gradient_accumulation_steps=2)),
    ("accumulated_decay", "SGD",
     dict(learning_rate=0.1, momentum=0.9, weight_decay=0.2, gradient_accumulation_steps=3)),
    ("lamb", "Lamb", dict(learning_rate=0.1)),
    ("lamb_decay", "Lamb", dict(learning_rate=0.05, beta_1=0.8, epsilon=0.1, weight_decay=0.3)),
    ("ema", "SGD", dict(learning_rate=0.1, momentum=0.9, use_ema=True)),
    ("ema_overwrites", "Adam", dict(learning_rate=0.01, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3)),
    ("ema_accumulated", "SGD", dict(learning_rate=0.1, momentum=0.5, use_ema=True, ema_momentum=0.7,
                                    ema_overwrite_frequency=2, gradient_accumulation_steps=3)),
    ("clipped", "SGD", dict(learning_rate=0.1, momentum=0.9, global_clipnorm=0.75)),
    ("accumulated_clipped", "Adam", dict(learning_rate=0.01, gradient_accumulation_steps=2, global_clipnorm=0.5)),
    ("lamb_clipped", "Lamb", dict(learning_rate=0.05, epsilon=0.1, weight_decay=0.3, global_clipnorm=0.75)),
    ("lamb_accumulated_clipped", "Lamb", dict(learning_rate=0.05, epsilon=0.1, gradient_accumulation_steps=3,
                                              global_clipnorm=0.5)),
    ("ftrl_power", "Ftrl", dict(learning_rate=0.1, learning_rate_power=-0.7, initial_accumulator_value=0.4)),
]


def gradient(step):
    return np.array([((7 * step + 5 * i) % 11 - 5) / 8 for i in range(N)], dtype=np.float32)


def weights(optimizer):
    w = keras.Variable(np.array([(i % 7 - 3) / 4 for i in range(N)], dtype=np.float32), name="kernel")
    for step in range(1, STEPS + 1):
        optimizer.apply([gradient(step)], [w])
    optimizer.finalize_variable_values([w])
    return np.array(w)


print(f"/* Made by optimizer_keras.py with Keras {keras.__version__}. */")
print(f"enum {{ KERAS_N = {N}, KERAS_STEPS = {STEPS} }};")
print("/* clang-format off */\nstatic const struct {\n    const char *name;\n    double w[KERAS_N];\n} KERAS[] = {")
for name, kind, options in CASES:
    w = weights(getattr(keras.optimizers, kind)(**options))
    print(f'    {{"{name}", {{{", ".join("%.9g" % x for x in w)}}}}},')
print("};\n/* clang-format on */")
