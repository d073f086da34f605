#!/usr/bin/env python3
"""python/gradwire_model.py: the scores of numpy and of torch are those of gradwire, for each fixture and edge case."""
import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[2] / "python")]
import case  # noqa: E402
import fixtures  # noqa: E402
import gradwire_model  # noqa: E402


def rows_of(made, model):
    """The raw rows of eval."""
    import numpy as np

    if model.encoding is None:
        shape, data = made.source.shape, made.source.bytes
        return np.frombuffer(data, np.uint8).reshape(-1, *shape)
    return list(model.read(made.path / "eval.txt"))


@case.each_fixture
class PythonTest(unittest.TestCase):
    def near(self, got, want, what):
        import numpy as np

        got, want = np.asarray(got).reshape(-1), np.asarray(want).reshape(-1)
        self.assertEqual(got.shape, want.shape, what)
        self.assertLessEqual(np.abs(got - want).max(), case.TOLERANCE, what)

    def check(self, name):
        import numpy as np
        import torch

        with fixtures.made(name) as made:
            model = gradwire_model.load(made.path)
            rows = rows_of(made, model)
            self.assertEqual(len(rows), fixtures.EVAL_ROWS)
            self.near(model.predict(rows), made.scores, "numpy")
            if model.encoding:  # one row after the other, as a list, and by the standard library alone
                x, _ = model.encode(rows[:50])
                self.assertEqual(x.tolist(), [model.encoding.row_features(row) for row in rows[:50]])
                as_lists = [[row[c.name] for c in model.encoding.fields] for row in rows[:50]]
                self.near(model.predict(as_lists, batch=1), made.scores[:len(made.scores) // len(rows) * 50], "lists")
            module, scores = model.torch_module(), []
            with torch.no_grad():
                for i in range(0, len(rows), 100):
                    x, vectors = model.encode(rows[i:i + 100])
                    scores.append(module(x, vectors).numpy())
                    for layer, vector in vectors.items():
                        whole = made.floats(layer)
                        width = len(whole) // len(rows)
                        self.near(vector, whole[i * width:(i + 100) * width], layer)
            self.near(np.concatenate(scores), made.scores, "torch")

    def test_a_module_trains_on(self):
        import torch

        with fixtures.made("convolutions") as made:
            model = gradwire_model.load(made.path)
            x, vectors = model.encode(rows_of(made, model)[:64])
            module = model.torch_module().train()
            optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
            losses = []
            for _ in range(8):
                optimizer.zero_grad()
                loss = -torch.log(module(x, vectors)[:, 0]).mean()
                loss.backward()
                optimizer.step()
                losses.append(float(loss))
            self.assertLess(losses[-1], losses[0])
            self.assertTrue(all(p.grad is not None for p in module.parameters()))

    def test_a_layer_that_training_froze_stays_frozen(self):
        with fixtures.made("mnist-mlp") as made:
            model = gradwire_model.load(made.path)
            model.layers[1]["options"]["trainable"] = False
            frozen = {name: p.requires_grad for name, p in model.torch_module().named_parameters()}
            self.assertEqual([name for name, trains in frozen.items() if not trains], ["layers.1.kernel", "layers.1.bias"])

    def test_rows_that_no_file_can_have_are_errors(self):
        with fixtures.made("encodings") as made:
            model = gradwire_model.load(made.path)
            row = next(model.read(made.path / "eval.txt"))
            for change, why in (({"plain": "1,5"}, "not a number"), ({"embedded": None}, None)):
                if why:
                    with self.assertRaisesRegex(gradwire_model.ModelError, why):
                        model.predict([{**row, **change}])
                else:
                    self.assertEqual(model.predict([{**row, **change}]).shape, (1, 1))
            with self.assertRaisesRegex(gradwire_model.ModelError, "no column"):
                model.predict([{}])


if __name__ == "__main__":
    case.main()
