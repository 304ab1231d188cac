"""Writes do-nothing stand-ins for the CUDA libraries that torch's x86-64 wheel links to.

With them `import torch` works for use on the CPU without gigabytes of libraries that would never run here. Each stand-in
has exactly the symbols, with their versions, that torch's own libraries ask for; a call to one of them reports that
there is no device. For tests only.

usage: cuda_stubs.py SITE_PACKAGES/torch/lib        needs gcc, nm and readelf
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

NO_DEVICE = 100  # cudaErrorNoDevice


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def needed(library):
    """The names of the libraries that this one links to."""
    return re.findall(r"\(NEEDED\).*\[(.+?)\]", output("readelf", "-dW", library))


def version_needs(library):
    """Index -> (library, version), from the table of needed versions."""
    table, file = {}, None
    for line in output("readelf", "-VW", library).splitlines():
        if found := re.search(r"File: (\S+)", line):
            file = found.group(1)
        elif found := re.search(r"Name: (\S+)\s+Flags: \S+\s+Version: (\d+)", line):
            table[int(found.group(2))] = (file, found.group(1))
    return table


def undefined(library):
    """Each undefined symbol with the text and the index of its version, empty where it has none."""
    for line in output("readelf", "--dyn-syms", "-W", library).splitlines():
        parts = line.split()
        if len(parts) >= 8 and parts[6] == "UND":
            name, _, version = parts[7].partition("@")
            index = parts[8].strip("()") if len(parts) > 8 else ""
            yield name, version, index


def defined(library):
    lines = output("nm", "-D", "--defined-only", library).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def source(symbols):
    text = []
    for name in dict.fromkeys(symbols):
        if name == "cudaGetDeviceCount":
            text.append(f"int {name}(int *count) {{ if (count) *count = 0; return {NO_DEVICE}; }}")
        elif re.search("ErrorString|ErrorName|GetStatusString", name):
            text.append(f'const char *{name}(void) {{ return "no CUDA here"; }}')
        else:
            quiet = name.startswith("__cuda") or name in ("cudaGetLastError", "cudaPeekAtLastError")
            text.append(f"int {name}(void) {{ return {0 if quiet else NO_DEVICE}; }}")
    return "\n".join(text) or "int nothing;"


def build(folder, soname, by_version, unversioned):
    symbols = [name for names in by_version.values() for name in sorted(names)] + sorted(unversioned)
    with tempfile.TemporaryDirectory() as work:
        with open(f"{work}/stub.c", "w", encoding="ascii") as file:
            file.write(source(symbols))
        command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{soname}", "-o",
                   os.path.join(folder, soname), f"{work}/stub.c"]
        if by_version:
            with open(f"{work}/versions", "w", encoding="ascii") as file:
                for version, names in by_version.items():
                    file.write(f"{version} {{ global: {' '.join(name + ';' for name in sorted(names))} }};\n")
            command.append(f"-Wl,--version-script={work}/versions")
        subprocess.run(command, check=True)


def main(folder):
    libraries = [os.path.join(folder, name) for name in os.listdir(folder) if ".so" in name]
    libraries = [library for library in libraries if not os.path.islink(library)]
    present = {os.path.basename(library) for library in libraries}
    wanted = {name for library in libraries for name in needed(library)
              if name not in present and re.match(r"lib(cu|nv|nccl)", name)}
    own = set().union(*(defined(library) for library in libraries))
    by_library = collections.defaultdict(lambda: collections.defaultdict(set))
    unversioned = set()
    for library in libraries:
        needs = version_needs(library)
        for name, version, index in undefined(library):
            if version and index.isdigit():
                where = needs.get(int(index))
            elif version:
                where = next((pair for pair in needs.values() if pair[1] == version), None)
            else:
                where = None
                if name not in own and re.match(r"(cu|nv|nccl|__cuda|cudnn)", name):
                    unversioned.add(name)
            if where and where[0] in wanted:
                by_library[where[0]][where[1]].add(name)
    for soname in sorted(wanted):
        # Symbols without a version could be anybody's: the runtime library, which everything loads, has them.
        runtime = soname.startswith("libcudart")
        build(folder, soname, by_library[soname], unversioned if runtime else set())
        print(soname)


main(sys.argv[1])
