"""Certificates of a test's own, made with openssl as in docs/guides/kubernetes-tls.md."""
import subprocess

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(folder, *words):
    subprocess.run(["openssl", *map(str, words)], cwd=folder, check=True, capture_output=True)


def make_ca(folder, name="ca"):
    openssl(folder, "req", "-x509", *KEY, "-days", "200", "-subj", f"/CN={name}", "-keyout", f"{name}.key",
            "-out", f"{name}.crt")


def make(folder, name, names, ca="ca", days=100, usage="serverAuth,clientAuth"):
    """NAME.crt and NAME.key, signed by `ca`, for `names` ("IP:127.0.0.1,DNS:localhost")."""
    openssl(folder, "req", *KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    (folder / f"{name}.ext").write_text(f"subjectAltName={names}\nextendedKeyUsage={usage}\n")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial",
            "-days", days, "-extfile", f"{name}.ext", "-out", f"{name}.crt")


def flags(folder, name, ca="ca"):
    return [f"--tls_cert={folder}/{name}.crt", f"--tls_key={folder}/{name}.key", f"--tls_ca={folder}/{ca}.crt"]


class Certificates:
    """Of a test case, in its `tmp`."""

    def make_ca(self, name):
        make_ca(self.tmp, name)

    def make(self, name, names, days=1, **options):
        make(self.tmp, name, names, days=days, **options)

    def tls(self, name, ca="ca"):
        return flags(self.tmp, name, ca)
