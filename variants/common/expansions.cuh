// Taylor expansions in Cartesian coordinates of the softened potential (r^2 + eps^2)^(-1/2), up to ORDER.
//
// With a source d away from the centre of its cell, a target a away from that of its own, and R from the first centre
// to the second, 1 / |R + a - d| is the sum over n and m of a^n / n! (-d)^m / m! D_(n+m), where n and m are exponents
// of x, y and z, and D are the derivatives at R. Terms of |n| + |m| <= ORDER are kept. A cell's multipoles are the sums
// of mass (-d)^m / m!, up to ORDER - 1, as forces need no more; those of first order are zero about the centre of mass.
// Its local coefficients, of a^n / n!, are the sums of multipoles times derivatives, from first order on.
//
// Lengths are in a unit of which the whole cube has about a thousand, multipoles are for a unit of the cell's mass, and
// local coefficients for a unit of the mass of all bodies: so numbers stay within float32.

__host__ __device__ constexpr int coefficients(int degree) {
    return (degree + 1) * (degree + 2) * (degree + 3) / 6;
}

// Return the place of the coefficient of x^a y^b z^c: those of lower degree stand before it.
__host__ __device__ constexpr int place(int a, int b, int c) {
    return (a + b + c) * (a + b + c + 1) * (a + b + c + 2) / 6 + (b + c) * (b + c + 1) / 2 + c;
}

__host__ __device__ constexpr int whole_rows(int numbers) {
    return (numbers + 3) / 4;
}

constexpr int derivatives_kept = coefficients(ORDER);
constexpr int monomials_kept = coefficients(ORDER - 1);
constexpr int multipoles = coefficients(ORDER - 1) - 3;
constexpr int locals = coefficients(ORDER) - 1;
constexpr int multipole_rows = whole_rows(multipoles), local_rows = whole_rows(locals);

// Four coefficients, read and written at once.
struct __align__(16) Row {
    real of[4];
};

// Return the row of that number of coefficients, the last one filled up with zeros.
template <int NUMBERS>
__device__ __forceinline__ Row row_of(const real (&coefficients)[NUMBERS], int number) {
    Row row;
#pragma unroll
    for (int word = 0; word < 4; ++word) {
        const int place = 4 * number + word;
        row.of[word] = place < NUMBERS ? coefficients[min(place, NUMBERS - 1)] : 0;
    }
    return row;
}

__host__ __device__ constexpr int multipole_place(int a, int b, int c) {
    return a + b + c == 0 ? 0 : place(a, b, c) - 3;
}

__host__ __device__ constexpr int local_place(int a, int b, int c) {
    return place(a, b, c) - 1;
}

// Return the unit in which lengths have to be multiplied, a power of two.
__device__ __forceinline__ real unit_of(const Cube& cube) {
    if (!(cube.width > 0)) return 1;
    return ldexp(static_cast<real>(1), min(max(10 - ilogb(cube.width), -100), 100));
}

// Compute x^a y^b z^c / (a! b! c!) of each degree below ORDER.
__device__ __forceinline__ void monomials(real (&found)[monomials_kept], real x, real y, real z) {
    found[0] = 1;
#pragma unroll
    for (int degree = 1; degree < ORDER; ++degree) {
#pragma unroll
        for (int a = degree; a >= 0; --a) {
#pragma unroll
            for (int c = 0; c <= degree - a; ++c) {
                const int b = degree - a - c;
                if (c > 0) {
                    found[place(a, b, c)] = found[place(a, b, c - 1)] * (z * (static_cast<real>(1) / c));
                } else if (b > 0) {
                    found[place(a, b, c)] = found[place(a, b - 1, c)] * (y * (static_cast<real>(1) / b));
                } else {
                    found[place(a, b, c)] = found[place(a - 1, b, c)] * (x * (static_cast<real>(1) / a));
                }
            }
        }
    }
}

// Add the multipoles of a body with this part of the cell's mass, `h` from the body to the centre.
__device__ __forceinline__ void add_body(real (&sums)[multipoles], real part, real hx, real hy, real hz) {
    real powers[monomials_kept];
    monomials(powers, hx, hy, hz);
    sums[0] += part;
#pragma unroll
    for (int k = 4; k < monomials_kept; ++k) sums[k - 3] += part * powers[k];
}

// Add the multipoles of a cell with this part of the whole mass about another centre, `h` from the cell's centre to
// that one. The rows are read past the cache of this multiprocessor, which may not know what another has just written.
__device__ __forceinline__ void add_cell(real (&sums)[multipoles], const Row* rows, real part, real hx, real hy,
                                         real hz) {
    real powers[monomials_kept];
    monomials(powers, hx, hy, hz);
    real own[4 * multipole_rows];
#pragma unroll
    for (int k = 0; k < multipole_rows; ++k) {
        const Row row = fresh(rows + k);
#pragma unroll
        for (int word = 0; word < 4; ++word) own[4 * k + word] = part * row.of[word];
    }
#pragma unroll
    for (int degree = 0; degree < ORDER; ++degree) {
        if (degree == 1) continue;
#pragma unroll
        for (int a = 0; a <= degree; ++a) {
#pragma unroll
            for (int b = 0; b <= degree - a; ++b) {
                const int c = degree - a - b;
                real sum = 0;
#pragma unroll
                for (int i = 0; i <= a; ++i) {
#pragma unroll
                    for (int j = 0; j <= b; ++j) {
#pragma unroll
                        for (int k = 0; k <= c; ++k) {
                            if (i + j + k != 1)
                                sum += own[multipole_place(i, j, k)] * powers[place(a - i, b - j, c - k)];
                        }
                    }
                }
                sums[multipole_place(a, b, c)] += sum;
            }
        }
    }
}

// Compute the derivatives up to ORDER at (x, y, z), times `strength`, by the recursion of McMurchie and Davidson 1978:
// with s^2 = r^2 + eps^2, the m-th auxiliary of exponents 0 is (-1)^m (2 m - 1)!! / s, and one more exponent of x takes
// x / s^2 times the next auxiliary and, for each exponent of x that was there, 1 / s^2 times that of one exponent less.
__device__ __forceinline__ void derivatives(real (&found)[derivatives_kept], real x, real y, real z, real eps2,
                                            real strength) {
    const real inverse = inverse_sqrt(x * x + (y * y + (z * z + eps2)));
    const real w = inverse * inverse;
    x *= w;
    y *= w;
    z *= w;
    real seeds[ORDER + 1];
    seeds[0] = strength * inverse;
#pragma unroll
    for (int m = 1; m <= ORDER; ++m) seeds[m] = seeds[m - 1] * static_cast<real>(1 - 2 * m);
    found[0] = seeds[ORDER];
#pragma unroll
    for (int m = ORDER - 1; m >= 0; --m) {
#pragma unroll
        for (int degree = ORDER - m; degree > 0; --degree) {
#pragma unroll
            for (int a = 0; a <= degree; ++a) {
#pragma unroll
                for (int b = 0; b <= degree - a; ++b) {
                    const int c = degree - a - b;
                    // Along the axis with the fewest exponents there is the least to add.
                    real value;
                    if (a > 0 && (b == 0 || a <= b) && (c == 0 || a <= c)) {
                        value = x * found[place(a - 1, b, c)];
                        if (a > 1) value += (w * (a - 1)) * found[place(max(a - 2, 0), b, c)];
                    } else if (b > 0 && (c == 0 || b <= c)) {
                        value = y * found[place(a, b - 1, c)];
                        if (b > 1) value += (w * (b - 1)) * found[place(a, max(b - 2, 0), c)];
                    } else {
                        value = z * found[place(a, b, c - 1)];
                        if (c > 1) value += (w * (c - 1)) * found[place(a, b, max(c - 2, 0))];
                    }
                    found[place(a, b, c)] = value;
                }
            }
        }
        found[0] = seeds[m];
    }
}

// Add the local coefficients that a cell causes where its derivatives are `d`.
__device__ __forceinline__ void add_far(real (&sums)[locals], const Row* __restrict__ rows,
                                        const real (&d)[derivatives_kept]) {
#pragma unroll
    for (int degree = 0; degree < ORDER; ++degree) {
        if (degree == 1) continue;
#pragma unroll
        for (int i = 0; i <= degree; ++i) {
#pragma unroll
            for (int j = 0; j <= degree - i; ++j) {
                const int k = degree - i - j;
                const real multipole = rows[multipole_place(i, j, k) / 4].of[multipole_place(i, j, k) % 4];
#pragma unroll
                for (int other = 1; other <= ORDER - degree; ++other) {
#pragma unroll
                    for (int a = 0; a <= other; ++a) {
#pragma unroll
                        for (int b = 0; b <= other - a; ++b) {
                            const int c = other - a - b;
                            sums[local_place(a, b, c)] += multipole * d[place(a + i, b + j, c + k)];
                        }
                    }
                }
            }
        }
    }
}

// Replace the coefficients of x^a y^b z^c by those about a point `h` farther along AXIS.
template <int AXIS>
__device__ __forceinline__ void shift_along(real (&sums)[locals], real h) {
    real powers[ORDER + 1];
    powers[0] = 1;
#pragma unroll
    for (int k = 1; k <= ORDER; ++k) powers[k] = powers[k - 1] * (h * (static_cast<real>(1) / k));
    // Lower degrees first: they need the higher ones as they were.
#pragma unroll
    for (int degree = 1; degree < ORDER; ++degree) {
#pragma unroll
        for (int a = 0; a <= degree; ++a) {
#pragma unroll
            for (int b = 0; b <= degree - a; ++b) {
                const int c = degree - a - b;
                real sum = sums[local_place(a, b, c)];
#pragma unroll
                for (int k = 1; k <= ORDER - degree; ++k) {
                    const int higher = AXIS == 0   ? local_place(a + k, b, c)
                                       : AXIS == 1 ? local_place(a, b + k, c)
                                                   : local_place(a, b, c + k);
                    sum += powers[k] * sums[higher];
                }
                sums[local_place(a, b, c)] = sum;
            }
        }
    }
}

// Replace the local coefficients about a centre by those about another, `h` from the first centre to that one.
__device__ __forceinline__ void shift(real (&sums)[locals], real hx, real hy, real hz) {
    shift_along<0>(sums, hx);
    shift_along<1>(sums, hy);
    shift_along<2>(sums, hz);
}

// Add the acceleration, in units of the expansion, that a cell causes at a point where its derivatives are `d`.
__device__ __forceinline__ void add_pull(Sums& sums, const Row* __restrict__ rows, const real (&d)[derivatives_kept]) {
#pragma unroll
    for (int degree = 0; degree < ORDER; ++degree) {
        if (degree == 1) continue;
#pragma unroll
        for (int i = 0; i <= degree; ++i) {
#pragma unroll
            for (int j = 0; j <= degree - i; ++j) {
                const int k = degree - i - j;
                const real multipole = rows[multipole_place(i, j, k) / 4].of[multipole_place(i, j, k) % 4];
                sums.ax += multipole * d[place(i + 1, j, k)];
                sums.ay += multipole * d[place(i, j + 1, k)];
                sums.az += multipole * d[place(i, j, k + 1)];
            }
        }
    }
}

// Add the acceleration, in units of the expansion, of a body `a` from the centre.
__device__ __forceinline__ void add_field(Sums& sums, const Row* rows, real x, real y, real z, real factor) {
    real powers[monomials_kept];
    monomials(powers, x, y, z);
    real along_x = 0, along_y = 0, along_z = 0;
#pragma unroll
    for (int degree = 0; degree < ORDER; ++degree) {
#pragma unroll
        for (int a = 0; a <= degree; ++a) {
#pragma unroll
            for (int b = 0; b <= degree - a; ++b) {
                const int c = degree - a - b;
                const real power = powers[place(a, b, c)];
                const int of_x = local_place(a + 1, b, c), of_y = local_place(a, b + 1, c),
                          of_z = local_place(a, b, c + 1);
                along_x += rows[of_x / 4].of[of_x % 4] * power;
                along_y += rows[of_y / 4].of[of_y % 4] * power;
                along_z += rows[of_z / 4].of[of_z % 4] * power;
            }
        }
    }
    sums.ax += factor * along_x;
    sums.ay += factor * along_y;
    sums.az += factor * along_z;
}
