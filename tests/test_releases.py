"""What belongs to a CUDA context is released in the thread that opened it."""

import gc
import threading

from gravbench.toolkits.pycuda import Releases


class Owner:
    """Something in a cycle, which only the garbage collector frees."""

    def __init__(self):
        self.itself = self


class Resource:
    """Notes in which thread it is released."""

    def __init__(self, noted):
        self.noted = noted

    def __del__(self):
        self.noted.append(threading.get_ident())


def elsewhere(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_what_is_collected_in_another_thread_is_released_in_the_first():
    releases, noted = Releases(), []
    releases.hold(Owner(), Resource(noted))
    elsewhere(gc.collect)
    elsewhere(releases.release)
    assert noted == []
    releases.release()
    assert noted == [threading.get_ident()]


def test_what_has_an_owner_is_kept_and_what_has_none_does_not_pile_up():
    releases, noted = Releases(), []
    owner = Owner()
    releases.hold(owner, Resource(noted))
    releases.release()
    gc.collect()
    assert noted == []
    del owner
    gc.collect()
    releases.hold(Owner(), Resource(noted))
    assert noted == [threading.get_ident()]
