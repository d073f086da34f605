"""Values that a job shows while it runs."""
import threading


class Looks:
    """A context that calls look() from a thread of its own, again and again."""

    def __init__(self, every_s):
        self.every_s = every_s
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def watch(self):
        while not self.over.wait(self.every_s):
            self.look()

    def look(self):
        raise NotImplementedError
