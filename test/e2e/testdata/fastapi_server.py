"""A server of FastAPI that says its port, and keeps what it answers: with "leak" all of it in a list, with "lru" the
last ones in a dict with a bound. Its client is a thread of a bounded number of requests."""
import collections
import http.client
import socket
import sys
import threading
import time

import fastapi
import uvicorn

MODE, REQUESTS, PACE = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
CLIENTS = 2
MOST = 200     # answers that the bounded one keeps: 1.2 MB

app = fastapi.FastAPI()
responses = []
recent = collections.OrderedDict()


@app.get("/answer/{n}")
def answer(n: int):
    text = ("answer %d " % n) * 600
    if MODE == "leak":
        responses.append(text)
    else:
        recent[n] = text
        if len(recent) > MOST:
            recent.popitem(last=False)
    return {"n": n}


def ask(port, first):
    begin = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for i in range(first, REQUESTS, CLIENTS):
        connection.request("GET", "/answer/%d" % i)
        response = connection.getresponse()
        assert response.status == 200 and response.read()
        time.sleep(max(0, begin + i / PACE - time.monotonic()))
    connection.close()


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
threads = [threading.Thread(target=ask, args=(listener.getsockname()[1], i), daemon=True) for i in range(CLIENTS)]


def load():
    while not server.started:
        time.sleep(0.01)
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    server.should_exit = True


threading.Thread(target=load, daemon=True).start()
server.run(sockets=[listener])
