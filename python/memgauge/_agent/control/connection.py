"""A client of the control socket. Its frames are read, and replies and the output of its code sent, without
blocking."""
import _socket
import _thread
import struct
from time import monotonic

HELLO, OUTPUT, VALUE, EXCEPTION, DONE, PONG, ERROR, OK, STACKS, COUNTED, PLACE = range(64, 75)

MAX_FRAME = 1 << 20       # bytes of payload: the longest code, the longest value
MAX_OUTPUT = 65535        # bytes of text in an output frame, which has one byte more
MAX_UNSENT = 1 << 20      # bytes that wait for a client; output beyond waits with the code that prints it

_HEAD = struct.Struct("<IHH")


def encode(text):
    """UTF-8; a lone surrogate becomes its backslash escape."""
    return text.encode("utf-8", "backslashreplace")


class Connection:
    """A client. The control thread reads; it and the eval's thread write, under `lock`."""

    def __init__(self, sock):
        self.sock, self.fd = sock, sock.fileno()
        self.open = True
        self.heard = monotonic()    # when it last sent something
        self.job = None
        self.unsent = bytearray()
        self._received = bytearray()
        self._lock = _thread.allocate_lock()

    def idle(self):
        return self.job is None and not self.unsent and not self._received

    def abandon(self):
        self.open = False
        self.sock.close()

    def receive(self):
        try:
            data = self.sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.heard = monotonic()
        self._received += data
        self.open = self.open and bool(data)

    def frames(self):
        """The complete frames received, as (type, payload)."""
        while len(self._received) >= _HEAD.size:
            length, kind, _ = _HEAD.unpack_from(self._received)
            if length > MAX_FRAME:
                raise ValueError("frame of %d bytes, at most %d" % (length, MAX_FRAME))
            end = _HEAD.size + length
            if len(self._received) < end:
                return
            payload = bytes(self._received[_HEAD.size:end])
            del self._received[:end]
            yield kind, payload

    def send(self, kind, *parts):
        with self._lock:
            self._add(kind, *parts)
            self._push()

    def flush(self):
        """Sends what is pending, including the output of the eval."""
        with self._lock:
            while True:
                if self.job is not None:
                    self._take_output(self.job.sink, MAX_UNSENT)
                self._push()
                if self.unsent or self.job is None or not self.job.sink.queue:
                    return

    def finish(self, job):
        """Sends the last frames of an eval from its own thread, so that the client need not wait for another thread."""
        with self._lock:
            self._take_output(job.sink, None)
            if job.value:
                self._add(VALUE, encode(job.value))
            if job.error:
                self._add(EXCEPTION, encode(job.error))
            if job.visit.place is not None:
                self._add(PLACE, bytes((job.visit.place,)), encode(job.visit.text))
            self._add(DONE, struct.pack("<BQ", job.outcome, job.nanoseconds))
            self.job = None
            self._push()

    def _add(self, kind, *parts):
        self.unsent += _HEAD.pack(sum(map(len, parts)), kind, 0)
        for part in parts:
            self.unsent += part

    def _take_output(self, sink, limit):
        """Moves what the code has printed into unsent; neighbours of one stream share frames."""
        sink.signalled = False
        stream, texts = None, []
        while sink.queue and (limit is None or len(self.unsent) < limit):
            next_stream, text = sink.queue.popleft()
            if next_stream != stream or len(texts) >= 16:
                self._add_output(stream, texts)
                stream, texts = next_stream, []
            texts.append(text)
        self._add_output(stream, texts)

    def _add_output(self, stream, texts):
        data = encode("".join(texts))
        while data:
            end = min(len(data), MAX_OUTPUT)
            while end < len(data) and data[end] & 0xC0 == 0x80:   # never within a character
                end -= 1
            self._add(OUTPUT, bytes((stream,)), data[:end])
            data = data[end:]

    def _push(self):
        while self.unsent and self.open:
            try:
                del self.unsent[:self.sock.send(self.unsent, _socket.MSG_NOSIGNAL)]
            except BlockingIOError:
                return
            except OSError:
                self.open = False
        if not self.open:
            self.unsent = bytearray()
