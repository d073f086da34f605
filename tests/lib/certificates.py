"""Certificates for a test's own folder, by openssl."""
import subprocess


class Certificates:
    """Of a test case that has `tmp`."""

    def openssl(self, *words):
        subprocess.run(["openssl", *map(str, words)], cwd=self.tmp, check=True, capture_output=True)

    def make_ca(self, name):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                     "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")

    def make(self, name, names, ca="ca", days=1):
        """As k8s/README.md says it."""
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                     "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (self.tmp / f"{name}.ext").write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial",
                     "-days", days, "-extfile", f"{name}.ext", "-out", f"{name}.crt")

    def tls(self, name, ca="ca"):
        return [f"--tls_cert={self.tmp}/{name}.crt", f"--tls_key={self.tmp}/{name}.key", f"--tls_ca={self.tmp}/{ca}.crt"]
