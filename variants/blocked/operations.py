"""Operations in CUDA C that several variants include, as ``gravbench ablate`` finds them there."""

from gravbench.model.variant import Operations

ROWS = ("interact(sums[b], own[b], j, eps2)",)
"""The contributions that ``tile_rows.cuh`` adds."""

ADDITIONS = {
    "atomicAdd(reinterpret_cast<float4*>(to), make_float4(sums.ax, sums.ay, sums.az, 0));": "sums.ax",
    "atomicAdd(&to->ax, sums.ax);": "sums.ax",
    "atomicAdd(&to->ay, sums.ay);": "sums.ay",
    "atomicAdd(&to->az, sums.az);": "sums.az",
}
"""The atomic additions of ``add_sums.cuh``, each with the number that it adds."""

SYMMETRIC = Operations(
    rsqrts=(
        "inverse_sqrt(dz * dz + (dy * dy + (dx * dx + eps2)))",
        "inverse_sqrt(dx * dx + (dz * dz + (dy * dy + eps2)))",
    ),
    staging=(
        "partners[lane] = Row{j.mass, j.x, j.y, j.z};",
        "partners[lane + 32] = Row{j.mass, j.x, j.y, j.z};",
    ),
    additions=ADDITIONS,
    contributions=("pair<EQUAL_NOW>(of_own[b], of_j, own[b], j, eps2)",),
)
"""Those of ``symmetric.cu``, which has two ways to compute a pair."""
