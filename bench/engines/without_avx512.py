"""Engines on a machine with AVX-512 as they would be on one with AVX2: their questions are answered so.

    cp -a VENV COPY
    python -m bench.engines.without_avx512 COPY mask.so
    LD_PRELOAD=$PWD/mask.so PIPEALL_ISA=avx2 COPY/bin/python -m bench.engines.peers FOLDER

In the compiled engines of the copy every ``cpuid`` instruction becomes an invalid one. The library made here, which is
loaded ahead of them, catches those and answers as the processor does, without AVX-512, AVX-VNNI, AVX10 and AMX. Needs
cc, objdump and readelf. Nothing but the copy is changed.
"""

import argparse
import re
import subprocess
from pathlib import Path

ENGINES = ("onnxruntime_pybind11_state*.so", "libopenvino_intel_cpu_plugin.so", "libopenvino.so.*", "ncnn.*.so",
           "_mnncengine*.so")  # fmt: skip
CPUID, INVALID = b"\x0f\xa2", b"\x0f\x0b"
LONGEST = 4  # bytes of prefixes ahead of an instruction, and it
ANSWERS = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

static void answer(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *at = (const uint8_t *)r[REG_RIP];
    if (at[0] != 0x0f || at[1] != 0x0b) {
        signal(SIGILL, SIG_DFL);
        return;
    }
    uint32_t leaf = (uint32_t)r[REG_RAX], part = (uint32_t)r[REG_RCX], a, b, c, d;
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(part));
    if (leaf == 7 && part == 0) {
        b &= ~0xdc230000u; /* F, DQ, IFMA, PF, ER, CD, BW, VL */
        c &= ~0x00005842u; /* VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ */
        d &= ~0x03c0010cu; /* 4VNNIW, 4FMAPS, VP2INTERSECT, FP16, AMX */
    }
    if (leaf == 7 && part == 1) {
        a &= ~0x00a00030u; /* AVX-VNNI, BF16, AMX-FP16, AVX-IFMA */
        d &= ~0x00080430u; /* AVX-VNNI-INT8 and -INT16, AVX-NE-CONVERT, AVX10 */
    }
    if (leaf == 13 && part == 0) a &= ~0x000000e0u; /* registers that the system saves */
    r[REG_RAX] = a, r[REG_RBX] = b, r[REG_RCX] = c, r[REG_RDX] = d, r[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer, action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGILL, &action, NULL);
}
"""


def questions(path: Path) -> list[int]:
    """Where in a file its cpuid instructions are."""
    listed = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    found = re.finditer(r"\]\s+\S+\s+PROGBITS\s+([0-9a-f]+)\s+([0-9a-f]+)\s+([0-9a-f]+)", listed)
    sections = [[int(number, 16) for number in section.groups()] for section in found]
    code = path.read_bytes()
    offsets = []
    with subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", path], stdout=subprocess.PIPE, text=True) as lines:
        for line in lines.stdout:
            if not line.rstrip().endswith("\tcpuid"):
                continue
            address = int(line.split(":")[0], 16)
            for begin, offset, size in sections:
                if begin <= address < begin + size:
                    offsets.append(code.find(CPUID, address - begin + offset, address - begin + offset + LONGEST))
    return [offset for offset in offsets if offset >= 0]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("copy", type=Path, help="of a virtual environment")
    options.add_argument("library", type=Path, help="to be made")
    options = options.parse_args()
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-xc", "-", "-o", options.library], input=ANSWERS, text=True,
                   check=True)  # fmt: skip
    for pattern in ENGINES:
        for path in options.copy.rglob(pattern):
            code = bytearray(path.read_bytes())
            offsets = questions(path)
            for offset in offsets:
                code[offset : offset + len(CPUID)] = INVALID
            path.write_bytes(code)
            print(f"{path.name}: {len(offsets)} questions")


if __name__ == "__main__":
    main()
