"""A remote shell over plain TCP, for tests: what ssh does, without keys.

    rsh.py serve ADDRESS PORT               one command a connection; "ready" on stdout when it listens
    rsh.py connect ADDRESS PORT COMMAND     standard input and output are the command's"""
import os
import socket
import subprocess
import sys
import threading


def pump(read, write, close):
    try:
        while data := read(65536):
            write(data)
    except OSError:
        pass
    close()


def serve_one(connection):
    with connection:
        command = b""
        while not command.endswith(b"\n"):
            if not (byte := connection.recv(1)):
                return
            command += byte
        child = subprocess.Popen(["sh", "-c", command.decode()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 bufsize=0, start_new_session=True)
        threading.Thread(target=pump, args=(connection.recv, child.stdin.write, child.stdin.close),
                         daemon=True).start()
        pump(lambda n: os.read(child.stdout.fileno(), n), connection.sendall, lambda: None)
        child.wait()


def serve(address, port):
    with socket.create_server((address, port), backlog=16) as listener:
        print("ready", flush=True)
        while True:
            threading.Thread(target=serve_one, args=(listener.accept()[0],), daemon=True).start()


def connect(address, port, command):
    with socket.create_connection((address, port), timeout=5) as s:
        s.settimeout(None)
        s.sendall(command.encode() + b"\n")
        threading.Thread(target=pump, args=(lambda n: os.read(0, n), s.sendall, lambda: s.shutdown(socket.SHUT_WR)),
                         daemon=True).start()
        pump(s.recv, lambda data: os.write(1, data), lambda: None)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        connect(sys.argv[2], int(sys.argv[3]), sys.argv[4])
