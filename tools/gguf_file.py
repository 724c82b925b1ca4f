# SPDX-License-Identifier: Apache-2.0
"""GGUF reader and writer for the tools in this directory. Standard library only.

The caller encodes the tensor data.
"""
import struct

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?",
           10: "<Q", 11: "<q", 12: "<d"}
ALIGNMENT = 32

# name: GGUF type id, values per block, bytes per block
TYPES = {
    "f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q4_1": (3, 32, 20),
    "q5_0": (6, 32, 22), "q5_1": (7, 32, 24), "q8_0": (8, 32, 34), "iq4_nl": (20, 32, 18),
    "q2_k": (10, 256, 84), "q3_k": (11, 256, 110), "q4_k": (12, 256, 144),
    "q5_k": (13, 256, 176), "q6_k": (14, 256, 210), "bf16": (30, 1, 2),
    "iq1_s": (19, 256, 50), "iq1_m": (29, 256, 56), "iq2_xxs": (16, 256, 66), "iq2_xs": (17, 256, 74),
    "iq2_s": (22, 256, 82), "iq3_xxs": (18, 256, 98), "iq3_s": (21, 256, 110), "iq4_xs": (23, 256, 136),
    "tq1_0": (34, 256, 54), "tq2_0": (35, 256, 66), "mxfp4": (39, 32, 17), "nvfp4": (40, 64, 36),
    "q1_0": (41, 128, 18), "q2_0": (42, 64, 18),
}


def string(s):
    b = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(b)) + b


def padding(n):
    return b"\0" * (-n % ALIGNMENT)


class Writer:
    """Collects entries; write() writes the file. A callback writes the tensor data, so files can be larger
    than memory."""

    def __init__(self):
        self.entries, self.tensors = [], []

    def scalar(self, key, kind, value):
        self.entries.append(string(key) + struct.pack("<I", kind) + struct.pack(SCALARS[kind], value))

    def u32(self, key, value):
        self.scalar(key, U32, value)

    def text(self, key, value):
        self.entries.append(string(key) + struct.pack("<I", STRING) + string(value))

    def texts(self, key, values):
        head = struct.pack("<IIQ", ARRAY, STRING, len(values))
        self.entries.append(string(key) + head + b"".join(map(string, values)))

    def i32s(self, key, values):
        head = struct.pack("<IIQ", ARRAY, I32, len(values))
        self.entries.append(string(key) + head + struct.pack(f"<{len(values)}i", *values))

    def f32s(self, key, values):
        head = struct.pack("<IIQ", ARRAY, F32, len(values))
        self.entries.append(string(key) + head + struct.pack(f"<{len(values)}f", *values))

    def tensor(self, name, dims, kind):
        """dims[0] is contiguous."""
        _, values, size = TYPES[kind]
        assert dims[0] % values == 0, (name, dims, kind)
        count = 1
        for d in dims:
            count *= d
        self.tensors.append((name, dims, kind, count // values * size))

    def write(self, path, data):
        """data(f, name, dims, kind, size) writes the bytes of one tensor to f."""
        table, offset = [], 0
        for name, dims, kind, size in self.tensors:
            table.append(string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPES[kind][0], offset))
            offset += size + len(padding(size))
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.entries))
        head += b"".join(self.entries) + b"".join(table)
        with open(path, "wb") as f:
            f.write(head + padding(len(head)))
            for name, dims, kind, size in self.tensors:
                data(f, name, dims, kind, size)
                f.write(padding(size))


class Reader:
    """metadata: key to (raw entry bytes, value); arrays are lists, strings are bytes.
    tensors: name to (dims, type id, bytes view)."""

    def __init__(self, data):
        self.data, self.at = memoryview(data), 0
        assert bytes(self.data[:4]) == b"GGUF"
        self.at = 4
        version, n_tensors, n_kv = self.take("<I"), self.take("<Q"), self.take("<Q")
        assert version in (2, 3)
        self.metadata = dict(self.entry() for _ in range(n_kv))
        alignment = self.metadata.get("general.alignment", (None, ALIGNMENT))[1]
        infos = [self.tensor_info() for _ in range(n_tensors)]
        start = self.at + -self.at % alignment
        sizes = {i: (values, size) for i, values, size in TYPES.values()}
        self.tensors = {}
        for name, dims, kind, offset in infos:
            count = 1
            for d in dims:
                count *= d
            values, size = sizes[kind]
            begin = start + offset
            self.tensors[name] = dims, kind, self.data[begin:begin + count // values * size]

    def take(self, fmt):
        value = struct.unpack_from(fmt, self.data, self.at)[0]
        self.at += struct.calcsize(fmt)
        return value

    def take_string(self):
        n = self.take("<Q")
        self.at += n
        return bytes(self.data[self.at - n:self.at])

    def take_value(self, kind):
        if kind == STRING:
            return self.take_string()
        if kind == ARRAY:
            element, count = self.take("<I"), self.take("<Q")
            return [self.take_value(element) for _ in range(count)]
        return self.take(SCALARS[kind])

    def entry(self):
        begin = self.at
        key = self.take_string().decode()
        value = self.take_value(self.take("<I"))
        return key, (bytes(self.data[begin:self.at]), value)

    def tensor_info(self):
        name, n_dims = self.take_string().decode(), self.take("<I")
        dims = [self.take("<Q") for _ in range(n_dims)]
        return name, dims, self.take("<I"), self.take("<Q")
