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
        return session.run(None, case.arrays(made, wanted))[0]


if __name__ == "__main__":
    case.main()
