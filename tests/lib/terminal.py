"""A terminal of a test's own: a pty, and the screen that the output makes. It wraps long lines, also those that are on the
screen when it becomes narrower, as most terminals do."""
import fcntl
import os
import pty
import re
import struct
import termios

TOKEN = re.compile(r"\x1b\[(\d*)([A-Za-z])|([^\x1b])", re.S)


class Terminal:
    def __init__(self, columns):
        self.master, self.slave = pty.openpty()
        self.lines, self.row, self.column = [""], 0, 0  # long lines as they were written; a row is one of the screen
        os.set_blocking(self.master, False)
        self.left = ""
        self.resize(columns)

    def resize(self, columns):
        self.columns = columns
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    def close(self):
        os.close(self.master)
        os.close(self.slave)

    def rows(self):
        """The rows of the screen, without empty ones at its end."""
        rows = []
        for line in self.lines:
            rows += [line[i:i + self.columns] for i in range(0, max(len(line), 1), self.columns)]
        while rows and not rows[-1].strip():
            rows.pop()
        return [row.rstrip() for row in rows]

    def read(self):
        """Takes all output so far. The cursor is at the end of the last line, or was moved back within it."""
        try:
            self.left += os.read(self.master, 1 << 16).decode()
        except (BlockingIOError, OSError):
            return
        for count, command, character in TOKEN.findall(self.left):
            self.take(int(count or 1), command, character)
        self.left = ""

    def take(self, count, command, character):
        if character == "\n":
            self.lines.append("")
            self.column = 0
        elif character == "\r":
            self.column -= self.column % self.columns if self.column % self.columns or not self.column else self.columns
        elif command == "A":
            self.column -= count * self.columns
            assert self.column >= 0, "up beyond the line that redraws"
        elif command == "J":
            self.lines[-1] = self.lines[-1][:self.column]
        elif character:
            self.lines[-1] = self.lines[-1][:self.column] + character + self.lines[-1][self.column + 1:]
            self.column += 1
        else:
            raise AssertionError(f"unknown sequence {command}")
