#!/usr/bin/env python3
""".keras archives: Keras loads them in its safe mode, as a model of its own layers, and computes our predictions."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import case  # noqa: E402

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@case.each_fixture
class KerasTest(case.ExportCase):
    FORMAT = "keras"

    def predict(self, path, made):
        import keras

        model = keras.saving.load_model(path, safe_mode=True)
        self.assertEqual({type(layer).__module__.split(".")[0] for layer in model.layers}, {"keras"})
        self.assertEqual(model.output_names, [made.last_layer])
        rows = case.encoded(made)
        return model.predict({i.name: rows[i.name] for i in model.inputs}, batch_size=made.rows, verbose=0)


if __name__ == "__main__":
    case.main()
