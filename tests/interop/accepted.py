"""The exports of the fixtures that the real packages read with the right predictions: accepted.txt has their SHA-256, so a
test without the packages can compare bytes. To add a format, add its forms to FORMS."""
import hashlib
import pathlib
import subprocess
import tempfile
import zipfile

import fixtures

PATH = pathlib.Path(__file__).with_name("accepted.txt")
BESIDE = ("--tables_mb", "0")


def file_digest(path):
    return {"": hashlib.sha256(path.read_bytes()).hexdigest()}


def keras_digests(path):
    """Of config.json, and of the names, shapes and values of the weights: HDF5 files of other releases have other bytes."""
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
        config = archive.read("config.json")
        archive.extract("model.weights.h5", folder)
        weights = pathlib.Path(folder, "weights.safetensors")
        subprocess.run([fixtures.BUILD / "hdf5" / "hdf5", "read", pathlib.Path(folder, "model.weights.h5"), weights], check=True)
        return {"config.json": hashlib.sha256(config).hexdigest(), "weights": hashlib.sha256(weights.read_bytes()).hexdigest()}


def folder_digests(path):
    """Of each file in a directory."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(path.iterdir())}


class Form:
    """An export of a fixture: with these flags; digests(path) gives the SHA-256 of each part that is compared."""

    def __init__(self, form, file, digests, *flags):
        self.form, self.file, self.digests, self.flags = form, file, digests, flags


FORMS = {
    "onnx": Form("onnx", "model.onnx", file_digest),
    "onnx-beside": Form("onnx", "beside.onnx", file_digest, *BESIDE),
    "keras": Form("keras", "model.keras", keras_digests),
    "savedmodel": Form("savedmodel", "savedmodel", folder_digests),
    "savedmodel-beside": Form("savedmodel", "savedmodel-beside", folder_digests, *BESIDE),
}


def forms_of(made, name):
    """The forms of a format that differ for this fixture: without tables nothing can be kept out of the graph."""
    return [f for f in FORMS if FORMS[f].form == name and (made.has_tables or not FORMS[f].flags)]


def export(made, form):
    """Returns the path and what the command printed."""
    path = made.path / FORMS[form].file
    return path, made.export(FORMS[form].form, path, *FORMS[form].flags)


def every_op(folder):
    """Write a SavedModel and an ONNX file with each operator. Returns {format: path}, [(columns, name)] of the results, and
    {format: digests by key}."""
    path = {"savedmodel": pathlib.Path(folder, "every-op"), "onnx": pathlib.Path(folder, "every-op.onnx")}
    done = subprocess.run([fixtures.BUILD / "tests" / "interop_every_op", path["savedmodel"], path["onnx"]], check=True,
                          capture_output=True, text=True)
    results = [line.split(" ", 1) for line in done.stdout.splitlines()]
    digests = {"savedmodel": folder_digests(path["savedmodel"]), "onnx": file_digest(path["onnx"])}
    return (path, [(int(columns), name) for columns, name in results],
            {form: {f"every-op {form}" + (f"/{part}" if part else ""): digest for part, digest in of.items()}
             for form, of in digests.items()})


def keys_of(made, form, path):
    """{"clicks-lr onnx": SHA-256}"""
    return {f"{made.name} {form}" + (f"/{part}" if part else ""): digest
            for part, digest in FORMS[form].digests(path).items()}


def load():
    lines = [line.split(" ", 1) for line in PATH.read_text().splitlines() if not line.startswith("#")]
    return {key: digest for digest, key in lines}


def accept(found):
    """Note these digests; those of other keys stay."""
    kept = [line for line in PATH.read_text().splitlines() if line.startswith("#")]
    every = {**load(), **found}
    PATH.write_text("\n".join(kept + [f"{every[key]} {key}" for key in sorted(every)]) + "\n")
