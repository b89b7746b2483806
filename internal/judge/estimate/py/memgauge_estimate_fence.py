"""Takes the right to write files from this process and its children, by Landlock."""
import ctypes
import os
import struct

# linux/landlock.h; the numbers of the calls are those of all architectures
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION = 1 << 0
PATH_BENEATH = 1
WRITE_FILE = 1 << 1
CHANGES = sum(1 << n for n in range(4, 13))  # to remove, and to make, files, directories and the rest
REFER, TRUNCATE = 1 << 13, 1 << 14           # since versions 2 and 3
NO_NEW_PRIVS = 38                            # linux/prctl.h


def shut(writable):
    """Leaves the directories that are named open to writing, devices and shared memory. Threads that were there before
    keep their rights, so it comes first."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number, *args):
        result = libc.syscall(number, *args)
        if result < 0:
            raise SystemExit("--no-writes needs Landlock, which this kernel refuses (%s)"
                             % os.strerror(ctypes.get_errno()))
        return result

    version = call(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)
    rights = WRITE_FILE | CHANGES | (REFER if version > 1 else 0) | (TRUNCATE if version > 2 else 0)
    rules = call(CREATE_RULESET, struct.pack("=Q", rights), ctypes.c_size_t(8), 0)
    for path, allowed in [(p, rights) for p in writable] + [("/dev", WRITE_FILE), ("/dev/shm", rights)]:
        if not os.path.isdir(path):
            continue
        place = os.open(path, os.O_PATH)
        call(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", allowed, place), 0)
        os.close(place)
    if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise SystemExit("--no-writes: %s" % os.strerror(ctypes.get_errno()))
    call(RESTRICT_SELF, rules, 0)
    os.close(rules)
