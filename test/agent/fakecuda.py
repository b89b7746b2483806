"""torch.cuda without a GPU, for tests: the lowest names are replaced, what stands above them is torch's own code.
Memory is a counter that the test drives; devices are numbers."""


class FakeCuda:
    def __init__(self, torch, devices=2, total=16 << 30):
        self.live, self.peak, self.reserved = [0] * devices, [0] * devices, [0] * devices
        self.total, self.device, self.capturing, self.initialized = total, 0, False, True
        self.ooms = 0
        self.reads = self.reads_in_capture = 0
        torch._C._cuda_memoryStats = self.stats
        torch._C._cuda_getDevice = lambda: self.device
        torch.cuda.is_initialized = lambda: self.initialized
        torch.cuda.is_current_stream_capturing = lambda: self.capturing
        torch.cuda.device_count = lambda: devices
        torch.cuda.memory_snapshot = lambda: [
            {"device": at, "total_size": 20 << 20, "blocks": [{"size": 8 << 20, "state": "active_allocated"}] + [
                {"size": size << 20, "state": "inactive"} for size in (5 + at, 7 + at)]} for at in range(devices)]

    def allocate(self, size, device=0):
        self.live[device] += size
        self.peak[device] = max(self.peak[device], self.live[device])
        self.reserved[device] = max(self.reserved[device], self.live[device])

    def free(self, size, device=0):
        self.live[device] -= size

    def stats(self, device):
        self.reads += 1
        self.reads_in_capture += self.capturing

        def stat(current, peak):
            return {pool: {"current": current, "peak": peak, "allocated": peak, "freed": peak - current}
                    for pool in ("all", "large_pool", "small_pool")}

        return {"num_ooms": self.ooms, "allocated_bytes": stat(self.live[device], self.peak[device]),
                "reserved_bytes": stat(self.reserved[device], self.reserved[device])}
