"""Objects that outlive a detach."""
import threading
import unittest

from memgauge._agent import persistent


class Persistent(unittest.TestCase):
    def test_two_threads_at_once(self):
        """C keeps the address of what it was given: an object that another one replaces would be freed under it."""
        both, found = threading.Barrier(2), []

        def make():
            both.wait(30)       # neither has registered its object yet
            return [object()]

        def get():
            found.append(persistent.get("test", make))

        threads = [threading.Thread(target=get) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertIs(found[0], found[1])
        self.assertIs(persistent.get("test", None), found[0])


if __name__ == "__main__":
    unittest.main()
