#!/usr/bin/env python3
"""SavedModels: TensorFlow loads them, and their signature computes our predictions."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import accepted  # noqa: E402
import case  # noqa: E402
import fixtures  # noqa: E402

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # no hints about the processor


@case.each_fixture
class SavedModelTest(case.ExportCase):
    FORMAT = "savedmodel"

    def predict(self, path, made):
        import tensorflow as tf

        score = tf.saved_model.load(str(path)).signatures["serving_default"]
        self.assertEqual(list(score.structured_outputs), [made.last_layer])
        return score(**self.feeds(score, made))[made.last_layer].numpy()

    def feeds(self, score, made):
        import tensorflow as tf

        specs = score.structured_input_signature[1]
        arrays = case.arrays(made, {name: spec.shape[1:] for name, spec in specs.items()})
        return {name: tf.constant(arrays[name], specs[name].dtype) for name in specs}

    def test_a_row_that_lacks_a_number_that_training_requires_has_no_score(self):
        for name in "plain", "borders", "quantiles":
            self.check_required(name)

    def test_a_session_of_tensorflow_1_as_in_servers_runs_the_init_operation_and_gives_the_same(self):
        import numpy as np
        import tensorflow as tf

        with fixtures.made("adult-mlp") as made:
            path, _ = accepted.export(made, "savedmodel")
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                meta = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
                signature = meta.signature_def["serving_default"]
                arrays = case.arrays(made, {name: () for name in signature.inputs})
                scores = session.run(signature.outputs[made.last_layer].name,
                                     {info.name: arrays[name] for name, info in signature.inputs.items()})
        self.assertLessEqual(float(np.abs(scores.reshape(-1) - np.array(made.scores)).max()), case.TOLERANCE)

    def test_export_warns_of_names_with_which_tensorflow_cannot_load_a_model(self):
        import tensorflow as tf

        for names in (["class"], ["a-b", "a_b"], ["1st", "arg_1st"], ["if_", "A-b", "a_b", '"1|\n'], ["x" * 4096, "\u00e9" * 2048],
                      ["area m\u00b2"], ["CO\u2082"], ["\u00bd"], ["in \u20ac", "in $"],
                      ["\u00b0C", "\u00b5g", "\u00d7", "\u2126", "\u5024"]):
            with self.subTest(names=[name[:20] for name in names]), tempfile.TemporaryDirectory() as folder:
                columns = "".join(f"    - number: {json.dumps(name)}\n" for name in names) + "    - label: y\n"
                job = fixtures.job("    - dense: 1\n", fixtures.csv(columns))
                pathlib.Path(folder, "job.yaml").write_text(job)
                for part in "train", "eval":
                    pathlib.Path(folder, f"{part}.txt").write_text(("1," * len(names) + "0\n") * 8)
                subprocess.run([fixtures.BUILD / "tests" / "interop_fixture", folder], check=True, timeout=60)
                done = subprocess.run([fixtures.BUILD / "model" / "model", "export", folder, "--format=savedmodel", "--output",
                                       f"{folder}/made"], check=True, capture_output=True, text=True, timeout=60)
                if "tf.saved_model.load cannot load it" in done.stderr:
                    self.assertRaises(ValueError, tf.saved_model.load, f"{folder}/made")
                else:
                    self.assertEqual(done.stderr.count("warning"), 0)
                    score = tf.saved_model.load(f"{folder}/made").signatures["serving_default"]
                    self.assertEqual(set(score.structured_input_signature[1]), set(names))

    def test_two_models_in_one_process_do_not_share_their_words(self):
        import numpy as np
        import tensorflow as tf

        with fixtures.made("adult-mlp") as one, fixtures.made("encodings") as two:
            scores = {}
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                for made in one, two:
                    path, _ = accepted.export(made, "savedmodel")
                    meta = tf.compat.v1.saved_model.load(session, ["serve"], str(path), import_scope=made.name)
                    scores[made] = meta.signature_def["serving_default"]
                for made, signature in scores.items():
                    arrays = case.arrays(made, {name: () for name in signature.inputs})
                    theirs = session.run(f"{made.name}/{signature.outputs[made.last_layer].name}",
                                         {f"{made.name}/{info.name}": arrays[name]
                                          for name, info in signature.inputs.items()})
                    off = np.abs(theirs.reshape(-1) - np.array(made.scores))
                    self.assertLessEqual(float(off.max()), case.TOLERANCE)


if __name__ == "__main__":
    case.main()
