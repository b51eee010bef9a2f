"""Compile the kernels of a stem that has several: ``#ifdef KERNEL_tree_box`` encloses what only ``tree_box`` needs."""


def compiled(gpu, name, **constants):
    """Compile the kernel of that name, with the constants that its text depends on."""
    return gpu.compile(name, **{f"KERNEL_{name}": 1}, **constants)


def all_compiled(gpu, kernels, constants):
    """Compile kernels in their order: ``kernels`` has by the name of each the names of its constants, in one string."""
    return [
        compiled(gpu, name, **{constant: constants[constant] for constant in needed.split()})
        for name, needed in kernels.items()
    ]
