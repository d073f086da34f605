#!/usr/bin/env python3
"""ONNX files: onnx's checker accepts them, and onnxruntime computes our predictions."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import accepted  # noqa: E402
import case  # noqa: E402
import fixtures  # noqa: E402


@case.each_fixture
class OnnxTest(case.ExportCase):
    FORMAT = "onnx"

    def predict(self, path, made):
        import onnx
        import onnxruntime

        onnx.checker.check_model(str(path), full_check=True)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        wanted = {i.name: i.shape[1:] for i in session.get_inputs()}
        one = session.get_outputs()
        self.assertEqual([one[0].name], [made.last_layer])
        rows = case.arrays(made, wanted)
        (every,) = session.run(None, rows)
        for count in 0, 1:  # any number of rows
            (some,) = session.run(None, {name: value[:count] for name, value in rows.items()})
            self.assertEqual(some.shape, (count, *every.shape[1:]))
            self.assertLessEqual(abs(some - every[:count]).max(initial=0), case.TOLERANCE)
        return every

    def test_a_row_that_lacks_a_number_that_training_requires_has_no_score(self):
        for name in "plain", "borders", "quantiles":
            self.check_required(name)


class EncodeTest(unittest.TestCase):
    """The inputs that `gradwire encode` makes of the file of rows, without any code about keys."""

    def test_onnxruntime_gives_our_predictions_for_what_encode_writes(self):
        import numpy as np
        import onnxruntime

        for name in "encodings", "tables", "a9a-lr", "mnist-mlp":
            with self.subTest(fixture=name), fixtures.made(name) as made:
                rows = case.encoded(made, "--raw")
                for form in accepted.forms_of(made, "onnx"):
                    path, _ = accepted.export(made, form)
                    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
                    given = {i.name: rows[i.name] for i in session.get_inputs()}
                    given = {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in given.items()}
                    (theirs,) = session.run(None, given)
                    self.assertLessEqual(abs(theirs.reshape(-1) - np.array(made.scores)).max(), case.TOLERANCE)


if __name__ == "__main__":
    case.main()
