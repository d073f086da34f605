"""The numbers in schedule_keras.h, from Keras 3 itself. Not part of any test: run it by hand where Keras is.

    pip install keras jax; KERAS_BACKEND=jax python3 schedule_keras.py > schedule_keras.h
"""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import keras

STEPS = (0, 1, 3, 10, 11, 25, 99, 100, 101, 250, 10000)
CASES = [
    ("exponential", "ExponentialDecay", dict(initial_learning_rate=0.1, decay_steps=30, decay_rate=0.5)),
    ("exponential_staircase", "ExponentialDecay",
     dict(initial_learning_rate=0.1, decay_steps=10, decay_rate=0.96, staircase=True)),
    ("cosine", "CosineDecay", dict(initial_learning_rate=0.1, decay_steps=100)),
    ("cosine_warmup", "CosineDecay",
     dict(initial_learning_rate=0.01, decay_steps=90, alpha=0.1, warmup_target=0.2, warmup_steps=11)),
    ("polynomial", "PolynomialDecay", dict(initial_learning_rate=0.1, decay_steps=100)),
    ("polynomial_root", "PolynomialDecay",
     dict(initial_learning_rate=0.1, decay_steps=100, end_learning_rate=0.01, power=0.5)),
    ("polynomial_cycle", "PolynomialDecay",
     dict(initial_learning_rate=0.1, decay_steps=30, end_learning_rate=0.01, power=2.0, cycle=True)),
    ("piecewise", "PiecewiseConstantDecay", dict(boundaries=[10, 100], values=[0.5, 0.25, 0.125])),
    ("inverse_time", "InverseTimeDecay", dict(initial_learning_rate=0.1, decay_steps=30, decay_rate=0.5)),
    ("inverse_time_staircase", "InverseTimeDecay",
     dict(initial_learning_rate=0.1, decay_steps=10, decay_rate=2.0, staircase=True)),
]

print(f"/* Made by schedule_keras.py with Keras {keras.__version__}. */")
print(f"static const uint64_t KERAS_STEP[] = {{{', '.join(map(str, STEPS))}}};")
print("/* clang-format off */\nstatic const struct {\n    const char *name;\n    double rate[%d];\n} KERAS[] = {" % len(STEPS))
for name, kind, options in CASES:
    schedule = getattr(keras.optimizers.schedules, kind)(**options)
    print(f'    {{"{name}", {{{", ".join("%.9g" % float(schedule(step)) for step in STEPS)}}}}},')
print("};\n/* clang-format on */")
