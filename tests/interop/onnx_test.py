#!/usr/bin/env python3
"""ONNX files: onnx's checker accepts them, and onnxruntime computes our predictions."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import case  # noqa: E402


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


if __name__ == "__main__":
    case.main()
